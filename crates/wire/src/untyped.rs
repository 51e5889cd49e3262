//! Whole segments by the fields of their headers, without the meaning which kind and profile give them.

use crate::header::{CHECKSUM_FIELD, RawHeader};
use crate::integrity::{Integrity, checksum};
use crate::{CRC_BYTES, DATAGRAM_BYTES_MAX, DecodeError, EncodeError, Flags, HEADER_BYTES, Header, Options, Profile};

/// A received segment whose integrity was verified, unless it is sealed ([`Header::integrity`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// The fixed header.
    pub header: Header,
    /// The options.
    pub options: Options,
    /// What follows, without the CRC of an unsealed modern datagram but with the tag of a sealed one, still encrypted.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads a datagram and verifies its checksum or CRC. The tag of a sealed segment (flag SEC) is *not* verified:
    /// nothing of such a segment may be believed before the sealing layer has opened it, and a connection without keys
    /// must drop it.
    ///
    /// # Errors
    /// The first thing found wrong; see [`DecodeError`]. The options are read after the integrity was verified.
    pub fn decode(datagram: &'a [u8]) -> Result<Self, DecodeError> {
        let raw = RawHeader::of_datagram(datagram)?;
        let end = raw.verify(datagram)?;
        let (options, payload) = raw.body(datagram, end)?;
        Ok(Self { header: raw.header, options, payload })
    }
}

/// The options of a datagram as they came, padding included, without a look at anything else; what a handshake's
/// prologue is made of (`spec/security.md` \[noise-4\]). `None` if it cannot be a segment.
#[must_use]
pub fn option_bytes(datagram: &[u8]) -> Option<&[u8]> {
    let raw = RawHeader::read(datagram).ok()?;
    datagram.get(HEADER_BYTES..raw.data_offset_bytes)
}

/// What a router of datagrams needs, read without verifying integrity: use it to find the connection, never to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peek {
    /// Classic or modern.
    pub profile: Profile,
    /// Control flags.
    pub flags: Flags,
    /// The header's first field.
    pub source_port: u16,
    /// The header's second field.
    pub destination_port: u16,
    /// Both port fields together, big endian: the connection id behind the modern handshake.
    pub connection_id: u32,
}

/// Looks at a datagram's header; `None` if it cannot be that of a segment.
#[must_use]
pub fn peek(datagram: &[u8]) -> Option<Peek> {
    let header = RawHeader::of_datagram(datagram).ok()?.header;
    Some(Peek {
        profile: header.profile,
        flags: header.flags,
        source_port: header.source_port,
        destination_port: header.destination_port,
        connection_id: header.connection_id(),
    })
}

/// Writes header and options to the front of `out` and returns where the payload starts. [`finish`] must follow when
/// the payload is in place.
///
/// # Errors
/// [`EncodeError`] if `out` is too short or a value cannot be expressed.
pub fn write_header(out: &mut [u8], header: &Header, options: &Options) -> Result<usize, EncodeError> {
    header.check()?;
    options.check(header.profile)?;
    let have = out.len();
    let offset = HEADER_BYTES + options.encoded_bytes();
    let Some((place, rest)) = out.split_first_chunk_mut::<HEADER_BYTES>().filter(|_| have >= offset) else {
        return Err(EncodeError::BufferTooSmall { have, need: offset });
    };
    *place = header.to_bytes((offset / 4) as u8);
    options.write(rest)?;
    Ok(offset)
}

/// Completes the segment which occupies the first `end` bytes of `out` (header, options and payload): fills in the
/// classic checksum or appends the CRC of an unsealed modern segment, as the header in `out` says. A sealed segment is
/// left to the sealing layer. Returns the datagram's length.
///
/// # Errors
/// [`EncodeError`] if `out` holds no header up to `end`, is too short, or the datagram would be too long.
pub fn finish(out: &mut [u8], end: usize) -> Result<usize, EncodeError> {
    let have = out.len();
    let Some(segment) = out.get_mut(..end) else {
        return Err(EncodeError::BufferTooSmall { have, need: end });
    };
    let Ok(raw) = RawHeader::read(segment) else {
        return Err(EncodeError::NoHeader { end });
    };
    let integrity = raw.header.integrity();
    let length = if integrity == Integrity::Crc { end + CRC_BYTES } else { end };
    if length > DATAGRAM_BYTES_MAX {
        return Err(EncodeError::TooLong { bytes: length });
    }
    let value = if integrity == Integrity::Checksum { checksum(segment, raw.checksum) } else { 0 };
    if let Some(field) = segment.get_mut(CHECKSUM_FIELD) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    if integrity == Integrity::Crc {
        let crc = crc_fast::crc32_iscsi(segment);
        let Some(place) = out.get_mut(end..length) else {
            return Err(EncodeError::BufferTooSmall { have, need: length });
        };
        place.copy_from_slice(&crc.to_be_bytes());
    }
    Ok(length)
}

/// Writes a whole datagram and returns its length: [`write_header`], a copy of the payload, and [`finish`].
///
/// # Errors
/// As the two functions.
pub fn encode(out: &mut [u8], header: &Header, options: &Options, payload: &[u8]) -> Result<usize, EncodeError> {
    let start = write_header(out, header, options)?;
    let have = out.len();
    let end = start.saturating_add(payload.len());
    let Some(place) = out.get_mut(start..end) else {
        return Err(EncodeError::BufferTooSmall { have, need: end });
    };
    place.copy_from_slice(payload);
    finish(out, end)
}
