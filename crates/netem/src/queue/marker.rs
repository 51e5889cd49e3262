//! ECN marking instead of drops.

use crate::ecn::Ecn;
use crate::packet::Packet;
use crate::stats::Count;

/// Marker of one queue, which counts its marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marker {
    marked: Count,
}

impl Marker {
    /// Marks `packet` and counts it; returns false if the packet is not ECN-capable. A packet that was marked before
    /// counts, too, as in Linux (`INET_ECN_set_ce`).
    pub(super) fn mark<P: Packet>(&mut self, packet: &mut P) -> bool {
        match packet.ecn() {
            Ecn::NotEct => return false,
            Ecn::Ect0 | Ecn::Ect1 => packet.mark_ce(),
            Ecn::Ce => {}
        }
        self.marked.add(packet.size_bytes());
        true
    }

    /// Returns packets and bytes marked so far.
    pub(super) fn marked(&self) -> Count {
        self.marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Datagram;

    #[test]
    fn only_packets_whose_ends_see_it_are_marked() {
        let mut marker = Marker::default();
        let mut packet = |ecn| {
            let mut datagram = Datagram { bytes: vec![0; 100], ecn, ..Datagram::<()>::default() };
            (marker.mark(&mut datagram), datagram.ecn)
        };
        assert_eq!(packet(Ecn::NotEct), (false, Ecn::NotEct));
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(packet(ecn), (true, Ecn::Ce));
        }
        assert_eq!(marker.marked(), Count { packets: 3, bytes: 300 });
    }
}
