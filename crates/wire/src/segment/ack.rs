//! ACK: a family of small segments, distinguished by S1.

use super::Fields;
use crate::draft::Trailer;
use crate::{DecodeError, Features, Flags, StreamId};

/// Small control segment, for example an acknowledgement, an end, a keep-alive, or a path check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// Keep-alive, which requests a report.
    KeepAlive {
        /// Stream to be reported.
        stream: StreamId,
    },
    /// Acknowledges a FIN.
    OfFin {
        /// Stream of the FIN.
        stream: StreamId,
        /// End stated by the FIN: one above the id of the last block.
        end: u32,
        /// Proof of all blocks before the end; 0 in connections without proofs.
        proof: u32,
    },
    /// Acknowledges a SYNACK, which completes the handshake.
    OfSynAck {
        /// Datagram number of the SYNACK.
        echo: u32,
    },
    /// Challenges the peer to prove that it receives at the destination address.
    PathChallenge {
        /// Token that others cannot predict.
        token: u64,
    },
    /// Proves that its sender received the challenge at its source address.
    PathResponse {
        /// Token of the challenge.
        token: u64,
    },
    /// Abandons the sender's half of a stream: missing data will not be sent.
    ResetStream {
        /// Id of the reset stream.
        stream: StreamId,
        /// Error code of the application.
        error: u32,
        /// One above the id of the last block that was started.
        end: u32,
    },
    /// Acknowledges a [`ResetStream`](Self::ResetStream).
    OfReset {
        /// Id of the reset stream.
        stream: StreamId,
        /// Number of distinct useful data datagrams of the stream, modulo 2³².
        served: u32,
    },
    /// Asks the peer to abandon its half of a stream.
    StopSending {
        /// Id of the stream to abandon.
        stream: StreamId,
        /// Error code of the application.
        error: u32,
    },
    /// Probes whether the path carries datagrams of this size; zero padding in the payload makes up the size. Belongs
    /// to the feature [`PATH_PROBES`](Features::PATH_PROBES).
    PathProbe,
    /// Confirms the arrival of a [`PathProbe`](Self::PathProbe); same feature.
    OfPathProbe {
        /// Datagram number of the probe.
        echo: u32,
    },
    /// Carries the third Noise message in its payload, a [handshake payload](crate::handshake::Payload). Always in
    /// plaintext. The non-empty payload distinguishes it from [`KeepAlive`](Self::KeepAlive).
    Noise,
    /// Answers segments of a stream whose state was deleted, because both halves have ended.
    Gone {
        /// Deleted stream.
        stream: StreamId,
    },
    /// Asks a silent peer whether it has lost the session. The payload is the query from that peer's
    /// [`ResetTicket`](Self::ResetTicket), with padding. Always in plaintext, because a peer that has lost the session
    /// has lost its keys, too.
    SessionQuery {
        /// Connection id of the asking side, to which the answer is sent.
        from: u32,
    },
    /// Gives the peer the reset ticket in the payload (`spec/security.md` \[reset-1\]): a query that the peer sends if
    /// this side falls silent, and its answer. Meaningful only if encrypted.
    ResetTicket,
    /// Acknowledges a [`ResetTicket`](Self::ResetTicket).
    OfResetTicket,
}

/// Payload length of [`Ack::ResetTicket`], bytes: a query of 16 bytes, and a token of 16 bytes that answers it.
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

    /// Returns the stream of the segment; [`StreamId::FIRST`] if its kind belongs to no stream.
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
            // A Noise message is never encrypted and never empty.
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

/// Checks that all padding is zero (like RFC 9000 §19.1).
fn check_padding(payload: &[u8]) -> Result<(), DecodeError> {
    match payload.iter().find(|byte| **byte != 0) {
        None => Ok(()),
        Some(&found) => Err(DecodeError::ProbePadding { found }),
    }
}
