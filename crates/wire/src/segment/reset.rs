//! RST: ends a connection, or an attempt at one.

use super::Fields;
use crate::{Flags, StreamId};

/// Ends a connection at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reset {
    /// Why.
    pub reason: ResetReason,
}

/// Why a connection is reset or refused (`spec/protocol.md` \[open-34\]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ResetReason {
    /// Not told: 0, and every number which has no meaning yet.
    Unspecified,
    /// The initiator's static key is not admitted.
    NotAdmitted,
    /// The acceptor cannot read the initiator's first Noise message.
    CannotRead,
}

const UNSPECIFIED: u32 = 0;
const NOT_ADMITTED: u32 = 1;
const CANNOT_READ: u32 = 2;

impl Reset {
    pub(super) const fn fields(self) -> Fields {
        let s1 = match self.reason {
            ResetReason::Unspecified => UNSPECIFIED,
            ResetReason::NotAdmitted => NOT_ADMITTED,
            ResetReason::CannotRead => CANNOT_READ,
        };
        Fields { flags: Flags::RST, block_id: 0, s1, s2: 0, stream: StreamId::FIRST }
    }

    pub(super) const fn read(fields: Fields) -> Self {
        let reason = match fields.s1 {
            NOT_ADMITTED => ResetReason::NotAdmitted,
            CANNOT_READ => ResetReason::CannotRead,
            _ => ResetReason::Unspecified,
        };
        Self { reason }
    }
}
