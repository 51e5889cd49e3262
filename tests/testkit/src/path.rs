//! The path between the two nodes of a testbed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use dfcp_netem::{Datagram, Ecn, Link, LinkConfig, LinkStats};
use dfcp_time::Time;

use crate::host::Packet;

/// A path: datagrams with times in, datagrams with times out.
pub trait Path {
    /// Puts a datagram on the path at `now`.
    fn push(&mut self, now: Time, packet: Packet);

    /// Next datagram that has arrived by `now`.
    fn pop(&mut self, now: Time) -> Option<Packet>;

    /// Time of the next arrival, or of another change on the path.
    fn next_time(&self) -> Option<Time>;

    /// Time at which the interface of the node at this address accepts its next datagram; a past time means now.
    fn ready_at(&self, from: SocketAddr) -> Time;

    /// Occupies the interface of the node at this address with the transmission of `bytes` bytes.
    fn occupy(&mut self, now: Time, from: SocketAddr, bytes: usize);
}

/// Configuration of the links between two nodes.
#[derive(Clone, Debug)]
pub struct LinksConfig {
    /// Link from the connecting to the accepting node.
    pub forward: LinkConfig,
    /// Link in the reverse direction.
    pub backward: LinkConfig,
    /// Rate of each node's interface, which defines the rate `Line`.
    pub interface_bps: u64,
}

/// Addresses of a datagram on a link, as seen at the far end.
#[derive(Clone, Copy, Debug)]
struct Ends {
    from: SocketAddr,
    to: SocketAddr,
}

/// An emulated link in each direction, and a NAT in front of each node. Each datagram is delivered to the other node,
/// unless its destination is a former address of that node.
#[derive(Debug)]
pub struct Links {
    forward: Link<Datagram<Ends>>,
    backward: Link<Datagram<Ends>>,
    client: Outside,
    server: Outside,
    interface_bps: u64,
    overhead_bytes: u32,
    /// Times at which the interfaces of client and server are free again.
    ready_at: [Time; 2],
}

/// Address of a node, and its outward address.
#[derive(Debug)]
struct Outside {
    inside: SocketAddr,
    now: SocketAddr,
    /// Former outward addresses.
    former: BTreeSet<SocketAddr>,
    /// Number of datagrams to these addresses.
    lost: u64,
}

impl Outside {
    fn new(inside: SocketAddr) -> Self {
        Self { inside, now: inside, former: BTreeSet::new(), lost: 0 }
    }

    fn move_to(&mut self, outside: SocketAddr) {
        let former = std::mem::replace(&mut self.now, outside);
        self.former.insert(former);
        self.former.remove(&outside);
    }

    /// Admits a datagram, unless its destination is a former address.
    fn admit(&mut self, datagram: Datagram<Ends>) -> Option<Packet> {
        if self.former.contains(&datagram.tag.to) {
            self.lost += 1;
            return None;
        }
        Some(Packet { from: datagram.tag.from, to: self.inside, bytes: datagram.bytes })
    }
}

impl Links {
    /// Makes links between two addresses, with `overhead_bytes` of lower headers per datagram.
    ///
    /// # Errors
    /// Fails if the configuration of a link is invalid.
    pub fn new(
        seed: u64,
        config: LinksConfig,
        client: SocketAddr,
        server: SocketAddr,
        overhead_bytes: u32,
    ) -> Result<Self> {
        Ok(Self {
            forward: Link::new(config.forward, seed.wrapping_mul(3))?,
            backward: Link::new(config.backward, seed.wrapping_mul(3) + 1)?,
            client: Outside::new(client),
            server: Outside::new(server),
            interface_bps: config.interface_bps,
            overhead_bytes,
            ready_at: [Time::ZERO; 2],
        })
    }

    /// Counters of the forward and the reverse link.
    #[must_use]
    pub fn stats(&self) -> (LinkStats, LinkStats) {
        (self.forward.stats(), self.backward.stats())
    }

    /// Changes the client's outward address. Datagrams to the old address are lost on arrival.
    pub fn move_client(&mut self, outside: SocketAddr) {
        self.client.move_to(outside);
    }

    /// Changes the server's outward address.
    pub fn move_server(&mut self, outside: SocketAddr) {
        self.server.move_to(outside);
    }

    /// Makes former addresses of both nodes valid again: datagrams to them arrive.
    pub fn keep_former(&mut self) {
        self.client.former.clear();
        self.server.former.clear();
    }

    /// Numbers of datagrams lost at former addresses of client and server.
    #[must_use]
    pub fn lost_to_moves(&self) -> (u64, u64) {
        (self.client.lost, self.server.lost)
    }

    /// Changes the rate from now on, in both directions.
    ///
    /// # Errors
    /// Fails if the rate is zero.
    pub fn set_rate_bps(&mut self, now: Time, rate_bps: u64) -> Result<()> {
        self.forward.set_rate_bps(now, Some(rate_bps))?;
        self.backward.set_rate_bps(now, Some(rate_bps))?;
        Ok(())
    }

    fn side(&self, from: SocketAddr) -> usize {
        usize::from(from != self.client.inside)
    }
}

impl Path for Links {
    fn push(&mut self, now: Time, packet: Packet) {
        let (link, from) = match packet.from == self.client.inside {
            true => (&mut self.forward, self.client.now),
            false => (&mut self.backward, self.server.now),
        };
        let tag = Ends { from, to: packet.to };
        let overhead_bytes = self.overhead_bytes;
        link.push(now, Datagram { bytes: packet.bytes, overhead_bytes, flow: 0, ecn: Ecn::NotEct, tag });
    }

    fn pop(&mut self, now: Time) -> Option<Packet> {
        while let Some(datagram) = self.forward.pop(now) {
            if let Some(packet) = self.server.admit(datagram) {
                return Some(packet);
            }
        }
        while let Some(datagram) = self.backward.pop(now) {
            if let Some(packet) = self.client.admit(datagram) {
                return Some(packet);
            }
        }
        None
    }

    fn next_time(&self) -> Option<Time> {
        self.forward.next_time().into_iter().chain(self.backward.next_time()).min()
    }

    fn ready_at(&self, from: SocketAddr) -> Time {
        self.ready_at[self.side(from)]
    }

    fn occupy(&mut self, now: Time, from: SocketAddr, bytes: usize) {
        let bits = (bytes as u64 + u64::from(self.overhead_bytes)) * 8;
        let side = self.side(from);
        self.ready_at[side] =
            self.ready_at[side].max(now) + Duration::from_nanos(bits * 1_000_000_000 / self.interface_bps);
    }
}

/// A path with only a delay: every datagram arrives, at its destination address.
#[derive(Debug)]
pub struct DelayLine {
    /// One-way delay.
    pub delay: Duration,
    /// Datagrams by time of arrival, then in sending order.
    queue: BTreeMap<(Time, u64), Packet>,
    serial: u64,
}

impl DelayLine {
    /// Makes a path with this delay in each direction.
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self { delay, queue: BTreeMap::new(), serial: 0 }
    }

    /// Puts a datagram on the path, to arrive at this time.
    pub fn put(&mut self, arrives_at: Time, packet: Packet) {
        self.serial += 1;
        self.queue.insert((arrives_at, self.serial), packet);
    }
}

impl Path for DelayLine {
    fn push(&mut self, now: Time, packet: Packet) {
        self.put(now + self.delay, packet);
    }

    fn pop(&mut self, now: Time) -> Option<Packet> {
        let first = self.queue.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }

    fn next_time(&self) -> Option<Time> {
        self.queue.keys().next().map(|(at, _)| *at)
    }

    fn ready_at(&self, _from: SocketAddr) -> Time {
        Time::ZERO
    }

    fn occupy(&mut self, _now: Time, _from: SocketAddr, _bytes: usize) {}
}
