//! Segments of the classic profile, the protocol of the thesis. The checksum is in the header, and no segment is ever
//! encrypted.
//!
//! Sending and receiving work like for [modern segments](crate::segment).

use crate::draft::{Checksum, Draft};
use crate::header::{Header, RawHeader};
use crate::options::{BLOCK_LENGTH_OPTION_BYTES, Options};
use crate::sizes::{DatagramBuffer, HEADER_BYTES};
use crate::{DecodeError, Flags, Ports, Profile};

pub use crate::options::BlockLength;

/// S1 to S3 as the state of a taus88 generator. The decoder of the code must check the state's validity.
pub type StateWords = [u32; 3];

/// A classic segment without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Requests a connection.
    Syn {
        /// The sender's initial generator state.
        initial: StateWords,
    },
    /// Answers a SYN.
    SynAck {
        /// The sender's initial generator state.
        initial: StateWords,
    },
    /// Acknowledges a SYNACK; retransmitted to keep the connection alive.
    HandshakeAck {
        /// Initial generator state of the peer. It must not be all zeros (an invalid state), which would make the
        /// segment a [`BlockAck`](Self::BlockAck).
        echo: StateWords,
    },
    /// Carries encoding symbols, of one byte each, as its payload.
    Data {
        /// Block of the symbols.
        block_id: u32,
        /// Generator state before the payload's first symbol was drawn.
        state: StateWords,
        /// True length of the block, if it is shorter than a full block.
        block_length: Option<BlockLength>,
    },
    /// Acknowledges a block (`spec/protocol.md` \[classic-4\]), or a FIN if the id is one above the last block.
    BlockAck {
        /// Id of the block.
        block_id: u32,
    },
    /// Ends the sender's stream.
    Fin {
        /// Id one above the stream's last block.
        end: u32,
    },
    /// Ends the sender's stream and acknowledges the peer's FIN.
    FinAck {
        /// Id one above the last block of the sender's stream.
        end: u32,
    },
    /// Ends a connection immediately.
    Reset {
        /// Generator state that the receiver of this segment announced.
        echo: StateWords,
    },
}

const SYN_ACK: Flags = Flags::SYN.union(Flags::ACK);
const FIN_ACK: Flags = Flags::FIN.union(Flags::ACK);
const NO_STATE: StateWords = [0; 3];

impl Segment {
    /// Writes header and options to the front of `out`. This cannot fail: each value has the range of its field, and
    /// the buffer has room.
    pub fn begin<'a>(&self, ports: Ports, out: &'a mut DatagramBuffer) -> Draft<'a, Checksum> {
        let (flags, block_id, [s1, s2, s3]) = self.fields();
        let option = match self {
            Self::Data { block_length: Some(length), .. } => Some(length.to_option()),
            _ => None,
        };
        let payload_start = HEADER_BYTES + option.map_or(0, |option| option.len());
        let header = Header {
            source_port: ports.source,
            destination_port: ports.destination,
            block_id,
            s1,
            flags,
            profile: Profile::Classic,
            epoch: 0,
            s2,
            s3,
        };
        out[..HEADER_BYTES].copy_from_slice(&header.to_bytes((payload_start / 4) as u8));
        if let Some(option) = option {
            out[HEADER_BYTES..HEADER_BYTES + BLOCK_LENGTH_OPTION_BYTES].copy_from_slice(&option);
        }
        Draft::new(out, payload_start, 0, Checksum)
    }

    /// Returns the flags, the block id, and S1 to S3.
    const fn fields(&self) -> (Flags, u32, StateWords) {
        match *self {
            Self::Syn { initial } => (Flags::SYN, 0, initial),
            Self::SynAck { initial } => (SYN_ACK, 0, initial),
            Self::HandshakeAck { echo } => (Flags::ACK, 0, echo),
            Self::Data { block_id, state, .. } => (Flags::NONE, block_id, state),
            Self::BlockAck { block_id } => (Flags::ACK, block_id, NO_STATE),
            Self::Fin { end } => (Flags::FIN, end, NO_STATE),
            Self::FinAck { end } => (FIN_ACK, end, NO_STATE),
            Self::Reset { echo } => (Flags::RST, 0, echo),
        }
    }

    fn read(header: &Header, options: &Options) -> Result<Self, DecodeError> {
        let words = [header.s1, header.s2, header.s3];
        let block_id = header.block_id;
        match header.flags {
            Flags::NONE => {
                let block_length = options.block_length.and_then(BlockLength::new);
                Ok(Self::Data { block_id, state: words, block_length })
            }
            Flags::SYN => Ok(Self::Syn { initial: words }),
            SYN_ACK => Ok(Self::SynAck { initial: words }),
            Flags::ACK if words == NO_STATE => Ok(Self::BlockAck { block_id }),
            Flags::ACK => Ok(Self::HandshakeAck { echo: words }),
            Flags::FIN => Ok(Self::Fin { end: block_id }),
            FIN_ACK => Ok(Self::FinAck { end: block_id }),
            Flags::RST => Ok(Self::Reset { echo: words }),
            flags => Err(DecodeError::FlagCombination { flags }),
        }
    }
}

/// A segment whose checksum was verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// The decoded segment.
    pub segment: Segment,
    /// Bytes after header and options.
    pub payload: &'a [u8],
}

/// Unverified header of a classic datagram, for routing.
#[derive(Clone, Copy, Debug)]
pub struct Unverified(pub(crate) RawHeader);

impl Unverified {
    /// Returns true for a SYN.
    #[must_use]
    pub fn is_syn(&self) -> bool {
        self.0.header.flags == Flags::SYN
    }

    /// Returns the ports of the two applications.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        Ports::from_word(self.0.header.connection_id())
    }

    /// Verifies the checksum of `datagram`, which must be the datagram of this header, and decodes the segment.
    ///
    /// # Errors
    /// Fails with the first fault found; see [`DecodeError`]. The segment is decoded only after its checksum was
    /// verified.
    pub fn verify<'a>(&self, datagram: &'a [u8]) -> Result<Received<'a>, DecodeError> {
        self.0.verify_checksum(datagram)?;
        let payload = self.0.payload(datagram, datagram.len())?;
        let options = self.0.options(datagram)?;
        Ok(Received { segment: Segment::read(&self.0.header, &options)?, payload })
    }
}
