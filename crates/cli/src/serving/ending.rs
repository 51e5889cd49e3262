//! Outcome of a server's session, and the return of its peer.

use std::time::Duration;

use dfcp::{ConnectionError, PublicKey};
use dfcp_files::TransferError;

use crate::admission::By;
use crate::limits::RETURNS_SOON;

/// Outcome of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// Everything requested was done.
    Complete,
    /// Something was not done, and a retry would not help.
    Incomplete,
    /// The peer or its path has failed.
    Lost,
    /// The peer ended the session, possibly because it has reconnected.
    Left,
}

impl From<bool> for SessionEnd {
    fn from(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}

impl SessionEnd {
    /// Returns the outcome of a session that failed with this error.
    #[must_use]
    pub fn of(error: &TransferError) -> Self {
        match error {
            TransferError::Displaced => Self::Left,
            TransferError::Connection(error) if is_silence(error) => Self::Lost,
            error if error.may_be_resumed() => Self::Left,
            _ => Self::Incomplete,
        }
    }

    /// Returns the time for which a single-peer server waits for its peer's return, at most `most`.
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

/// Identity of the only peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// Peer with this key.
    Key(PublicKey),
    /// Holder of the pre-shared key; all holders count as one.
    PreShared,
}

impl Served {
    /// Returns the identity of a peer admitted for reason `by`; `None` if the peer cannot be recognised again.
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
