//! Counters of a relay.

use std::ops::AddAssign;

use dfcp_netem::{Count, LinkStats};
use serde::Serialize;

/// Number of datagrams, and their bytes with IP and UDP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// Number of datagrams.
    pub packets: u64,
    /// Bytes of the IP packets, as a link's rate counts them.
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

/// Counters of one direction. `received + duplicated = forwarded + not_sent + lost + queue_drops + blackout_drops +
/// on_the_way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DirectionStats {
    /// Datagrams received from the socket.
    pub received: Datagrams,
    /// Datagrams passed to the kernel for the other side.
    pub forwarded: Datagrams,
    /// Datagrams lost at random.
    pub lost: Datagrams,
    /// Datagrams dropped at the full queue.
    pub queue_drops: Datagrams,
    /// Datagrams marked CE by the queue instead of being dropped.
    pub marked: Datagrams,
    /// Datagrams dropped during an outage.
    pub blackout_drops: Datagrams,
    /// Datagrams forwarded with a flipped bit.
    pub corrupted: Datagrams,
    /// Copies added by duplication.
    pub duplicated: Datagrams,
    /// Datagrams held back so that later ones overtook them.
    pub reordered: Datagrams,
    /// Datagrams refused by the kernel on sending: too long, no route, no buffer.
    pub not_sent: Datagrams,
    /// Datagrams still queued or in flight.
    pub on_the_way: Datagrams,
}

impl DirectionStats {
    /// Makes the counters of a direction from its link's counters, held packets, and the datagrams that could not be
    /// sent.
    #[must_use]
    pub fn new(link: LinkStats, held: Count, not_sent: Datagrams) -> Self {
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

/// Counters of both directions, and of datagrams that reached no link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RelayStats {
    /// Direction from the clients to the target.
    pub forward: DirectionStats,
    /// Direction from the target to the clients.
    pub backward: DirectionStats,
    /// Current number of clients.
    pub clients: u64,
    /// Number of clients since the start.
    pub clients_total: u64,
    /// Datagrams of new clients dropped because the client table was full.
    pub refused_packets: u64,
    /// Datagrams dropped at a client's socket because they did not come from the target.
    pub stray_packets: u64,
    /// Receive buffer granted to the listening socket, bytes.
    pub receive_buffer_bytes: u64,
    /// Send buffer granted to the listening socket, bytes.
    pub send_buffer_bytes: u64,
}
