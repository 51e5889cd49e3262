//! ACK: a family of small segments which S1 tells apart.

use super::Fields;
use crate::{DecodeError, Flags};

/// Acknowledges something, or keeps a connection or a path alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// Shows that its sender is there, and asks for a report.
    KeepAlive,
    /// Acknowledges a FIN.
    OfFin {
        /// The FIN's: one past the last block.
        end: u32,
        /// Proof of all blocks before that; 0 in connections without proofs.
        proof: u32,
    },
    /// Acknowledges a SYNACK: the handshake is done.
    OfSynAck {
        /// Number of the SYNACK.
        echo: u32,
    },
    /// Asks whether the peer receives at the address which this goes to.
    PathChallenge {
        /// Unpredictable to others.
        token: u64,
    },
    /// Proves that its sender receives where the challenge went.
    PathResponse {
        /// The challenge's.
        token: u64,
    },
    /// Has the third Noise message in its payload, a [handshake payload](crate::handshake::Payload). Always in the clear;
    /// the payload tells it from [`KeepAlive`](Self::KeepAlive).
    Noise,
}

const KEEP_ALIVE: u32 = 0;
const OF_FIN: u32 = 1;
const OF_SYN_ACK: u32 = 2;
const PATH_CHALLENGE: u32 = 3;
const PATH_RESPONSE: u32 = 4;

impl Ack {
    pub(super) const fn fields(self) -> Fields {
        let (block_id, s1, s2) = match self {
            Self::KeepAlive | Self::Noise => (0, KEEP_ALIVE, 0),
            Self::OfFin { end, proof } => (end, OF_FIN, proof),
            Self::OfSynAck { echo } => (0, OF_SYN_ACK, echo),
            Self::PathChallenge { token } => ((token >> 32) as u32, PATH_CHALLENGE, token as u32),
            Self::PathResponse { token } => ((token >> 32) as u32, PATH_RESPONSE, token as u32),
        };
        Fields { flags: Flags::ACK, block_id, s1, s2 }
    }

    /// `has_handshake` says that the segment is in the clear and has a payload.
    pub(super) fn read(fields: Fields, has_handshake: bool) -> Result<Self, DecodeError> {
        let token = u64::from(fields.block_id) << 32 | u64::from(fields.s2);
        match fields.s1 {
            KEEP_ALIVE if has_handshake => Ok(Self::Noise),
            KEEP_ALIVE => Ok(Self::KeepAlive),
            OF_FIN => Ok(Self::OfFin { end: fields.block_id, proof: fields.s2 }),
            OF_SYN_ACK => Ok(Self::OfSynAck { echo: fields.s2 }),
            PATH_CHALLENGE => Ok(Self::PathChallenge { token }),
            PATH_RESPONSE => Ok(Self::PathResponse { token }),
            s1 => Err(DecodeError::AckKind { s1 }),
        }
    }
}
