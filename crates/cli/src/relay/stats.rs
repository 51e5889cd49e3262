//! Counts of a relay.

use std::fmt;
use std::ops::AddAssign;

use dfcp_netem::{Count, LinkStats};
use serde::Serialize;

use crate::units::{human_bytes, human_percent};

/// Datagrams, and their bytes with IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Number of datagrams.
    pub packets: u64,
    /// Their bytes as counted by `--rate`.
    pub bytes: u64,
}

impl AddAssign for Datagrams {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

impl From<Count> for Datagrams {
    fn from(count: Count) -> Self {
        Self { packets: count.packets, bytes: count.bytes }
    }
}

/// One direction of a relay. `received + duplicated = forwarded + not_sent + lost + queue_drops + blackout_drops +
/// on_the_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionStats {
    /// Came in from the socket.
    pub received: Datagrams,
    /// Handed to the kernel for the other side.
    pub forwarded: Datagrams,
    /// Lost at random.
    pub lost: Datagrams,
    /// Dropped because the queue was full.
    pub queue_drops: Datagrams,
    /// Marked for congestion by the queue (CE) instead of dropped.
    pub marked: Datagrams,
    /// Dropped because the link was dark.
    pub blackout_drops: Datagrams,
    /// Sent with a bit flipped.
    pub corrupted: Datagrams,
    /// Extra copies.
    pub duplicated: Datagrams,
    /// Held back so that others overtook them.
    pub reordered: Datagrams,
    /// Refused by the kernel when they should have gone out: too long, no route, no buffer.
    pub not_sent: Datagrams,
    /// Still waiting or travelling.
    pub on_the_way: Datagrams,
}

impl DirectionStats {
    pub(crate) fn new(link: LinkStats, held: Count, not_sent: Datagrams) -> Self {
        Self {
            received: link.offered.into(),
            forwarded: Datagrams {
                packets: link.delivered.packets - not_sent.packets,
                bytes: link.delivered.bytes - not_sent.bytes,
            },
            lost: link.lost.into(),
            queue_drops: link.queue_drops.into(),
            marked: link.ce_marked.into(),
            blackout_drops: link.blackout_drops.into(),
            corrupted: link.corrupted.into(),
            duplicated: link.duplicated.into(),
            reordered: link.reordered.into(),
            not_sent,
            on_the_way: held.into(),
        }
    }
}

impl fmt::Display for DirectionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: Datagrams| part.packets as f64 / self.received.packets.max(1) as f64;
        write!(
            f,
            "{} of {} forwarded ({}), {} lost ({})",
            self.forwarded.packets,
            self.received.packets,
            human_bytes(self.forwarded.bytes),
            self.lost.packets,
            human_percent(share(self.lost)),
        )?;
        let rest = [
            (self.queue_drops, "dropped by the queue"),
            (self.marked, "marked by the queue (CE)"),
            (self.blackout_drops, "dropped in outages"),
            (self.corrupted, "corrupted"),
            (self.duplicated, "duplicated"),
            (self.reordered, "reordered"),
            (self.not_sent, "refused by the kernel"),
            (self.on_the_way, "still on the way"),
        ];
        for (count, what) in rest {
            if count.packets > 0 {
                write!(f, ", {} {what}", count.packets)?;
            }
        }
        Ok(())
    }
}

/// Both directions, and what did not get as far as a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayStats {
    /// The direction from the clients to the target.
    pub forward: DirectionStats,
    /// The direction from the target to the clients.
    pub backward: DirectionStats,
    /// Client addresses served at the moment.
    pub clients: u64,
    /// Client addresses served since the start.
    pub clients_total: u64,
    /// Datagrams dropped because no further client could be served.
    pub refused_packets: u64,
    /// Datagrams dropped because they came to a client's socket from elsewhere than the target.
    pub stray_packets: u64,
    /// Receive buffer which the kernel granted to the listening socket, bytes.
    pub receive_buffer_bytes: u64,
    /// Send buffer which the kernel granted to the listening socket, bytes.
    pub send_buffer_bytes: u64,
}
