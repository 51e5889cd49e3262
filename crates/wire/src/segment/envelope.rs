//! Fields common to all modern segments.

use crate::Ports;

/// Address, number and key epoch of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Content of the two port fields.
    pub address: Address,
    /// Lower 32 bits of the datagram's number.
    pub number: u32,
    /// Epoch of the sealing key. `None` in plaintext connections, whose segments end with a CRC.
    pub seal: Option<KeyEpoch>,
}

/// Content of the two port fields of a modern segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Address {
    /// Ports of the applications, in a SYN.
    Ports(Ports),
    /// Connection id chosen by the receiver, in every other segment.
    Connection(u32),
}

impl Address {
    /// Returns both fields as in the header, big endian.
    pub(crate) const fn to_word(self) -> u32 {
        match self {
            Self::Ports(ports) => ports.to_word(),
            Self::Connection(id) => id,
        }
    }
}

/// Key epoch as in the header: the two lowest bits of the epoch number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyEpoch(u8);

impl KeyEpoch {
    /// Returns the bits that represent this epoch.
    #[must_use]
    pub const fn of(epoch: u64) -> Self {
        Self((epoch & 3) as u8)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }
}
