//! Counters of a link.

use std::ops::AddAssign;

/// Number of packets, with their size on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of packets.
    pub packets: u64,
    /// Sum of the packets' [`Packet::size_bytes`](crate::Packet::size_bytes).
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

/// Exact counters of a link since its creation. At any time, `offered + duplicated = delivered + queue_drops +
/// blackout_drops + lost + held`, where *held* is [`Link::held`](crate::Link::held): packets queued, being sent or in
/// flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets pushed into the link.
    pub offered: Count,
    /// Packets dropped in front of the transmitter: by the policer, at the limit of the queue or link, or early by the
    /// discipline.
    pub queue_drops: Count,
    /// Packets of `queue_drops` that RED or CoDel dropped although the queue was not full.
    pub early_drops: Count,
    /// Packets marked with CE by RED or CoDel, including packets that had arrived marked.
    pub ce_marked: Count,
    /// Packets lost because their last bit was sent during an outage.
    pub blackout_drops: Count,
    /// Packets dropped by the loss model, after they were sent.
    pub lost: Count,
    /// Copies created by duplication.
    pub duplicated: Count,
    /// Packets delayed by the reorder delay, so that later packets could overtake them.
    pub reordered: Count,
    /// Packets with a flipped bit, whether arrived or in flight. Copies are counted separately.
    pub corrupted: Count,
    /// Packets returned by [`Link::pop`](crate::Link::pop), including copies.
    pub delivered: Count,
}
