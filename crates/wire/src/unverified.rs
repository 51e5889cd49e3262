//! The first look at a datagram.

use crate::header::RawHeader;
use crate::{DecodeError, Flags, Profile, classic, segment};

/// The header of a received datagram: enough to find its connection, and not to be believed. It is read once; the variant
/// says how the datagram will have to prove itself, and reads the segment when it has.
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
