//! The end of a server's session, and the peer that may come back after it.

use std::time::Duration;

use dfcp::{ConnectionError, PublicKey};

use crate::admission::By;
use crate::limits::RETURNS_SOON;
use crate::retry::is_transient_loss;
use crate::transfer::error::TransferError;

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// All that was asked for is done.
    Complete,
    /// Something is not, and the same peer would not do better.
    Incomplete,
    /// The peer is gone, or its path.
    Lost,
    /// The peer has ended it, as it also does when it has connected again.
    Left,
}

impl From<bool> for SessionEnd {
    fn from(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}

impl SessionEnd {
    /// An end by this error.
    #[must_use]
    pub fn of(error: &TransferError) -> Self {
        match error {
            TransferError::Displaced => Self::Left,
            TransferError::Connection(error) if is_silence(error) => Self::Lost,
            error if is_transient_loss(error) => Self::Left,
            _ => Self::Incomplete,
        }
    }

    /// The time for which a server of one peer waits for that to come back, `most` at most.
    #[must_use]
    pub fn returns_within(self, most: Duration) -> Duration {
        match self {
            Self::Complete | Self::Incomplete => Duration::ZERO,
            Self::Left => RETURNS_SOON.min(most),
            Self::Lost => most,
        }
    }
}

fn is_silence(error: &std::io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(ConnectionError::TimedOut | ConnectionError::PeerLostSession | ConnectionError::CloseTimeout))
}

/// Whom a server of one peer serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// The one with this key.
    Key(PublicKey),
    /// One that has the secret. All who have it are one.
    PreShared,
}

impl Served {
    /// The peer that has been admitted so; `None` if it cannot be recognized again.
    pub(super) fn of(key: Option<PublicKey>, by: Option<By>) -> Option<Self> {
        match (key, by) {
            (Some(key), _) => Some(Self::Key(key)),
            (None, Some(By::PreShared)) => Some(Self::PreShared),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use dfcp_framing::error::{Failure, FailureCode, ProtocolError};

    use super::*;

    #[test]
    fn a_peer_that_fell_silent_is_waited_for_longer_than_one_that_left_and_one_that_failed_not_at_all() {
        let ended = |why| TransferError::Connection(io::Error::other(why));
        let refused = |code| TransferError::Refused(Failure::new(code, "why"));
        for (error, end) in [
            (ended(ConnectionError::TimedOut), SessionEnd::Lost),
            (ended(ConnectionError::PeerLostSession), SessionEnd::Lost),
            (ended(ConnectionError::Reset), SessionEnd::Left),
            (TransferError::PeerClosed, SessionEnd::Left),
            (refused(FailureCode::Stopped), SessionEnd::Left),
            (TransferError::Displaced, SessionEnd::Left),
            (refused(FailureCode::Unsuited), SessionEnd::Incomplete),
            (ProtocolError::Summary.into(), SessionEnd::Incomplete),
            (TransferError::Stopped, SessionEnd::Incomplete),
        ] {
            assert_eq!(SessionEnd::of(&error), end, "{error}");
        }
        let hour = Duration::from_secs(3600);
        assert_eq!(SessionEnd::Lost.returns_within(hour), hour);
        assert_eq!(SessionEnd::Left.returns_within(hour), RETURNS_SOON);
        for (end, most) in
            [(SessionEnd::Lost, Duration::ZERO), (SessionEnd::Left, Duration::ZERO), (SessionEnd::Incomplete, hour)]
        {
            assert_eq!(end.returns_within(most), Duration::ZERO);
        }
    }
}
