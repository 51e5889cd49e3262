//! Contents of a datagram that are visible without keys, for traces and tools that read captures.

use crate::header::{Extension, RawHeader};
use crate::{CRC_BYTES, DecodeError, Flags, Profile, StreamId, TAG_BYTES};

const SYN_ACK: Flags = Flags::SYN.union(Flags::ACK);
const FIN_ACK: Flags = Flags::FIN.union(Flags::ACK);

/// Kinds of segments of both profiles (`spec/wire-format.md` §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentKind {
    /// Requests a connection.
    Syn,
    /// Answers a SYN.
    SynAck,
    /// Carries a symbol of a stream's block.
    Data,
    /// Carries a symbol of one or several messages.
    Message,
    /// Carries a feedback report.
    Feedback,
    /// Ends one half of a stream.
    Fin,
    /// Ends one half of a stream, and acknowledges the end of the other half.
    FinAck,
    /// Resets the connection.
    Reset,
    /// Keep-alive, which also requests a report on a stream.
    KeepAlive,
    /// Acknowledges a FIN.
    AckOfFin,
    /// Acknowledges a SYNACK.
    AckOfSynAck,
    /// Acknowledges a classic block or FIN.
    AckOfBlock,
    /// Challenges the peer to prove that it receives at an address.
    PathChallenge,
    /// Answers a path challenge.
    PathResponse,
    /// Resets one half of a stream.
    StreamReset,
    /// Acknowledges a stream reset.
    AckOfStreamReset,
    /// Asks the peer to end its half of a stream.
    StopSending,
    /// Probes whether a packet of this size arrives.
    PathProbe,
    /// Answers a path probe.
    AckOfPathProbe,
    /// Reports that the state of a stream was deleted.
    Gone,
    /// Third message of an encrypted handshake.
    NoiseAck,
    /// Asks whether the peer has lost the session.
    SessionQuery,
    /// Gives the peer a query to send if this side falls silent.
    ResetTicket,
    /// Acknowledges a reset ticket.
    AckOfResetTicket,
}

impl SegmentKind {
    /// Returns an identifier for programs: lower-case words joined by underscores.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Syn => "syn",
            Self::SynAck => "synack",
            Self::Data => "data",
            Self::Message => "message",
            Self::Feedback => "report",
            Self::Fin => "fin",
            Self::FinAck => "finack",
            Self::Reset => "rst",
            Self::KeepAlive => "keep_alive",
            Self::AckOfFin => "ack_of_fin",
            Self::AckOfSynAck => "ack_of_synack",
            Self::AckOfBlock => "ack_of_block",
            Self::PathChallenge => "path_challenge",
            Self::PathResponse => "path_response",
            Self::StreamReset => "reset_of_stream",
            Self::AckOfStreamReset => "ack_of_reset",
            Self::StopSending => "stop_sending",
            Self::PathProbe => "path_probe",
            Self::AckOfPathProbe => "ack_of_path_probe",
            Self::Gone => "gone",
            Self::NoiseAck => "ack_with_noise_message",
            Self::SessionQuery => "session_query",
            Self::ResetTicket => "reset_ticket",
            Self::AckOfResetTicket => "ack_of_reset_ticket",
        }
    }
}

/// Unverified header of a datagram, which may be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Profile of the header.
    pub profile: Profile,
    /// True if the payload is encrypted.
    pub is_sealed: bool,
    /// Kind of the segment, as far as it is visible without keys.
    pub kind: SegmentKind,
    /// Connection id of a modern segment other than SYN. In other segments, the source port is in the upper half, and
    /// the destination port in the lower half.
    pub address: u32,
    /// Block id field.
    pub block_id: u32,
    /// Field S1: encoding symbol id in data and message segments.
    pub s1: u32,
    /// Field S2: [`BlockInfo`](crate::BlockInfo) in data segments.
    pub s2: u32,
    /// Field S3: lower 32 bits of the datagram number in modern segments.
    pub s3: u32,
    /// Stream of a modern segment, if its kind belongs to a stream; [`StreamId::FIRST`] if none is stated.
    pub stream: StreamId,
    /// Offset of the payload, bytes.
    pub payload_at: usize,
}

impl Outline {
    /// Reads the header of a datagram.
    ///
    /// # Errors
    /// Fails if the datagram is too short or too long, or the header matches no segment.
    pub fn of(datagram: &[u8]) -> Result<Self, DecodeError> {
        let raw = RawHeader::of_datagram(datagram)?;
        let header = raw.header;
        let is_modern = header.profile == Profile::Modern;
        let is_sealed = header.flags.contains(Flags::SEC);
        let trailer_bytes = match (is_modern, is_sealed) {
            (true, true) => TAG_BYTES,
            (true, false) => CRC_BYTES,
            (false, _) => 0,
        };
        let has_payload = datagram.len() > raw.data_offset_bytes + trailer_bytes;
        let kind = if is_modern { modern(&raw, is_sealed, has_payload)? } else { classic(&raw)? };
        let has_options = !is_modern || matches!(kind, SegmentKind::Syn | SegmentKind::SynAck);
        let stream = match if has_options { None } else { Some(raw.extension()?) } {
            Some(Extension::Stream(stream)) => stream,
            Some(Extension::Message) | None => StreamId::FIRST,
        };
        Ok(Self {
            profile: header.profile,
            is_sealed,
            kind,
            address: header.connection_id(),
            block_id: header.block_id,
            s1: header.s1,
            s2: header.s2,
            s3: header.s3,
            stream,
            payload_at: raw.data_offset_bytes,
        })
    }
}

fn modern(raw: &RawHeader, is_sealed: bool, has_payload: bool) -> Result<SegmentKind, DecodeError> {
    let flags = raw.header.flags.without(Flags::SEC);
    Ok(match flags {
        Flags::NONE => SegmentKind::Data,
        Flags::MESSAGE => SegmentKind::Message,
        Flags::FBK => SegmentKind::Feedback,
        Flags::FIN => SegmentKind::Fin,
        Flags::RST => SegmentKind::Reset,
        Flags::ACK => return acknowledgement(raw.header.s1, is_sealed, has_payload),
        FIN_ACK => SegmentKind::FinAck,
        Flags::SYN if !is_sealed => SegmentKind::Syn,
        SYN_ACK if !is_sealed => SegmentKind::SynAck,
        _ => return Err(DecodeError::FlagCombination { flags }),
    })
}

/// Returns the kind of an ACK. With S1 = 0, only the handshake's ACK has a plaintext payload.
const fn acknowledgement(s1: u32, is_sealed: bool, has_payload: bool) -> Result<SegmentKind, DecodeError> {
    Ok(match s1 {
        0 if has_payload && !is_sealed => SegmentKind::NoiseAck,
        0 => SegmentKind::KeepAlive,
        1 => SegmentKind::AckOfFin,
        2 => SegmentKind::AckOfSynAck,
        3 => SegmentKind::PathChallenge,
        4 => SegmentKind::PathResponse,
        5 => SegmentKind::StreamReset,
        6 => SegmentKind::AckOfStreamReset,
        7 => SegmentKind::StopSending,
        8 => SegmentKind::PathProbe,
        9 => SegmentKind::AckOfPathProbe,
        10 => SegmentKind::Gone,
        11 if !is_sealed => SegmentKind::SessionQuery,
        12 => SegmentKind::ResetTicket,
        13 => SegmentKind::AckOfResetTicket,
        s1 => return Err(DecodeError::AckKind { s1 }),
    })
}

fn classic(raw: &RawHeader) -> Result<SegmentKind, DecodeError> {
    let header = raw.header;
    let has_state = header.s1 != 0 || header.s2 != 0 || header.s3 != 0;
    Ok(match header.flags {
        Flags::NONE => SegmentKind::Data,
        Flags::SYN => SegmentKind::Syn,
        Flags::FIN => SegmentKind::Fin,
        Flags::RST => SegmentKind::Reset,
        SYN_ACK => SegmentKind::SynAck,
        FIN_ACK => SegmentKind::FinAck,
        Flags::ACK if has_state => SegmentKind::AckOfSynAck,
        Flags::ACK => SegmentKind::AckOfBlock,
        flags => return Err(DecodeError::FlagCombination { flags }),
    })
}
