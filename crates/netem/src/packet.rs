//! Packets on a link.

use crate::ecn::Ecn;

/// Packet type that a link can carry.
pub trait Packet: Clone {
    /// Bytes that the packet occupies on the link, including its IP header. Must not change while the link holds the packet, not even by
    /// corruption.
    fn size_bytes(&self) -> u32;

    /// Flow of the packet, for statistics and fair disciplines; DropTail ignores it.
    fn flow(&self) -> u64 {
        0
    }

    /// ECN codepoint of the packet; Not-ECT by default.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Sets the codepoint to [`Ecn::Ce`]. Called only for [`Ecn::Ect0`] and [`Ecn::Ect1`], so other packet types need no implementation.
    fn mark_ce(&mut self) {}

    /// Flips one bit, chosen by `random`, outside the ECN codepoint. A packet without bytes stays as it is.
    fn corrupt(&mut self, random: u64);
}

/// Flips the bit of `bytes` which `random` (uniform over all 64-bit values) selects; does nothing to an empty slice.
pub fn flip_bit(bytes: &mut [u8], random: u64) {
    let bits = bytes.len() as u128 * 8;
    let bit = (u128::from(random) * bits) >> 64;
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

/// The bytes are the whole packet, headers included.
impl Packet for Vec<u8> {
    fn size_bytes(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    fn corrupt(&mut self, random: u64) {
        flip_bit(self, random);
    }
}

/// Payload whose headers are counted but not stored, with a tag for the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram<T = ()> {
    /// The payload; corruption flips one of its bits.
    pub bytes: Vec<u8>,
    /// Bytes of its headers (28 for UDP over IPv4, 48 over IPv6), added to the size on the link.
    pub overhead_bytes: u32,
    /// Flow, see [`Packet::flow`].
    pub flow: u64,
    /// ECN codepoint, see [`Packet::ecn`].
    pub ecn: Ecn,
    /// Tag of the caller, for example the destination; never changed.
    pub tag: T,
}

impl<T: Clone> Packet for Datagram<T> {
    fn size_bytes(&self) -> u32 {
        self.bytes.size_bytes().saturating_add(self.overhead_bytes)
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn corrupt(&mut self, random: u64) {
        flip_bit(&mut self.bytes, random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_counts_its_headers() {
        let datagram = Datagram { bytes: vec![0; 1420], overhead_bytes: 28, flow: 7, tag: "up", ..Datagram::default() };
        assert_eq!((datagram.size_bytes(), datagram.flow()), (1448, 7));
    }

    #[test]
    fn the_ends_of_the_random_range_select_the_first_and_last_bit() {
        let mut bytes = [0u8; 3];
        flip_bit(&mut bytes, 0);
        flip_bit(&mut bytes, u64::MAX);
        assert_eq!(bytes, [1, 0, 0x80]);
        flip_bit(&mut [], u64::MAX);
    }

    #[test]
    fn every_bit_is_equally_likely() {
        let mut seen = [0u32; 16];
        for step in 0..1600u64 {
            let mut bytes = vec![0u8; 2];
            bytes.corrupt(u64::MAX / 1600 * step + u64::MAX / 3200);
            seen[u16::from_le_bytes([bytes[0], bytes[1]]).trailing_zeros() as usize] += 1;
        }
        assert_eq!(seen, [100; 16]);
    }
}
