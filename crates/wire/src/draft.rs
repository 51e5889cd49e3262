//! Draft of a segment in a buffer. Its parts are written in this order: header, payload in place, integrity protection.

use crate::EncodeError;
use crate::header::CHECKSUM_FIELD;
use crate::integrity::checksum;
use crate::sizes::{CRC_BYTES, DATAGRAM_BYTES_MAX, DatagramBuffer, TAG_BYTES};

/// Draft with header and options written, and an initially empty payload. `P` is the protection: [`Checksum`]
/// (classic), [`Trailer`] (modern), or [`Crc`] (modern, never encrypted).
#[derive(Debug)]
#[must_use = "a segment is no datagram before it is finished"]
pub struct Draft<'a, P> {
    out: &'a mut DatagramBuffer,
    payload_start: usize,
    /// End of the payload; at most `payload_end_max`, which leaves room for the trailer.
    payload_end: usize,
    payload_end_max: usize,
    protection: P,
}

/// Protection in the classic profile: the checksum in the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum;

/// Protection in modern plaintext: CRC-32C of all bytes before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crc;

/// Protection in the modern profile: the trailer after the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trailer {
    /// CRC-32C of all bytes before it.
    Crc,
    /// Authentication tag, computed by the AEAD layer.
    Tag,
}

/// Result of [`Draft::finish`] for a modern segment.
#[derive(Debug)]
pub enum Finished<'a> {
    /// The datagram is complete, with this length in bytes.
    Complete(usize),
    /// The AEAD layer must still seal the datagram.
    ToSeal(ToSeal<'a>),
}

/// Modern datagram without its authentication tag.
#[derive(Debug)]
pub struct ToSeal<'a> {
    /// Header and options, which are the AEAD's associated data.
    pub header: &'a [u8],
    /// Payload, to be encrypted in place.
    pub payload: &'a mut [u8],
    /// Place for the tag.
    pub tag: &'a mut [u8; TAG_BYTES],
}

impl ToSeal<'_> {
    /// Returns the datagram's length in bytes, including the tag.
    #[must_use]
    pub const fn datagram_bytes(&self) -> usize {
        self.header.len() + self.payload.len() + TAG_BYTES
    }
}

impl<'a, P> Draft<'a, P> {
    /// Creates a draft with the payload at `payload_start`. After the payload, `trailer_bytes` stay free.
    pub(crate) const fn new(
        out: &'a mut DatagramBuffer,
        payload_start: usize,
        trailer_bytes: usize,
        protection: P,
    ) -> Self {
        let payload_end_max = DATAGRAM_BYTES_MAX - trailer_bytes;
        Self { out, payload_start, payload_end: payload_start, payload_end_max, protection }
    }

    /// Sets the payload's length and returns its slice, which holds old bytes that the caller must overwrite.
    ///
    /// # Errors
    /// Fails with [`EncodeError::TooLong`] if the datagram would exceed [`DATAGRAM_BYTES_MAX`]. The draft is then
    /// unchanged.
    pub const fn payload(&mut self, bytes: usize) -> Result<&mut [u8], EncodeError> {
        let end = self.payload_start.saturating_add(bytes);
        if end > self.payload_end_max {
            let trailer_bytes = DATAGRAM_BYTES_MAX - self.payload_end_max;
            return Err(EncodeError::TooLong { bytes: end.saturating_add(trailer_bytes) });
        }
        Ok(self.payload_up_to(bytes))
    }

    /// Sets the payload's length, limited to the available room, and returns its slice. For payloads whose length is
    /// known only after writing; call [`truncate`](Self::truncate) then.
    pub const fn payload_up_to(&mut self, bytes: usize) -> &mut [u8] {
        let room = self.payload_end_max - self.payload_start;
        let bytes = if bytes < room { bytes } else { room };
        self.payload_end = self.payload_start + bytes;
        self.out.split_at_mut(self.payload_start).1.split_at_mut(bytes).0
    }

    /// Shortens the payload to at most `bytes`.
    pub const fn truncate(&mut self, bytes: usize) {
        if bytes < self.payload_end - self.payload_start {
            self.payload_end = self.payload_start + bytes;
        }
    }
}

impl Draft<'_, Checksum> {
    /// Writes the checksum into the header, and returns the datagram's length in bytes.
    #[must_use]
    pub fn finish(self) -> usize {
        let value = checksum(&self.out[..self.payload_end], 0);
        self.out[CHECKSUM_FIELD].copy_from_slice(&value.to_be_bytes());
        self.payload_end
    }
}

impl Draft<'_, Crc> {
    /// Appends the CRC, and returns the datagram's length in bytes.
    #[must_use]
    pub fn finish(self) -> usize {
        append_crc(self.out, self.payload_end)
    }
}

impl<'a> Draft<'a, Trailer> {
    /// Appends the CRC, or returns the parts of a datagram that must be sealed.
    #[inline]
    pub fn finish(self) -> Finished<'a> {
        let Self { out, payload_start, payload_end, protection, .. } = self;
        match protection {
            Trailer::Crc => Finished::Complete(append_crc(out, payload_end)),
            Trailer::Tag => {
                let (header, rest) = out.split_at_mut(payload_start);
                let (payload, rest) = rest.split_at_mut(payload_end - payload_start);
                let tag = rest.first_chunk_mut().expect("the payload ends before the room of the tag");
                Finished::ToSeal(ToSeal { header, payload, tag })
            }
        }
    }
}

/// Appends the CRC. [`Draft`] has reserved the room.
fn append_crc(out: &mut DatagramBuffer, payload_end: usize) -> usize {
    let (covered, rest) = out.split_at_mut(payload_end);
    let crc = crc_fast::crc32_iscsi(covered);
    rest[..CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
    payload_end + CRC_BYTES
}
