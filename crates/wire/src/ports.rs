//! Port fields.

/// Ports of the two applications, in classic segments and in the modern SYN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ports {
    /// The sending application's port.
    pub source: u16,
    /// The receiving application's port.
    pub destination: u16,
}

impl Ports {
    /// The ports of an answer.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }

    /// Both fields as in the header, big endian.
    pub(crate) const fn to_word(self) -> u32 {
        (self.source as u32) << 16 | self.destination as u32
    }

    pub(crate) const fn from_word(word: u32) -> Self {
        Self { source: (word >> 16) as u16, destination: word as u16 }
    }
}
