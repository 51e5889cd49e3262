//! Fields of all modern segments, whatever their kind.

use crate::Ports;

/// Address, number and key epoch of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Content of the two port fields.
    pub address: Address,
    /// The datagram's number, its low 32 bits.
    pub number: u32,
    /// The epoch of the key which will seal the segment; `None` in connections without keys, where it ends with a CRC.
    pub seal: Option<KeyEpoch>,
}

/// The two port fields of a modern segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// A SYN carries the ports of the two applications.
    Ports(Ports),
    /// Every other segment carries the id which its receiver chose.
    Connection(u32),
}

impl Address {
    /// The two fields as they lie in the header, big endian.
    pub(crate) const fn to_word(self) -> u32 {
        match self {
            Self::Ports(ports) => ports.to_word(),
            Self::Connection(id) => id,
        }
    }
}

/// A key epoch as in the header: the two lowest bits of its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyEpoch(u8);

impl KeyEpoch {
    /// The bits which stand for this epoch.
    #[must_use]
    pub const fn of(epoch: u64) -> Self {
        Self((epoch & 3) as u8)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
}
