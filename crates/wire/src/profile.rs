//! The two profiles of the protocol.

/// Profile of a segment.
///
/// ```
/// # use dfcp_wire as dfcp;
/// use dfcp::Profile;
///
/// /// True if a connection can have more than one stream.
/// fn has_streams(profile: Profile) -> bool {
///     match profile {
///         Profile::Modern => true,
///         Profile::Classic => false,
///     }
/// }
/// assert!(!has_streams(Profile::Classic));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Profile {
    /// Protocol of the thesis, without changes.
    Classic,
    /// Default profile of this project.
    Modern,
}

impl Profile {
    /// Decodes the byte of option 2; `None` for an unknown profile.
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Classic),
            1 => Some(Self::Modern),
            _ => None,
        }
    }
}
