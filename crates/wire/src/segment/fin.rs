//! FIN, and FINACK, which is a FIN that also acknowledges the peer's FIN.

use super::Fields;
use crate::{Flags, StreamId};

/// Ends the sender's half of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fin {
    /// Id of the stream to end.
    pub stream: StreamId,
    /// One above the id of the last block.
    pub end: u32,
    /// Proof of all blocks of the peer's half in a FINACK; 0 in connections without proofs. `None` in a FIN.
    pub ack_proof: Option<u32>,
}

impl Fin {
    pub(super) const FIN_ACK: Flags = Flags::FIN.union(Flags::ACK);

    pub(super) const fn fields(self) -> Fields {
        let (flags, s2) = match self.ack_proof {
            None => (Flags::FIN, 0),
            Some(proof) => (Self::FIN_ACK, proof),
        };
        Fields { flags, block_id: self.end, s1: 0, s2, stream: self.stream }
    }

    pub(super) fn read(fields: Fields) -> Self {
        let is_ack = fields.flags.contains(Flags::ACK);
        Self { stream: fields.stream, end: fields.block_id, ack_proof: is_ack.then_some(fields.s2) }
    }
}
