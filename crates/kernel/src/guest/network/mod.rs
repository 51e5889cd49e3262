//! Network of a scenario in the kernel: each node is a network namespace, each link a pair of wires.
//!
//! A wire from A to B treats packets like a link of the simulator:
//!
//! ```text
//! A's device            devices of the ether                B's device
//! police, tbf ── queue ► redirect ──► netem: transmission ──────►
//! (drops) (pace, drops)              time, loss, delay, batches
//! ```
//!
//! The ether is an additional namespace without addresses: a packet that enters through one device of a wire leaves through the other.
//! `tbf` releases one packet at a time, at the link's rate, so the queue below it holds the waiting packets without the one being sent.
//! `netem` then delays each packet by its transmission time and the propagation delay.
//!
//! The kernel answers every request within the same system call, so the code is synchronous: no virtual time passes while a network is
//! built, changed or measured.

mod attributes;
mod build;
mod device;
mod error;
mod ethtool;
mod namespace;
mod nat;
mod netlink;
mod qdisc;
mod tc;
mod tcp_info;
mod wire;

use std::fs::File;
use std::io;
use std::net::Ipv4Addr;

use dfcp_flows::Hosts;
use dfcp_lab::scenario::Layout;
use dfcp_netem::LinkChange;
use dfcp_sim::{Edge, Node};
use rtnetlink::sys::protocols::NETLINK_SOCK_DIAG;

use self::device::Route;
pub use self::device::{Counters, RouteMetrics};
use self::error::Asked;
pub use self::error::NetworkError;
use self::namespace::Namespace;
use self::nat::Nats;
use self::netlink::Netlink;
pub use self::netlink::Refusal;
pub use self::tcp_info::TcpInfo;
use self::wire::Wire;

/// A network in the kernel. It exists until this value is dropped, its sockets are closed and its processes have ended.
#[derive(Debug)]
pub struct Network {
    home: File,
    nodes: Vec<Namespace>,
    ether: Namespace,
    /// Wires, by edge.
    wires: Vec<Wire>,
    /// Routes of each node.
    routes: Vec<Vec<Route>>,
    seed: u64,
    is_seeded: bool,
    nats: Nats,
}

/// Counters of an edge's queue and wire since they were built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeSample {
    /// Packets now waiting, without the one being sent.
    pub waiting_packets: u32,
    /// Packets that arrived at the queue (sent or dropped).
    pub offered_packets: u64,
    /// Packets dropped by the queue or by the policer in front of it.
    pub dropped_packets: u64,
    /// Packets marked for congestion by the queue.
    pub marked_packets: u64,
    /// Packets and bytes sent by the queue.
    pub sent: Counters,
    /// Packets lost at random after the queue, without those lost in outages.
    pub lost_packets: u64,
}

impl Network {
    /// Builds the network of a layout.
    ///
    /// # Errors
    /// Fails with one sentence: the device, the request and the kernel's answer, or the feature of the layout that the kernel lacks.
    pub fn build(layout: &Layout, seed: u64) -> Result<Self, NetworkError> {
        build::build(layout, seed)
    }

    /// Runs `f` with the calling thread in a node's namespace. Sockets opened and processes started by `f` stay in that namespace; work
    /// that `f` hands to other threads does not run there.
    ///
    /// # Errors
    /// Fails if the thread cannot enter the namespace.
    pub fn enter<T>(&self, node: Node, f: impl FnOnce() -> T) -> Result<T, NetworkError> {
        let failed = |error| NetworkError::system(format!("cannot enter node {}", node.index()), error);
        self.node(node)?.enter(&self.home, f).map_err(failed)
    }

    /// The address of a node.
    #[must_use]
    pub fn address(&self, node: Node) -> Ipv4Addr {
        build::address(node.index())
    }

    /// True if the kernel's random losses and jitter follow the seed (Linux 6.6 and later); otherwise every run differs. The hashes of SFQ
    /// and FQ-CoDel and the early drops of RED never follow it. False if no wire uses random numbers.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        self.is_seeded
    }

    /// Changes an edge while packets are on it. Waiting and travelling packets are kept; the new delay and losses apply to packets that the
    /// transmitter sends from now on. Order is kept: after the delay is reduced, packets arrive after earlier ones.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn change(&mut self, edge: Edge, change: &LinkChange) -> Result<(), NetworkError> {
        let wire = self.wire(edge)?;
        if let Some(rate_bps) = change.rate_bps {
            wire.set_rate(rate_bps);
        }
        if let Some(delay) = change.delay {
            wire.netem.delay = delay;
        }
        if let Some(loss) = &change.loss {
            wire.netem.loss = loss.clone();
        }
        if change.rate_bps.is_some() {
            self.set_transmitter(edge.index())?;
        }
        if let Some(is_out) = change.outage {
            self.set_outage(edge.index(), is_out)?;
        }
        self.set_netem(edge.index())
    }

    /// Counters of an edge. Cheap enough for traces: at most two requests to the kernel, about 0.1 ms of host time.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn sample(&mut self, edge: Edge) -> Result<EdgeSample, NetworkError> {
        self.wire(edge)?;
        self.sample_wire(edge.index())
    }

    /// Packets received by a host.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn received(&mut self, node: Node) -> Result<Counters, NetworkError> {
        self.node(node)?;
        let into = self.wires.iter().enumerate().filter(|(_, wire)| wire.to == node.index());
        // A wire ends at the device through which packets of the reverse direction are sent.
        let devices: Vec<u32> = into.map(|(edge, _)| wire::device(wire::back(edge))).collect();
        let mut sum = Counters::default();
        for device in devices {
            let counters = self.nodes[node.index()].netlink.counters(device);
            let counters = counters.asked(|| format!("cannot read the statistics of node {}", node.index()))?;
            sum.packets += counters.received.packets;
            sum.ip_bytes += counters.received.ip_bytes;
        }
        Ok(sum)
    }

    /// Sets the metrics of the route from `host` to `peer`, which TCP uses for new connections.
    ///
    /// # Errors
    /// Fails if `host` has no route to `peer`, or the kernel refuses.
    pub fn set_route_metrics(&mut self, host: Node, peer: Node, metrics: RouteMetrics) -> Result<(), NetworkError> {
        let to = self.address(peer);
        let route = self.routes.get(host.index()).and_then(|routes| routes.iter().find(|route| route.to == to));
        let none = || NetworkError::layout(format!("node {} has no route to node {}", host.index(), peer.index()));
        let route = route.ok_or_else(none)?;
        let set = self.nodes[host.index()].netlink.set_route(route, metrics);
        set.asked(|| format!("cannot set the metrics of node {}'s route to {to}", host.index()))
    }

    /// State of the TCP connection from `host` to `peer`; `None` if there is none.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn tcp_info(&self, host: Node, peer: Node) -> Result<Option<TcpInfo>, NetworkError> {
        let what = || format!("cannot read what TCP of node {} says", host.index());
        let netlink = self.enter(host, || Netlink::open(NETLINK_SOCK_DIAG))?;
        let mut netlink = netlink.map_err(|error| NetworkError::system(what(), error))?;
        tcp_info::tcp_info(&mut netlink, self.address(peer)).asked(what)
    }

    fn node(&self, node: Node) -> Result<&Namespace, NetworkError> {
        let none = || NetworkError::layout(format!("the network has no node {}", node.index()));
        self.nodes.get(node.index()).ok_or_else(none)
    }

    fn wire(&mut self, edge: Edge) -> Result<&mut Wire, NetworkError> {
        let none = || NetworkError::layout(format!("the network has no edge {}", edge.index()));
        self.wires.get_mut(edge.index()).ok_or_else(none)
    }
}

/// Access of flows to the nodes of the network.
impl Hosts for Network {
    fn enter<T>(&self, host: Node, f: impl FnOnce() -> T) -> Result<T, String> {
        Self::enter(self, host, f).map_err(|error| error.to_string())
    }

    fn address(&self, host: Node) -> Ipv4Addr {
        Self::address(self, host)
    }
}

/// Makes an error of `what` with the system's reason.
fn system(what: &'static str) -> impl Fn(io::Error) -> NetworkError {
    move |error| NetworkError::system(what, error)
}
