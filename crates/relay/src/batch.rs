//! Batching of outgoing datagrams into few system calls.

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_netem::{Datagram, Ecn, Link};
use dfcp_time::Time;
use quinn_udp::EcnCodepoint;

use super::clients::Client;
use super::socket::{Route, Socket};
use super::stats::Datagrams;

/// Client of a datagram on a link, needed to forward the datagram.
#[derive(Clone, Debug)]
pub(super) struct Tag {
    pub(super) client: Arc<Client>,
}

/// Packet type of the relay's links.
pub(super) type Packet = Datagram<Tag>;

/// Socket and destination of a direction's datagrams.
#[derive(Debug)]
pub(super) enum Way<'a> {
    /// To the target, from each client's own socket.
    ToTarget(SocketAddr),
    /// To the clients, from the listening socket.
    ToClients(&'a Socket),
}

impl Way<'_> {
    fn socket<'b>(&'b self, tag: &'b Tag) -> &'b Socket {
        match self {
            Self::ToTarget(_) => &tag.client.socket,
            Self::ToClients(listener) => listener,
        }
    }

    /// Returns true if the datagram arrived at a port that the client used before a rebinding.
    fn is_lost(&self, tag: &Tag) -> bool {
        matches!(self, Self::ToClients(_)) && tag.client.is_forgotten()
    }

    fn route(&self, tag: &Tag, ecn: Ecn) -> Route {
        let ecn = EcnCodepoint::from_bits(ecn.bits());
        match self {
            Self::ToTarget(target) => Route { destination: *target, source: None, ecn },
            Self::ToClients(_) => Route { destination: tag.client.addr, source: tag.client.reply_from, ecn },
        }
    }
}

/// Consecutive datagrams of one client with equal ECN mark and length, sent by one system call; only the last datagram
/// may be shorter. Empty between calls; kept for its allocation.
#[derive(Debug, Default)]
pub(super) struct Batch {
    head: Option<Head>,
    bytes: Vec<u8>,
}

/// Properties that all datagrams of a batch share.
#[derive(Debug)]
struct Head {
    tag: Tag,
    ecn: Ecn,
    segment_bytes: usize,
    segments_max: usize,
    overhead_bytes: u32,
}

impl Batch {
    /// Sends all packets that have left `link`. Returns the datagrams that the kernel refused.
    pub(super) fn send_due(&mut self, link: &mut Link<Packet>, now: Time, way: &Way<'_>) -> Datagrams {
        let mut refused = Datagrams::default();
        while let Some(packet) = link.pop(now) {
            if way.is_lost(&packet.tag) {
                continue;
            }
            if !self.takes(&packet) {
                refused += self.flush(way);
                self.head = Some(Head {
                    segment_bytes: packet.bytes.len(),
                    segments_max: way.socket(&packet.tag).segments_max(packet.bytes.len()),
                    overhead_bytes: packet.overhead_bytes,
                    tag: packet.tag,
                    ecn: packet.ecn,
                });
            }
            self.bytes.extend_from_slice(&packet.bytes);
        }
        refused += self.flush(way);
        refused
    }

    /// Returns true if `packet` can extend the current batch.
    fn takes(&self, packet: &Packet) -> bool {
        let Some(head) = &self.head else { return false };
        let length = packet.bytes.len();
        // A shorter datagram ends the batch; an empty one cannot be a segment.
        let is_open = head.segment_bytes > 0 && self.bytes.len().is_multiple_of(head.segment_bytes);
        is_open
            && (1..=head.segment_bytes).contains(&length)
            && self.bytes.len() / head.segment_bytes < head.segments_max
            && Arc::ptr_eq(&head.tag.client, &packet.tag.client)
            && head.ecn == packet.ecn
    }

    fn flush(&mut self, way: &Way<'_>) -> Datagrams {
        let Some(head) = self.head.take() else { return Datagrams::default() };
        let (packets, payload_bytes) =
            way.socket(&head.tag).send(way.route(&head.tag, head.ecn), &self.bytes, head.segment_bytes);
        self.bytes.clear();
        Datagrams { packets, bytes: payload_bytes + packets * u64::from(head.overhead_bytes) }
    }
}
