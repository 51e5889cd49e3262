//! First inspection of a received datagram.

use crate::header::RawHeader;
use crate::{DecodeError, Flags, Profile, classic, segment};

/// Unverified header of a received datagram. The variant determines the integrity check, which also decodes the
/// segment.
#[derive(Clone, Copy, Debug)]
pub enum Unverified {
    /// Classic datagram, protected by its checksum.
    Classic(classic::Unverified),
    /// Modern plaintext datagram, protected by its CRC.
    Clear(segment::Clear),
    /// Modern encrypted datagram, protected by its tag.
    Sealed(segment::Sealed),
}

impl Unverified {
    /// Returns the connection id of a modern segment other than SYN; `None` for other datagrams. The connection itself
    /// checks the rest of the header.
    #[inline]
    #[must_use]
    pub fn connection_id(datagram: &[u8]) -> Option<u32> {
        RawHeader::connection_id(datagram)
    }

    /// Reads the header of a datagram.
    ///
    /// # Errors
    /// Fails if the datagram is too short or too long, or the header matches no segment.
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
