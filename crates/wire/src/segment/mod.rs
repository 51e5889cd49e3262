//! Typed segments of the modern profile. `spec/wire-format.md` §5 maps them to header fields. Each kind of segment has
//! its own file.
//!
//! Sending: [`Segment::begin`] writes the header, the caller writes the payload into the [`Draft`], and
//! [`Draft::finish`] completes the datagram or returns its parts to be sealed.
//!
//! Receiving: [`Unverified::connection_id`](crate::Unverified::connection_id) routes the datagram, and
//! [`Unverified::read`](crate::Unverified::read) reads its header once. The result, [`Clear`] or [`Sealed`], converts
//! the verified datagram into a [`Received`].

mod ack;
mod data;
mod envelope;
mod fin;
mod message;
mod receive;
mod report;
mod reset;
mod syn;

pub use ack::{Ack, RESET_TICKET_BYTES};
pub use data::Data;
pub use envelope::{Address, Envelope, KeyEpoch};
pub use fin::Fin;
pub use message::{Coverage, Message, MessageGroup, MessageInfo};
pub use receive::{Clear, Received, Sealed};
pub use report::ReportHeader;
pub use reset::{Reset, ResetReason};
pub use syn::{Syn, SynAck, SynOptions};

use crate::draft::{Crc, Draft, Trailer};
use crate::header::{Extension, Header, RawHeader};
use crate::sizes::{CRC_BYTES, DatagramBuffer, HEADER_BYTES, STREAM_ID_BYTES, TAG_BYTES};
use crate::{DecodeError, Features, Flags, StreamId};

/// A modern segment without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segment {
    /// Requests a connection.
    Syn(Syn),
    /// Answers a SYN.
    SynAck(SynAck),
    /// An encoding symbol.
    Data(Data),
    /// An encoding symbol of messages.
    Message(Message),
    /// A feedback report.
    Report(ReportHeader),
    /// Ends a stream's half.
    Fin(Fin),
    /// Acknowledgement, or another small control segment.
    Ack(Ack),
    /// Ends a connection.
    Reset(Reset),
}

/// Header fields whose meaning depends on the kind of segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fields {
    /// Flags without SEC.
    flags: Flags,
    block_id: u32,
    s1: u32,
    s2: u32,
    /// Stream of the segment. [`StreamId::FIRST`] also for segments without a stream, as neither has a stream id on the
    /// wire.
    stream: StreamId,
}

impl Segment {
    /// Writes header, stream id and options to the front of `out`. This cannot fail: each value has the range of its
    /// field, and the buffer has room. SYN, SYNACK, [`Ack::Noise`] and [`Ack::SessionQuery`] stay in plaintext even if
    /// the envelope has a key epoch.
    #[inline]
    pub fn begin<'a>(&self, envelope: &Envelope, out: &'a mut DatagramBuffer) -> Draft<'a, Trailer> {
        let seal = envelope.seal.filter(|_| self.can_be_sealed());
        let payload_start = self.write_header(envelope.address, envelope.number, seal, out);
        let (trailer, trailer_bytes) =
            if seal.is_some() { (Trailer::Tag, TAG_BYTES) } else { (Trailer::Crc, CRC_BYTES) };
        Draft::new(out, payload_start, trailer_bytes, trailer)
    }

    /// Writes the front like [`begin`](Self::begin), for a segment that is always sent in plaintext.
    pub fn begin_clear<'a>(&self, address: Address, number: u32, out: &'a mut DatagramBuffer) -> Draft<'a, Crc> {
        let payload_start = self.write_header(address, number, None, out);
        Draft::new(out, payload_start, CRC_BYTES, Crc)
    }

    /// Writes the header, and returns the payload's offset.
    #[inline]
    fn write_header(&self, address: Address, number: u32, seal: Option<KeyEpoch>, out: &mut DatagramBuffer) -> usize {
        let Fields { flags, block_id, s1, s2, stream } = self.fields();
        let (flags, epoch) = seal.map_or((flags, 0), |epoch| (flags.union(Flags::SEC), epoch.bits()));
        let payload_start = HEADER_BYTES
            + match self {
                Self::Syn(_) | Self::SynAck(_) | Self::Message(_) => self.write_extension(out),
                _ if stream == StreamId::FIRST => 0,
                _ => {
                    let id = stream.to_word().to_be_bytes();
                    out[HEADER_BYTES..HEADER_BYTES + STREAM_ID_BYTES].copy_from_slice(&id);
                    STREAM_ID_BYTES
                }
            };
        let header = Header { block_id, s1, epoch, s2, s3: number, ..Header::modern(flags) }
            .with_connection_id(address.to_word());
        out[..HEADER_BYTES].copy_from_slice(&header.to_bytes((payload_start / 4) as u8));
        payload_start
    }

    fn fields(&self) -> Fields {
        match self {
            Self::Syn(syn) => syn.fields(),
            Self::SynAck(syn_ack) => syn_ack.fields(),
            Self::Data(data) => data.fields(),
            Self::Message(message) => message.fields(),
            Self::Report(report) => report.fields(),
            Self::Fin(fin) => fin.fields(),
            Self::Ack(ack) => ack.fields(),
            Self::Reset(reset) => reset.fields(),
        }
    }

    /// Returns true if the segment is encrypted in connections with keys. Exceptions: segments that may carry a Noise
    /// message precede the keys, and a session query goes to a peer that may have lost its keys (`spec/security.md`
    /// \[seal-1\]).
    #[must_use]
    pub const fn can_be_sealed(&self) -> bool {
        !matches!(self, Self::Syn(_) | Self::SynAck(_) | Self::Ack(Ack::Noise | Ack::SessionQuery { .. }))
    }

    /// Returns the features that the segment requires. If a session lacks one, the receiver drops the segment
    /// (`spec/protocol.md` \[open-40\]).
    #[must_use]
    #[inline]
    pub const fn needs(&self) -> Features {
        match self {
            Self::Data(data) => data.needs(),
            Self::Message(_) => Features::MESSAGES,
            Self::Ack(ack) => ack.needs(),
            _ => Features::NONE,
        }
    }

    /// Writes the words between header and payload, except a stream id, and returns their length in bytes. Outside of
    /// the hot path.
    #[cold]
    fn write_extension(&self, out: &mut DatagramBuffer) -> usize {
        let (_, out) = out.split_at_mut(HEADER_BYTES);
        let options = match self {
            Self::Syn(syn) => syn.options,
            Self::SynAck(syn_ack) => syn_ack.options,
            Self::Message(message) => return message.write_words(out),
            _ => None,
        };
        let Some(options) = options else { return 0 };
        out[..SynOptions::BYTES].copy_from_slice(&options.to_bytes());
        SynOptions::BYTES
    }

    /// Decodes a plaintext segment of `datagram` with this payload.
    #[inline]
    fn read_clear(raw: &RawHeader, datagram: &[u8], payload: &[u8]) -> Result<Self, DecodeError> {
        match raw.header.flags {
            Flags::SYN => Ok(Self::Syn(Syn::read(&raw.options(datagram)?))),
            SynAck::FLAGS => Ok(Self::SynAck(SynAck::read(raw.header.s2, &raw.options(datagram)?))),
            _ => Self::read_extended(raw, datagram, payload, Trailer::Crc),
        }
    }

    /// Decodes a segment whose payload was encrypted, so that it cannot be a SYN, SYNACK or Noise message.
    #[inline]
    fn read_sealed(raw: &RawHeader, head: &[u8], payload: &[u8]) -> Result<Self, DecodeError> {
        Self::read_extended(raw, head, payload, Trailer::Tag)
    }

    /// Decodes a segment. `head` begins with the header and the words after it.
    #[inline]
    fn read_extended(raw: &RawHeader, head: &[u8], payload: &[u8], trailer: Trailer) -> Result<Self, DecodeError> {
        match raw.extension()? {
            // Most segments are data, and stay in registers here.
            Extension::Stream(stream) => match raw.header.flags.without(Flags::SEC) {
                Flags::NONE => Data::read(Fields::of(raw, stream)).map(Self::Data),
                _ => Self::read(Fields::of(raw, stream), payload, trailer),
            },
            Extension::Message => {
                let words = head.get(HEADER_BYTES..raw.data_offset_bytes).unwrap_or_default();
                Message::read(Fields::of(raw, StreamId::FIRST), words).map(Self::Message)
            }
        }
    }

    /// Decodes a segment other than data and messages.
    #[inline(never)]
    fn read(fields: Fields, payload: &[u8], trailer: Trailer) -> Result<Self, DecodeError> {
        match fields.flags {
            Flags::FBK => fields.without_stream().map(|fields| Self::Report(ReportHeader::read(fields))),
            Flags::FIN | Fin::FIN_ACK => Ok(Self::Fin(Fin::read(fields))),
            Flags::ACK => Ack::read(fields, payload, trailer).map(Self::Ack),
            Flags::RST => fields.without_stream().map(|fields| Self::Reset(Reset::read(fields))),
            Flags::MESSAGE => Err(DecodeError::MessageWords),
            flags => Err(DecodeError::FlagCombination { flags }),
        }
    }
}

impl Fields {
    /// Returns the fields of a segment without options.
    #[inline]
    const fn of(raw: &RawHeader, stream: StreamId) -> Self {
        let Header { block_id, s1, s2, .. } = raw.header;
        Self { flags: raw.header.flags.without(Flags::SEC), block_id, s1, s2, stream }
    }

    /// Refuses a stream id in a segment whose kind belongs to no stream.
    fn without_stream(self) -> Result<Self, DecodeError> {
        if self.stream == StreamId::FIRST {
            return Ok(self);
        }
        Err(DecodeError::StreamIdUnexpected { flags: self.flags, s1: self.s1, stream: self.stream.to_word() })
    }
}
