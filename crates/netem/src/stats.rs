//! Counters of a link.

use std::ops::AddAssign;

/// Packets, and the bytes they occupy on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Sum of their [`Packet::size_bytes`](crate::Packet::size_bytes).
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, size_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(size_bytes);
    }

    pub(crate) fn remove(&mut self, size_bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(size_bytes);
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Exact counters of one link since its creation. Always `offered + duplicated = delivered + queue_drops + blackout_drops + lost + held`,
/// where *held* is [`Link::held`](crate::Link::held): queued, being sent or in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets pushed into the link.
    pub offered: Count,
    /// Packets dropped by the queue, on arrival or later: at its limit, at the link's limit, or early.
    pub queue_drops: Count,
    /// Packets among `queue_drops` that RED or CoDel dropped although there was room.
    pub early_drops: Count,
    /// Packets marked with CE by RED or CoDel, including packets that had arrived marked.
    pub ce_marked: Count,
    /// Packets whose last bit left during an outage.
    pub blackout_drops: Count,
    /// Packets sent, then lost by the loss model.
    pub lost: Count,
    /// Copies added by duplication.
    pub duplicated: Count,
    /// Packets held back by the reorder delay, so that later ones could overtake them.
    pub reordered: Count,
    /// Packets with one bit flipped, arrived or in flight; copies count separately.
    pub corrupted: Count,
    /// Packets returned by [`Link::pop`](crate::Link::pop), copies included.
    pub delivered: Count,
}
