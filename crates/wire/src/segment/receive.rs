//! Received modern datagram, from its header to the decoded segment.

use super::ack::SESSION_QUERY;
use super::{KeyEpoch, Segment};
use crate::header::RawHeader;
use crate::{DecodeError, Flags, HEADER_BYTES, Ports};

/// A verified segment: its CRC or tag was correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// The decoded segment.
    pub segment: Segment,
    /// Lower 32 bits of the datagram's number.
    pub number: u32,
    /// Bytes after header and options, without CRC or tag.
    pub payload: &'a [u8],
}

/// Unverified header of a modern plaintext datagram, for routing.
#[derive(Clone, Copy, Debug)]
pub struct Clear(pub(crate) RawHeader);

/// Unverified header of a modern encrypted datagram, for routing and the choice of a key.
#[derive(Clone, Copy, Debug)]
pub struct Sealed(pub(crate) RawHeader);

impl Clear {
    /// Returns true for a SYN, which has [`ports`](Self::ports) instead of a connection id.
    #[must_use]
    pub fn is_syn(&self) -> bool {
        self.0.header.flags == Flags::SYN
    }

    /// Returns true for an RST.
    #[must_use]
    pub fn is_reset(&self) -> bool {
        self.0.header.flags == Flags::RST
    }

    /// Returns true if the segment asks whether its receiver still has the session.
    #[must_use]
    pub fn is_session_query(&self) -> bool {
        self.0.header.flags == Flags::ACK && self.0.header.s1 == SESSION_QUERY
    }

    /// Returns the application ports of a SYN.
    #[must_use]
    pub const fn ports(&self) -> Ports {
        Ports::from_word(self.0.header.connection_id())
    }

    /// Returns the connection id of a segment other than SYN.
    #[must_use]
    pub const fn connection_id(&self) -> u32 {
        self.0.header.connection_id()
    }

    /// Returns the raw options of `datagram`, a SYN or SYNACK with this header. They include padding, and are part of
    /// the handshake's prologue (`spec/security.md` \[noise-4\]).
    #[must_use]
    pub fn option_bytes<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        datagram.get(HEADER_BYTES..self.0.data_offset_bytes).unwrap_or_default()
    }

    /// Verifies the CRC of `datagram`, which must be the datagram of this header, and decodes the segment.
    ///
    /// # Errors
    /// Fails with the first fault found; see [`DecodeError`]. The segment is decoded only after its CRC was verified.
    #[inline]
    pub fn verify<'a>(&self, datagram: &'a [u8]) -> Result<Received<'a>, DecodeError> {
        let end = self.0.verify_crc(datagram)?;
        let payload = self.0.payload(datagram, end)?;
        let segment = Segment::read_clear(&self.0, datagram, payload)?;
        Ok(Received { segment, number: self.0.header.s3, payload })
    }
}

impl Sealed {
    /// Returns the connection id of the segment.
    #[must_use]
    pub const fn connection_id(&self) -> u32 {
        self.0.header.connection_id()
    }

    /// Returns the lower 32 bits of the datagram's number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.0.header.s3
    }

    /// Returns the epoch of the sealing key.
    #[must_use]
    pub const fn epoch(&self) -> KeyEpoch {
        KeyEpoch::of(self.0.header.epoch as u64)
    }

    /// Splits `datagram`, which must be the datagram of this header, into two slices: the tag's associated data (the
    /// header and the words after it), and the sealed bytes including the tag.
    ///
    /// # Errors
    /// Fails if the segment is already invalid before decryption: it has a nonzero checksum, options, or stream id 0.
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

    /// Decodes the segment after its payload was decrypted. `head` is the associated data returned by
    /// [`split`](Self::split).
    ///
    /// # Errors
    /// Fails if no such segment exists, although its sender has sealed it.
    #[inline]
    pub fn opened<'a>(&self, head: &[u8], payload: &'a [u8]) -> Result<Received<'a>, DecodeError> {
        Ok(Received { segment: Segment::read_sealed(&self.0, head, payload)?, number: self.0.header.s3, payload })
    }
}
