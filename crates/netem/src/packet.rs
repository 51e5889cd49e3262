//! Packets that a link carries.

use crate::ecn::Ecn;

/// Packet that a link can carry.
pub trait Packet: Clone {
    /// Returns the bytes that the packet occupies on the link, including its IP header. The size must not change while
    /// the link holds the packet, even by corruption.
    fn size_bytes(&self) -> u32;

    /// Returns the packet's flow, for fair disciplines and statistics; DropTail ignores it.
    fn flow(&self) -> u64 {
        0
    }

    /// Returns the packet's ECN codepoint; Not-ECT by default.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Sets the codepoint to [`Ecn::Ce`]. Called only for packets with [`Ecn::Ect0`] or [`Ecn::Ect1`], so packet types
    /// without ECN need no implementation.
    fn mark_ce(&mut self) {}

    /// Flips one bit, selected by `random`, outside the ECN codepoint. A packet without bytes is unchanged.
    fn corrupt(&mut self, random: u64);
}

/// Flips the bit of `bytes` selected by `random`, a uniformly distributed number. Does nothing if `bytes` is empty.
pub fn flip_bit(bytes: &mut [u8], random: u64) {
    let bits = bytes.len() as u128 * 8;
    let bit = (u128::from(random) * bits) >> 64;
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

/// A whole packet, headers included.
impl Packet for Vec<u8> {
    fn size_bytes(&self) -> u32 {
        u32::try_from(self.len()).unwrap_or(u32::MAX)
    }

    fn corrupt(&mut self, random: u64) {
        flip_bit(self, random);
    }
}

/// Payload with a tag. Headers are not stored, but their size is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram<T = ()> {
    /// Payload; corruption flips one of its bits.
    pub bytes: Vec<u8>,
    /// Size of the headers, bytes: 28 for UDP over IPv4, 48 over IPv6. Added to the size on the link.
    pub overhead_bytes: u32,
    /// Flow of the packet; see [`Packet::flow`].
    pub flow: u64,
    /// ECN codepoint; see [`Packet::ecn`].
    pub ecn: Ecn,
    /// Tag for the caller, for example a destination. The link never changes it.
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
