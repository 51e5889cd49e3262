//! The first look at a datagram.

use crate::header::RawHeader;
use crate::{DecodeError, Flags, Profile, classic, segment};

/// The header of a received datagram, which is not to be believed yet. The variant says how the datagram will have to prove itself,
/// and reads the segment when it has.
#[derive(Clone, Copy, Debug)]
pub enum Unverified {
    /// Classic: by its checksum.
    Classic(classic::Unverified),
    /// Modern, not sealed: by its CRC.
    Clear(segment::Clear),
    /// Modern, sealed: by its tag.
    Sealed(segment::Sealed),
}

impl Unverified {
    /// The connection id of a modern segment, unless it is a SYN. Nothing else of the header is read: that is for the connection to do.
    #[inline]
    #[must_use]
    pub fn connection_id(datagram: &[u8]) -> Option<u32> {
        RawHeader::connection_id(datagram)
    }

    /// Reads the header of a datagram.
    ///
    /// # Errors
    /// [`DecodeError`] if the datagram is too short or too long, or its header that of no segment.
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<Self, DecodeError> {
        let raw = RawHeader::of_datagram(datagram)?;
        Ok(match raw.header.profile {
            Profile::Classic => Self::Classic(classic::Unverified(raw)),
            Profile::Modern if raw.header.flags.contains(Flags::SEC) => Self::Sealed(segment::Sealed(raw)),
            Profile::Modern => Self::Clear(segment::Clear(raw)),
        })
    }
}
