//! What carries datagrams between the two nodes of a testbed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use dfcp_netem::{Datagram, Link, LinkConfig, LinkStats};
use dfcp_time::Time;

use crate::host::Packet;

/// Datagrams in with time, datagrams out with time.
pub trait Path {
    /// Takes a datagram at `now`.
    fn push(&mut self, now: Time, packet: Packet);

    /// The next datagram which has arrived by `now`.
    fn pop(&mut self, now: Time) -> Option<Packet>;

    /// When the next datagram arrives, or something else happens on the way.
    fn next_time(&self) -> Option<Time>;

    /// When the interface of the node at this address takes its next datagram; a time in the past means at once.
    fn ready_at(&self, from: SocketAddr) -> Time;

    /// The node at this address has sent `bytes` bytes, which its interface is busy with.
    fn occupy(&mut self, now: Time, from: SocketAddr, bytes: usize);
}

/// The links between two nodes.
#[derive(Clone, Debug)]
pub struct LinksConfig {
    /// From the connecting to the accepting node.
    pub forward: LinkConfig,
    /// Back.
    pub backward: LinkConfig,
    /// How fast each node's interface takes datagrams, which is what the rate `Line` means.
    pub interface_bps: u64,
}

/// An emulated link each way. Datagrams go to the other node, whatever their destination.
#[derive(Debug)]
pub struct Links {
    forward: Link<Datagram>,
    backward: Link<Datagram>,
    client: SocketAddr,
    server: SocketAddr,
    interface_bps: u64,
    overhead_bytes: u32,
    /// When the interfaces of client and server are free again.
    ready_at: [Time; 2],
}

impl Links {
    /// Links between two addresses, with `overhead_bytes` of lower headers for each datagram.
    ///
    /// # Errors
    /// If a link makes no sense.
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
            client,
            server,
            interface_bps: config.interface_bps,
            overhead_bytes,
            ready_at: [Time::ZERO; 2],
        })
    }

    /// Counters, forward and backward.
    #[must_use]
    pub fn stats(&self) -> (LinkStats, LinkStats) {
        (self.forward.stats(), self.backward.stats())
    }

    /// Changes the rate from now on, in both directions.
    ///
    /// # Errors
    /// If the rate is zero.
    pub fn set_rate_bps(&mut self, now: Time, rate_bps: u64) -> Result<()> {
        self.forward.set_rate_bps(now, Some(rate_bps))?;
        self.backward.set_rate_bps(now, Some(rate_bps))?;
        Ok(())
    }

    fn side(&self, from: SocketAddr) -> usize {
        usize::from(from != self.client)
    }
}

impl Path for Links {
    fn push(&mut self, now: Time, packet: Packet) {
        let link = if packet.from == self.client { &mut self.forward } else { &mut self.backward };
        link.push(now, Datagram { bytes: packet.bytes, overhead_bytes: self.overhead_bytes, flow: 0, tag: () });
    }

    fn pop(&mut self, now: Time) -> Option<Packet> {
        if let Some(datagram) = self.forward.pop(now) {
            return Some(Packet { from: self.client, to: self.server, bytes: datagram.bytes });
        }
        let datagram = self.backward.pop(now)?;
        Some(Packet { from: self.server, to: self.client, bytes: datagram.bytes })
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

/// A delay and nothing else: every datagram arrives, at whatever address it names.
#[derive(Debug)]
pub struct DelayLine {
    /// One way.
    pub delay: Duration,
    /// By arrival, and then by the order in which they were sent.
    queue: BTreeMap<(Time, u64), Packet>,
    serial: u64,
}

impl DelayLine {
    /// A path of this delay each way.
    #[must_use]
    pub fn new(delay: Duration) -> Self {
        Self { delay, queue: BTreeMap::new(), serial: 0 }
    }

    /// Puts a datagram on its way, to arrive at this time.
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
