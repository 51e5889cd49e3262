//! A client, a server, and the path between them, on one virtual clock.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_proto::{Accept, Config};
use dfcp_time::Time;

use crate::application::Job;
use crate::host::{Host, Packet, seed32};
use crate::node::Node;
use crate::path::{DelayLine, Links, LinksConfig, Path};
use crate::pattern::Pattern;

/// Maximum steps at one instant. More steps mean that a due timer is never handled, which would be a busy loop in a
/// real program.
const STEPS_AT_ONCE_MAX: u32 = 20_000;

/// Default one-way delay of a [`DelayLine`].
const DELAY: Duration = Duration::from_millis(5);

/// Bytes per write of an eager application. It writes at every step, so larger writes would only take time.
const EAGER_WRITE_BYTES: usize = 2_048;

/// Basis and prime of FNV-1a, 64 bits.
const FNV: (u64, u64) = (0xCBF2_9CE4_8422_2325, 0x100_0000_01B3);

/// Tap: maps a sent datagram to the datagrams that the path carries instead.
pub type Tap = Box<dyn FnMut(Time, Packet) -> Vec<Packet>>;

/// Result of a successful run: every byte was delivered unchanged in both directions.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time at which both nodes were done.
    pub ended_at: Time,
    /// Hash of every datagram with its time: equal for equal seeds.
    pub trace: u64,
}

/// Two nodes and the path between them.
pub struct Testbed<P> {
    /// Virtual time.
    pub now: Time,
    /// Connecting node.
    pub client: Node,
    /// Accepting node.
    pub server: Node,
    /// Path between the nodes.
    pub path: P,
    /// Tap for every sent datagram; initially all pass unchanged.
    pub tap: Tap,
    /// Datagrams delivered in the latest step.
    pub delivered: Vec<Packet>,
    /// Datagrams sent to addresses that belong to neither node.
    pub elsewhere: Vec<Packet>,
    trace: u64,
    steps_here: u32,
}

impl<P> std::fmt::Debug for Testbed<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { now, client, server, .. } = self;
        let testbed = &mut f.debug_struct("Testbed");
        testbed.field("now", now).field("client", client).field("server", server).finish_non_exhaustive()
    }
}

/// First address of the client.
#[must_use]
pub fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

/// Address of the server.
#[must_use]
pub fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 9_000).into()
}

impl<P: Path> Testbed<P> {
    /// Makes a client and an accepting server; nothing has been sent yet.
    #[must_use]
    pub fn with_path(seed: u64, accept: impl Into<Accept>, path: P) -> Self {
        let (up, down) = (Pattern(seed.wrapping_mul(2)), Pattern(seed.wrapping_mul(2).wrapping_add(1)));
        Self {
            now: Time::from_s(1),
            client: Node::new(client_address(), None, seed32(seed, 1), up, down),
            server: Node::new(server_address(), Some(accept.into()), seed32(seed, 2), down, up),
            path,
            tap: Box::new(|_, packet| vec![packet]),
            delivered: Vec::new(),
            elsewhere: Vec::new(),
            trace: FNV.0,
            steps_here: 0,
        }
    }

    /// Opens a connection from the client.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn connect(&mut self, config: Config) -> Result<()> {
        Ok(self.client.connect(self.now, self.server.host.address, config)?)
    }

    /// Advances to the next event; returns false if it is after `limit`, or there is none. Panics if time does not advance.
    pub fn step(&mut self, limit: Time) -> bool {
        self.transmit(true);
        self.transmit(false);
        let Some(next) = self.next_time().filter(|&next| next <= limit) else { return false };
        self.steps_here = if next > self.now { 0 } else { self.steps_here + 1 };
        assert!(self.steps_here < STEPS_AT_ONCE_MAX, "time stands still at {}: {}", self.now, self.describe());
        self.now = self.now.max(next);
        self.deliver();
        self.client.work(self.now);
        self.server.work(self.now);
        true
    }

    /// Runs until the time `until`.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Runs until each node has read one stream to its end, and checks the bytes.
    ///
    /// # Errors
    /// Fails if a node has not read its stream to the end by `limit`, or if a byte is wrong.
    pub fn finish(&mut self, limit: Time) -> Result<()> {
        while self.client.read_to_end != 1 || self.server.read_to_end != 1 {
            ensure!(self.step(limit), "not done at {limit}: {}", self.describe());
        }
        for (node, peer) in [(&self.client, &self.server), (&self.server, &self.client)] {
            ensure!(node.corrupt_at.is_none(), "a wrong byte was read at {:?}", node.corrupt_at);
            ensure!(node.read == peer.job.send_bytes, "{} of {} bytes were read", node.read, peer.job.send_bytes);
        }
        Ok(())
    }

    /// Describes the state of both nodes in one line.
    #[must_use]
    pub fn describe(&self) -> String {
        let node = |node: &Node| {
            let timer = node.connection().and_then(|it| it.next_timeout(self.now));
            let Node { written, read, ended, .. } = node;
            let (rtt, loss) = (node.stats().rtt, node.stats().loss);
            format!(
                "{} wrote {written} read {read} {ended:?} timer {timer:?} rtt {rtt:?} loss {loss:.3}",
                node.state().name()
            )
        };
        format!("client {}; server {}", node(&self.client), node(&self.server))
    }

    /// Hash of all sent datagrams of both nodes, with times and destinations.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace
    }

    fn next_time(&self) -> Option<Time> {
        let nodes = [&self.client, &self.server].map(|it| it.next_time(self.now, self.path.ready_at(it.host.address)));
        nodes.into_iter().chain([self.path.next_time()]).flatten().min()
    }

    /// Sends the permitted datagrams of one node at this time, as fast as its interface accepts them.
    fn transmit(&mut self, from_client: bool) {
        let now = self.now;
        loop {
            let node = if from_client { &mut self.client } else { &mut self.server };
            let address = node.host.address;
            if self.path.ready_at(address) > now {
                return;
            }
            let Some(packet) = node.transmit(now) else { return };
            self.path.occupy(now, address, packet.bytes.len());
            self.send(packet);
        }
    }

    fn send(&mut self, packet: Packet) {
        self.note(&packet);
        for packet in (self.tap)(self.now, packet) {
            self.path.push(self.now, packet);
        }
    }

    fn deliver(&mut self) {
        self.delivered.clear();
        while let Some(packet) = self.path.pop(self.now) {
            let node = if packet.to == self.server.host.address {
                &mut self.server
            } else if packet.to == self.client.host.address {
                &mut self.client
            } else {
                self.elsewhere.push(packet);
                continue;
            };
            if let Some(bytes) = node.receive(self.now, packet.from, &packet.bytes) {
                self.send(Packet { from: packet.to, to: packet.from, bytes });
            }
            self.delivered.push(packet);
        }
    }

    /// Adds a datagram to the trace: FNV-1a over time, destination and words.
    fn note(&mut self, packet: &Packet) {
        let mut hash = self.trace;
        let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(FNV.1);
        add(self.now.as_ns());
        match packet.to.ip() {
            std::net::IpAddr::V4(ip) => add(ip.to_bits().into()),
            std::net::IpAddr::V6(ip) => add(ip.to_bits() as u64),
        }
        add(packet.to.port().into());
        let (words, rest) = packet.bytes.as_chunks::<8>();
        words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|&byte| add(byte.into()));
        self.trace = hash;
    }
}

impl Testbed<DelayLine> {
    /// Makes a testbed with a server and without a connection, 5 ms apart. The traffic that an attacker draws should be limited only by the
    /// protocol, so the applications are eager.
    #[must_use]
    pub fn new(seed: u64, accept: impl Into<Accept>) -> Self {
        let mut testbed = Self::with_path(seed, accept, DelayLine::new(DELAY));
        let eager = Job { is_eager: true, write_bytes: EAGER_WRITE_BYTES, ..Job::send(0) };
        (testbed.client.job, testbed.server.job) = (eager, eager);
        testbed
    }

    /// Puts a datagram on the path, to arrive after `delay`.
    pub fn put(&mut self, packet: Packet, delay: Duration) {
        self.path.put(self.now + delay, packet);
    }
}

impl Testbed<Links> {
    /// Makes a client connected to a server over emulated links, with the jobs of their applications. Each node serves
    /// one connection.
    ///
    /// # Errors
    /// Fails if a configuration is invalid.
    pub fn over(seed: u64, links: LinksConfig, client: (Config, Job), server: (Config, Job)) -> Result<Self> {
        let overhead_bytes = client.0.overhead_bytes;
        let path = Links::new(seed, links, client_address(), server_address(), overhead_bytes)?;
        let mut testbed = Self::with_path(seed, server.0, path);
        for (node, job) in [(&mut testbed.client, client.1), (&mut testbed.server, server.1)] {
            (node.job, node.is_single) = (job, true);
        }
        testbed.connect(client.0)?;
        Ok(testbed)
    }

    /// Opens a connection from the server as well, so that both SYNs cross.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn open_simultaneously(&mut self, seed: u64, config: Config) -> Result<()> {
        self.server.host = Host::new(server_address(), None, seed32(seed, 3));
        Ok(self.server.connect(self.now, client_address(), config)?)
    }

    /// Runs until the connections of both nodes have ended, or `limit` is reached.
    ///
    /// # Errors
    /// Fails if a byte is wrong, a connection ended with an error, or the time is over.
    pub fn run(&mut self, limit: Time) -> Result<Outcome> {
        while !self.is_done() {
            ensure!(self.step(limit), "not done at {limit}: {}; links {:?}", self.describe(), self.path.stats());
        }
        self.verdict()
    }

    fn is_done(&self) -> bool {
        let over = |node: &Node| node.is_off || node.is_over();
        let never_heard = |node: &Node, peer: &Node| node.is_untouched() && over(peer);
        let client = over(&self.client) || never_heard(&self.client, &self.server);
        client && (over(&self.server) || never_heard(&self.server, &self.client))
    }

    fn verdict(&mut self) -> Result<Outcome> {
        for (name, node) in [("client", &mut self.client), ("server", &mut self.server)] {
            ensure!(!node.has_established_more(), "a late SYN of the {name}'s peer opened a second connection");
        }
        for (name, node, peer) in [("client", &self.client, &self.server), ("server", &self.server, &self.client)] {
            ensure!(node.corrupt_at.is_none(), "the {name} read a wrong byte at {:?}", node.corrupt_at);
            if let Some(error) = node.ended.first().cloned().flatten().or_else(|| node.read_error.clone()) {
                return Err(error).with_context(|| format!("the {name}'s connection failed: {}", self.describe()));
            }
            ensure!(node.read_to_end > 0, "the {name} has not read to the end");
            ensure!(node.read == peer.written, "the {name} read {} of {} bytes", node.read, peer.written);
        }
        Ok(Outcome { ended_at: self.now, trace: self.trace })
    }
}
