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

/// Exact counters of one link since its creation. At any time
/// `offered + duplicated = delivered + queue_drops + blackout_drops + lost + held`, where *held* is
/// [`Link::held`](crate::Link::held): what waits, is being sent or travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Pushed into the link.
    pub offered: Count,
    /// Dropped by the queue, on arrival or later: because it, or all that the link may hold, was full, or early.
    pub queue_drops: Count,
    /// Those of `queue_drops` which RED or CoDel dropped though there was room.
    pub early_drops: Count,
    /// Told of congestion by a CE mark instead, by RED or CoDel; a packet that came marked included.
    pub ce_marked: Count,
    /// Sent, but the link was dark when the last bit left.
    pub blackout_drops: Count,
    /// Sent, but lost by the loss model.
    pub lost: Count,
    /// Copies added by duplication.
    pub duplicated: Count,
    /// Held back by the reorder delay, so that later packets could overtake them.
    pub reordered: Count,
    /// Arrived, or to arrive, with one bit flipped; copies count by themselves.
    pub corrupted: Count,
    /// Taken out by [`Link::pop`](crate::Link::pop), copies included.
    pub delivered: Count,
}
