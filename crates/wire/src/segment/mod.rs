//! Segments of the modern profile, by what they mean. The mapping to header fields is in `spec/wire-format.md` §5;
//! each kind's is in a file of its own.
//!
//! Sending: [`Segment::begin`] writes the header, the caller writes the payload where the [`Draft`] says, and
//! [`Draft::finish`] completes the datagram or hands it over to be sealed.
//!
//! Receiving: [`Unverified::connection_id`](crate::Unverified::connection_id) routes the datagram, and
//! [`Unverified::read`](crate::Unverified::read) reads its header, once. What that returns, [`Clear`] or [`Sealed`], turns the datagram
//! into a [`Received`] when it is known to be genuine.

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
    /// Asks for a connection.
    Syn(Syn),
    /// Answers a SYN.
    SynAck(SynAck),
    /// An encoding symbol.
    Data(Data),
    /// An encoding symbol of messages.
    Message(Message),
    /// A feedback report.
    Report(ReportHeader),
    /// The end of a stream.
    Fin(Fin),
    /// An acknowledgement, or one of its relatives.
    Ack(Ack),
    /// The end of a connection.
    Reset(Reset),
}

/// The header fields which a kind of segment gives a meaning to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fields {
    /// Flags without SEC.
    flags: Flags,
    block_id: u32,
    s1: u32,
    s2: u32,
    /// [`StreamId::FIRST`] also for what belongs to no stream: neither has an id on the wire.
    stream: StreamId,
}

impl Segment {
    /// Writes header, stream id and options to the front of `out`. Nothing can go wrong: each value has the range of its field, and
    /// the buffer has room. SYN, SYNACK, [`Ack::Noise`] and [`Ack::SessionQuery`] stay in the clear whatever the envelope says.
    #[inline]
    pub fn begin<'a>(&self, envelope: &Envelope, out: &'a mut DatagramBuffer) -> Draft<'a, Trailer> {
        let seal = envelope.seal.filter(|_| self.can_be_sealed());
        let payload_start = self.write_header(envelope.address, envelope.number, seal, out);
        let (trailer, trailer_bytes) =
            if seal.is_some() { (Trailer::Tag, TAG_BYTES) } else { (Trailer::Crc, CRC_BYTES) };
        Draft::new(out, payload_start, trailer_bytes, trailer)
    }

    /// As [`begin`](Self::begin), for a segment which will not be sealed whatever it is.
    pub fn begin_clear<'a>(&self, address: Address, number: u32, out: &'a mut DatagramBuffer) -> Draft<'a, Crc> {
        let payload_start = self.write_header(address, number, None, out);
        Draft::new(out, payload_start, CRC_BYTES, Crc)
    }

    /// Returns where the payload starts.
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

    /// True if it is sealed in connections with keys. Segments that carry a Noise message, or may, come before the keys, and a query is
    /// for a peer that has none any more (`spec/security.md` \[seal-1\]).
    #[must_use]
    pub const fn can_be_sealed(&self) -> bool {
        !matches!(self, Self::Syn(_) | Self::SynAck(_) | Self::Ack(Ack::Noise | Ack::SessionQuery { .. }))
    }

    /// Features that the session must have chosen, or else its receiver drops the segment (`spec/protocol.md` \[open-40\]).
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

    /// Writes what stands between header and payload and is no stream id; returns how many bytes. Apart from what nearly every
    /// segment takes.
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

    /// The segment of `datagram`, whose header is in the clear, and which has this payload.
    #[inline]
    fn read_clear(raw: &RawHeader, datagram: &[u8], payload: &[u8]) -> Result<Self, DecodeError> {
        match raw.header.flags {
            Flags::SYN => Ok(Self::Syn(Syn::read(&raw.options(datagram)?))),
            SynAck::FLAGS => Ok(Self::SynAck(SynAck::read(raw.header.s2, &raw.options(datagram)?))),
            _ => Self::read_extended(raw, datagram, payload, Trailer::Crc),
        }
    }

    /// The segment of a header whose payload was sealed. SYN and SYNACK never are, nor is a Noise message.
    #[inline]
    fn read_sealed(raw: &RawHeader, head: &[u8], payload: &[u8]) -> Result<Self, DecodeError> {
        Self::read_extended(raw, head, payload, Trailer::Tag)
    }

    /// `head` begins with the header and what stands behind it.
    #[inline]
    fn read_extended(raw: &RawHeader, head: &[u8], payload: &[u8], trailer: Trailer) -> Result<Self, DecodeError> {
        match raw.extension()? {
            // Nearly all are data, and stay in registers here.
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

    /// A segment other than data, and without words of a message.
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
    /// Fields of a segment without options.
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
