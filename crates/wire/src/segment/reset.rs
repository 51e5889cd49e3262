//! RST: resets or refuses a connection.

use super::Fields;
use crate::{Flags, StreamId};

/// Resets a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reset {
    /// Reason of the reset.
    pub reason: ResetReason,
}

/// Reason to reset or refuse a connection (`spec/protocol.md` \[open-34\], \[rst-6\], \[rst-8\]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResetReason {
    /// No reason: number 0, and every unassigned number.
    Unspecified,
    /// The initiator's static key is not admitted.
    NotAdmitted,
    /// The acceptor cannot decrypt the initiator's first Noise message.
    CannotRead,
    /// The application aborted the session.
    Application {
        /// Error code for the peer's application.
        error: u32,
    },
    /// The path does not carry packets of the minimum size.
    PathTooNarrow,
    /// The sender has lost the session, if the payload is the token that proves this. Always in plaintext.
    SessionUnknown,
}

const UNSPECIFIED: u32 = 0;
const NOT_ADMITTED: u32 = 1;
const CANNOT_READ: u32 = 2;
const APPLICATION: u32 = 3;
const PATH_TOO_NARROW: u32 = 4;
const SESSION_UNKNOWN: u32 = 5;

impl Reset {
    pub(super) const fn fields(self) -> Fields {
        let (s1, s2) = match self.reason {
            ResetReason::Unspecified => (UNSPECIFIED, 0),
            ResetReason::NotAdmitted => (NOT_ADMITTED, 0),
            ResetReason::CannotRead => (CANNOT_READ, 0),
            ResetReason::Application { error } => (APPLICATION, error),
            ResetReason::PathTooNarrow => (PATH_TOO_NARROW, 0),
            ResetReason::SessionUnknown => (SESSION_UNKNOWN, 0),
        };
        Fields { flags: Flags::RST, block_id: 0, s1, s2, stream: StreamId::FIRST }
    }

    pub(super) const fn read(fields: Fields) -> Self {
        let reason = match fields.s1 {
            NOT_ADMITTED => ResetReason::NotAdmitted,
            CANNOT_READ => ResetReason::CannotRead,
            APPLICATION => ResetReason::Application { error: fields.s2 },
            PATH_TOO_NARROW => ResetReason::PathTooNarrow,
            SESSION_UNKNOWN => ResetReason::SessionUnknown,
            _ => ResetReason::Unspecified,
        };
        Self { reason }
    }
}
