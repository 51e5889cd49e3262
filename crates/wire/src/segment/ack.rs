//! ACK: a family of small segments which S1 tells apart.

use super::Fields;
use crate::draft::Trailer;
use crate::{DecodeError, Features, Flags, StreamId};

/// Acknowledges or ends something, or keeps a connection or a path alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// Shows that its sender is there, and asks for a report.
    KeepAlive {
        /// The stream which the report should name.
        stream: StreamId,
    },
    /// Acknowledges a FIN.
    OfFin {
        /// The stream of the FIN.
        stream: StreamId,
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
        /// The token of the challenge.
        token: u64,
    },
    /// Gives up the sender's half of a stream: what the peer lacks of it will not come.
    ResetStream {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        error: u32,
        /// One past the last block which was begun.
        end: u32,
    },
    /// Acknowledges a [`ResetStream`](Self::ResetStream).
    OfReset {
        /// The reset stream.
        stream: StreamId,
        /// Data datagrams of it which were not in vain, distinct, modulo 2³².
        served: u32,
    },
    /// Asks the peer to give up its half of a stream.
    StopSending {
        /// The stream.
        stream: StreamId,
        /// The application's reason.
        error: u32,
    },
    /// Asks whether the path carries datagrams of this one's size, to which zeros in its payload pad it. Of the feature
    /// [`PATH_PROBES`](Features::PATH_PROBES).
    PathProbe,
    /// Answers a [`PathProbe`](Self::PathProbe): it has arrived. Of the same feature.
    OfPathProbe {
        /// Number of the probe's datagram.
        echo: u32,
    },
    /// Has the third Noise message in its payload, a [handshake payload](crate::handshake::Payload). Always in the clear;
    /// the payload tells it from [`KeepAlive`](Self::KeepAlive).
    Noise,
    /// Answers what is about a stream of which its sender keeps nothing any more: both halves have ended.
    Gone {
        /// The stream.
        stream: StreamId,
    },
    /// Asks a peer that has fallen silent whether it has lost the session. The payload is the question from that
    /// peer's [`ResetTicket`](Self::ResetTicket), padded. Always in the clear: a peer that has lost the session has lost its keys.
    SessionQuery {
        /// The connection id of the asking side, to which the answer goes.
        from: u32,
    },
    /// Tells the peer the reset ticket in the payload (`spec/security.md` \[reset-1\]): what to ask if this side falls silent. Only where it is
    /// sealed does it mean anything.
    ResetTicket,
    /// Acknowledges a [`ResetTicket`](Self::ResetTicket).
    OfResetTicket,
}

/// Bytes of the payload of [`Ack::ResetTicket`]: a question of 16, and the token of 16 that answers it.
pub const RESET_TICKET_BYTES: usize = 32;

const KEEP_ALIVE: u32 = 0;
const OF_FIN: u32 = 1;
const OF_SYN_ACK: u32 = 2;
const PATH_CHALLENGE: u32 = 3;
const PATH_RESPONSE: u32 = 4;
const RESET_STREAM: u32 = 5;
const OF_RESET: u32 = 6;
const STOP_SENDING: u32 = 7;
const PATH_PROBE: u32 = 8;
const OF_PATH_PROBE: u32 = 9;
const GONE: u32 = 10;
pub(super) const SESSION_QUERY: u32 = 11;
const RESET_TICKET: u32 = 12;
const OF_RESET_TICKET: u32 = 13;

impl Ack {
    pub(super) const fn fields(self) -> Fields {
        let (block_id, s1, s2) = match self {
            Self::KeepAlive { .. } | Self::Noise => (0, KEEP_ALIVE, 0),
            Self::OfFin { end, proof, .. } => (end, OF_FIN, proof),
            Self::OfSynAck { echo } => (0, OF_SYN_ACK, echo),
            Self::PathChallenge { token } => ((token >> 32) as u32, PATH_CHALLENGE, token as u32),
            Self::PathResponse { token } => ((token >> 32) as u32, PATH_RESPONSE, token as u32),
            Self::ResetStream { error, end, .. } => (end, RESET_STREAM, error),
            Self::OfReset { served, .. } => (0, OF_RESET, served),
            Self::StopSending { error, .. } => (0, STOP_SENDING, error),
            Self::PathProbe => (0, PATH_PROBE, 0),
            Self::OfPathProbe { echo } => (0, OF_PATH_PROBE, echo),
            Self::Gone { .. } => (0, GONE, 0),
            Self::SessionQuery { from } => (from, SESSION_QUERY, 0),
            Self::ResetTicket => (0, RESET_TICKET, 0),
            Self::OfResetTicket => (0, OF_RESET_TICKET, 0),
        };
        Fields { flags: Flags::ACK, block_id, s1, s2, stream: self.stream() }
    }

    /// [`StreamId::FIRST`] also for what belongs to no stream.
    const fn stream(self) -> StreamId {
        match self {
            Self::KeepAlive { stream }
            | Self::OfFin { stream, .. }
            | Self::ResetStream { stream, .. }
            | Self::OfReset { stream, .. }
            | Self::StopSending { stream, .. }
            | Self::Gone { stream } => stream,
            Self::OfSynAck { .. }
            | Self::PathChallenge { .. }
            | Self::PathResponse { .. }
            | Self::PathProbe
            | Self::OfPathProbe { .. }
            | Self::SessionQuery { .. }
            | Self::ResetTicket
            | Self::OfResetTicket
            | Self::Noise => StreamId::FIRST,
        }
    }

    pub(super) const fn needs(self) -> Features {
        match self {
            Self::PathProbe | Self::OfPathProbe { .. } => Features::PATH_PROBES,
            _ => Features::NONE,
        }
    }

    pub(super) fn read(fields: Fields, payload: &[u8], trailer: Trailer) -> Result<Self, DecodeError> {
        let Fields { block_id, s1, s2, stream, .. } = fields;
        let token = u64::from(block_id) << 32 | u64::from(s2);
        match s1 {
            // A Noise message is never sealed, and never empty.
            KEEP_ALIVE if trailer == Trailer::Crc && !payload.is_empty() => {
                fields.without_stream().map(|_| Self::Noise)
            }
            KEEP_ALIVE => Ok(Self::KeepAlive { stream }),
            OF_FIN => Ok(Self::OfFin { stream, end: block_id, proof: s2 }),
            OF_SYN_ACK => fields.without_stream().map(|_| Self::OfSynAck { echo: s2 }),
            PATH_CHALLENGE => fields.without_stream().map(|_| Self::PathChallenge { token }),
            PATH_RESPONSE => fields.without_stream().map(|_| Self::PathResponse { token }),
            RESET_STREAM => Ok(Self::ResetStream { stream, error: s2, end: block_id }),
            OF_RESET => Ok(Self::OfReset { stream, served: s2 }),
            STOP_SENDING => Ok(Self::StopSending { stream, error: s2 }),
            PATH_PROBE => fields.without_stream().and_then(|_| check_padding(payload)).map(|()| Self::PathProbe),
            OF_PATH_PROBE => fields.without_stream().map(|_| Self::OfPathProbe { echo: s2 }),
            GONE => Ok(Self::Gone { stream }),
            SESSION_QUERY if trailer == Trailer::Crc => {
                fields.without_stream().map(|_| Self::SessionQuery { from: block_id })
            }
            RESET_TICKET => fields.without_stream().map(|_| Self::ResetTicket),
            OF_RESET_TICKET => fields.without_stream().map(|_| Self::OfResetTicket),
            s1 => Err(DecodeError::AckKind { s1 }),
        }
    }
}

/// Padding is zeros (as in RFC 9000 §19.1): anything else would say something that nobody reads.
fn check_padding(payload: &[u8]) -> Result<(), DecodeError> {
    match payload.iter().find(|byte| **byte != 0) {
        None => Ok(()),
        Some(&found) => Err(DecodeError::ProbePadding { found }),
    }
}
