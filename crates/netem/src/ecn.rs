//! Explicit congestion notification, RFC 3168: the two bits by which a queue tells of congestion without a loss.

use crate::packet::Packet;
use crate::stats::Count;

/// The ECN codepoint of an IP packet (RFC 3168, section 5). The discriminants are the bits of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: its ends would not see a mark, so a queue has to drop the packet instead.
    #[default]
    NotEct = 0,
    /// ECT(1): as [`Ect0`](Self::Ect0) to the queues here. L4S means something else by it (RFC 9331).
    Ect1 = 1,
    /// ECT(0): a queue may mark the packet.
    Ect0 = 2,
    /// CE: a queue has marked it.
    Ce = 3,
}

impl Ecn {
    /// The codepoint in the two lowest bits of `bits`, such as the traffic class of an IP header.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Its two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// True if a queue may mark the packet instead of dropping it, or has marked it.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

/// Marks of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marker {
    marked: Count,
}

impl Marker {
    /// Tells `packet` of congestion by a mark. False where its ends would not see one. A packet which another queue has
    /// marked counts like any other: this queue has told it too (`INET_ECN_set_ce` of Linux).
    pub(crate) fn mark<P: Packet>(&mut self, packet: &mut P) -> bool {
        match packet.ecn() {
            Ecn::NotEct => return false,
            Ecn::Ect0 | Ecn::Ect1 => packet.mark_ce(),
            Ecn::Ce => {}
        }
        self.marked.add(packet.size_bytes());
        true
    }

    /// Packets and bytes marked up to now.
    pub(crate) fn marked(&self) -> Count {
        self.marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Datagram;

    #[test]
    fn codepoints_are_those_of_the_ip_header() {
        let codepoints = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        for (bits, ecn) in (0u8..).zip(codepoints) {
            assert_eq!((ecn.bits(), Ecn::from_bits(bits), Ecn::from_bits(0xB8 | bits)), (bits, ecn, ecn));
            assert_eq!(ecn.is_capable(), bits > 0);
        }
    }

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
