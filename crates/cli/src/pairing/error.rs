//! Errors of a pairing.

use std::io;

/// Reason why a code cannot be tried, or was refused; sent in a REFUSED frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// The two sides have different codes or different connections.
    #[error(
        "the two sides do not have the same pairing code: each code works once, so compare it with the newest one of the side that \
         listens and try again; if it is the same, somebody on the path is posing as the other side, so use another path and a new code"
    )]
    WrongCode = 1,
    /// The code has already been used.
    #[error(
        "the pairing code has been used, and works only once: to go on with the transfer that it began, leave --code out; for anything \
         else take the newest one of the side that listens"
    )]
    Used = 2,
    /// The limit of wrong guesses is reached.
    #[error("the pairing code is void after too many wrong guesses; let the side that listens make a new one")]
    Guessed = 3,
    /// The code has expired.
    #[error("the pairing code has expired; let the side that listens make a new one")]
    Expired = 4,
    /// All remaining guesses are in use by other runs.
    #[error("somebody else is trying the pairing code at this moment; try again in half a minute")]
    Busy = 5,
    /// The other side broke the protocol.
    #[error("the other side could not read what this one sent for the pairing; use the same version on both sides")]
    Protocol = 6,
    /// This receiver issues no codes.
    #[error("no pairing code is in use there; leave --code out, or start the other side with --code")]
    NoCode = 7,
}

impl Refusal {
    /// Parses the reason; `None` for a reason that only later versions know.
    pub(super) fn from_wire(reason: u8) -> Option<Self> {
        use Refusal::{Busy, Expired, Guessed, NoCode, Protocol, Used, WrongCode};
        let known = [WrongCode, Used, Guessed, Expired, Busy, Protocol, NoCode];
        known.into_iter().find(|refusal| *refusal as u8 == reason)
    }
}

/// Reason why two sides are not paired.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// This side refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The peer refused.
    #[error("{0}")]
    PeerRefused(Refusal),
    /// The peer refused for a reason unknown to this version.
    #[error("the peer refused the pairing for reason {0}, which this version does not know; update this side")]
    RefusedOtherwise(u8),
    /// The received bytes are not a pairing frame.
    #[error("the peer does not speak the pairing protocol; is the right dfcp command running there, with a code?")]
    NotPairing,
    /// The frame has another version.
    #[error("the peer speaks version {0} of the pairing protocol and this is version 1; update the older of the two")]
    Version(u8),
    /// A frame is malformed or out of order.
    #[error("the peer broke the pairing protocol ({0}); use the same version on both sides")]
    Protocol(&'static str),
    /// The peer closed the stream early.
    #[error("the peer closed the connection during the pairing; see its messages and try again")]
    Closed,
    /// The connection broke. The message includes the cause, so `source` is empty.
    #[error("the connection was lost during the pairing ({0}); try again when the path is back")]
    Connection(io::Error),
    /// The peer exceeded the time limit.
    #[error("the pairing did not end within {seconds} s; see whether the other side runs, and try again")]
    TimedOut {
        /// Time limit of a pairing, s.
        seconds: u64,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers ({0}); nobody can be paired until it does")]
    Random(getrandom::Error),
}

impl PairingError {
    /// Returns the refusal of the code by either side; `None` for any other error.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) | Self::PeerRefused(refusal) => Some(*refusal),
            _ => None,
        }
    }
}
