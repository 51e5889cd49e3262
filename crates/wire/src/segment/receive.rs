//! A received modern datagram, from the first look at its header to the segment which it carries.

use super::ack::SESSION_QUERY;
use super::{KeyEpoch, Segment};
use crate::header::RawHeader;
use crate::{DecodeError, Flags, HEADER_BYTES, Ports};

/// A segment which is known to be genuine, as far as its protection goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// The decoded segment.
    pub segment: Segment,
    /// The datagram's number, its low 32 bits.
    pub number: u32,
    /// Bytes behind header and options, without CRC or tag.
    pub payload: &'a [u8],
}

/// The header of a modern datagram in the clear. Good for routing; nothing of it is verified.
#[derive(Clone, Copy, Debug)]
pub struct Clear(pub(crate) RawHeader);

/// The header of a modern datagram which is sealed. Good for routing and for the choice of a key; nothing of it is
/// verified.
#[derive(Clone, Copy, Debug)]
pub struct Sealed(pub(crate) RawHeader);

impl Clear {
    /// True for a SYN, whose address is [`ports`](Self::ports) instead of a connection id.
    #[must_use]
    pub fn is_syn(&self) -> bool {
        self.0.header.flags == Flags::SYN
    }

    /// True for an RST.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.0.header.flags == Flags::RST
    }

    /// True if it asks for the existence of the session at its receiver.
    #[must_use]
    pub fn is_session_query(&self) -> bool {
        self.0.header.flags == Flags::ACK && self.0.header.s1 == SESSION_QUERY
    }

    /// Ports of the two applications, if it is a SYN.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        Ports::from_word(self.0.header.connection_id())
    }

    /// The connection which it is for, unless it is a SYN.
    #[must_use]
    pub const fn connection_id(&self) -> u32 {
        self.0.header.connection_id()
    }

    /// The options of `datagram`, a SYN or SYNACK whose header this is, as they came, padding included: a handshake's prologue
    /// has them
    /// (`spec/security.md` \[noise-4\]).
    #[must_use]
    pub fn option_bytes<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        datagram.get(HEADER_BYTES..self.0.data_offset_bytes).unwrap_or_default()
    }

    /// Verifies the CRC of `datagram`, whose header this is, and reads the segment.
    ///
    /// # Errors
    /// The first thing found wrong; see [`DecodeError`]. The segment is read after the CRC was verified.
    #[inline]
    pub fn verify<'a>(&self, datagram: &'a [u8]) -> Result<Received<'a>, DecodeError> {
        let end = self.0.verify_crc(datagram)?;
        let payload = self.0.payload(datagram, end)?;
        let segment = Segment::read_clear(&self.0, datagram, payload)?;
        Ok(Received { segment, number: self.0.header.s3, payload })
    }
}

impl Sealed {
    /// The connection which it is for.
    #[must_use]
    pub const fn connection_id(&self) -> u32 {
        self.0.header.connection_id()
    }

    /// The datagram's number, its low 32 bits.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.0.header.s3
    }

    /// The epoch of the key which sealed it.
    #[must_use]
    pub const fn epoch(&self) -> KeyEpoch {
        KeyEpoch::of(self.0.header.epoch as u64)
    }

    /// Splits `datagram`, whose header this is, into what its tag covers as associated data, the header and what stands behind it,
    /// and the sealed bytes, tag included.
    ///
    /// # Errors
    /// The segment is invalid even before it is opened: a checksum, options, or the stream id 0.
    #[inline]
    pub fn split<'a>(&self, datagram: &'a mut [u8]) -> Result<(&'a [u8], &'a mut [u8]), DecodeError> {
        self.0.check_no_checksum()?;
        self.0.extension()?;
        let (words, bytes) = ((self.0.data_offset_bytes / 4) as u8, datagram.len());
        match datagram.split_at_mut_checked(self.0.data_offset_bytes) {
            Some((header, sealed)) => Ok((header, sealed)),
            None => Err(DecodeError::DataOffset { words, bytes }),
        }
    }

    /// Reads the segment, whose payload has been opened by the key of its connection; `head` is what
    /// [`split`](Self::split) has returned before the sealed bytes.
    ///
    /// # Errors
    /// If there is no such segment, although its sender has sealed it.
    #[inline]
    pub fn opened<'a>(&self, head: &[u8], payload: &'a [u8]) -> Result<Received<'a>, DecodeError> {
        Ok(Received { segment: Segment::read_sealed(&self.0, head, payload)?, number: self.0.header.s3, payload })
    }
}
