//! Port fields of the header.

/// Ports of the two applications, in classic segments and in the modern SYN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ports {
    /// Port of the sending application.
    pub source: u16,
    /// Port of the receiving application.
    pub destination: u16,
}

impl Ports {
    /// Returns the ports of a reply.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }

    /// Returns both fields as in the header, big endian.
    pub(crate) const fn to_word(self) -> u32 {
        (self.source as u32) << 16 | self.destination as u32
    }

    pub(crate) const fn from_word(word: u32) -> Self {
        Self { source: (word >> 16) as u16, destination: word as u16 }
    }
}
