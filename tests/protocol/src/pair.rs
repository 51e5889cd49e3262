//! Two ends and the links between them.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use dfcp_netem::{Datagram, Link, LinkConfig, LinkStats};
use dfcp_proto::{Accept, Config, Connection, Endpoint, Profile};
use dfcp_time::Time;
use dfcp_wire::Unverified;

use crate::pattern::Pattern;
use crate::side::{Job, Side};

/// The path between the ends.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// From the connecting to the accepting end.
    pub forward: LinkConfig,
    /// Back.
    pub backward: LinkConfig,
    /// How fast each end's interface takes datagrams, which is what the rate `Line` means.
    pub interface_bps: u64,
}

/// How a run went. `Ok` runs have delivered every byte, in both directions, equal.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When both ends were done.
    pub ended_at: Time,
    /// A hash of every datagram with its time: equal for equal seeds.
    pub trace: u64,
}

/// Two ends.
#[derive(Debug)]
pub struct Pair {
    /// The virtual clock.
    pub now: Time,
    /// The connecting end.
    pub client: Side,
    /// The accepting end.
    pub server: Side,
    forward: Link<Datagram>,
    backward: Link<Datagram>,
    interface_bps: u64,
    trace: u64,
    overhead_bytes: u32,
    /// Steps taken without time passing: a connection which asks to be woken for nothing would hang a real program.
    steps_here: u32,
    /// Datagrams given to the network by the client and the server, for tests which count what is emitted.
    pub emitted: [u64; 2],
    /// Prints a line for every datagram which leaves an end.
    pub log: bool,
    /// Changes or swallows datagrams of either direction: the adversary of hostile tests. Arguments: from client?, bytes.
    pub tamper: Option<fn(bool, &mut [u8]) -> bool>,
}

/// So many steps at one instant mean that a timer is set which nothing serves.
const STEPS_AT_ONCE_MAX: u32 = 10_000;

fn seed32(seed: u64, salt: u8) -> [u8; 32] {
    let mut out = [salt; 32];
    out[..8].copy_from_slice(&seed.to_le_bytes());
    out
}

impl Pair {
    /// A client which connects to a server over `path`; nothing has been sent yet.
    ///
    /// # Errors
    /// If a configuration is invalid.
    pub fn new(seed: u64, path: PathConfig, client: (Config, Job), server: (Config, Job)) -> Result<Self> {
        let (client_address, server_address) =
            (SocketAddr::from(([192, 0, 2, 1], 40_000)), SocketAddr::from(([192, 0, 2, 2], 9_000)));
        let overhead_bytes = client.0.overhead_bytes;
        let accept = match server.0.profile {
            Profile::Classic => Accept { classic: Some(server.0), ..Accept::default() },
            Profile::Modern => Accept { modern: Some(server.0), ..Accept::default() },
        };
        let (up, down) = (Pattern(seed.wrapping_mul(2)), Pattern(seed.wrapping_mul(2) + 1));
        let mut client_end = Endpoint::new(40_000, None, seed32(seed, 1));
        let server_end = Endpoint::new(9_000, Some(accept), seed32(seed, 2));
        let now = Time::from_s(1);
        let (handle, connection) = client_end.connect(now, server_address, client.0)?;
        let mut client = Side::new(client_end, client_address, client.1, up, down);
        client.adopt(handle, connection);
        Ok(Self {
            now,
            client,
            server: Side::new(server_end, server_address, server.1, down, up),
            forward: Link::new(path.forward, seed.wrapping_mul(3))?,
            backward: Link::new(path.backward, seed.wrapping_mul(3) + 1)?,
            interface_bps: path.interface_bps,
            trace: 0xCBF2_9CE4_8422_2325,
            overhead_bytes,
            steps_here: 0,
            emitted: [0; 2],
            log: false,
            tamper: None,
        })
    }

    /// Makes the other end a caller too: both SYNs cross.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn open_simultaneously(&mut self, seed: u64, config: Config) -> Result<()> {
        self.server.endpoint = Endpoint::new(9_000, None, seed32(seed, 3));
        let address = self.client.address;
        let (handle, connection) = self.server.endpoint.connect(self.now, address, config)?;
        self.server.adopt(handle, connection);
        Ok(())
    }

    /// Runs until both ends are done, or `limit` is reached.
    ///
    /// # Errors
    /// If a byte is wrong, a connection ended with an error, or the time is up.
    pub fn run(&mut self, limit: Time) -> Result<Outcome> {
        while !self.is_done() {
            ensure!(self.step(limit), "not done at {limit}: {}", self.describe());
        }
        self.verdict()
    }

    /// Runs until `until`, whatever happens.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = until;
    }

    fn is_done(&self) -> bool {
        let over = |side: &Side| side.dead || (side.main.is_some() && side.connections.is_empty());
        let never_heard = |side: &Side, peer: &Side| side.main.is_none() && peer.main.is_some() && over(peer);
        let client = over(&self.client) || never_heard(&self.client, &self.server);
        client && (over(&self.server) || never_heard(&self.server, &self.client))
    }

    fn verdict(&self) -> Result<Outcome> {
        for (name, side, peer) in [("client", &self.client, &self.server), ("server", &self.server, &self.client)] {
            ensure!(!side.ghost_established, "a late SYN of the {name}'s peer opened a second connection");
            ensure!(side.corrupt_at.is_none(), "the {name} read a wrong byte at {:?}", side.corrupt_at);
            if let Some(error) = side.closed.clone().flatten().or_else(|| side.read_error.clone()) {
                return Err(error).with_context(|| format!("the {name}'s connection failed: {}", self.describe()));
            }
            ensure!(side.read_end, "the {name} has not read to the end");
            ensure!(side.read == peer.written, "the {name} read {} of {} bytes", side.read, peer.written);
        }
        Ok(Outcome { ended_at: self.now, trace: self.trace })
    }

    /// A line about where both ends are.
    #[must_use]
    pub fn describe(&self) -> String {
        let end = |side: &Side| {
            let state = side.connection().map_or("gone", |connection| connection.state().name());
            let timer = side.connection().and_then(|c| c.next_timeout(self.now));
            format!(
                "{state} wrote {} read {} {:?} timer {timer:?} rtt {:?} loss {:.3}",
                side.written,
                side.read,
                side.closed,
                side.stats().rtt,
                side.stats().loss
            )
        };
        let (forward, backward) = self.link_stats();
        format!(
            "client {}; server {}; forward {forward:?}; backward {backward:?}",
            end(&self.client),
            end(&self.server)
        )
    }

    /// Moves to the next thing that happens; `false` if that is after `limit`, or nothing.
    fn step(&mut self, limit: Time) -> bool {
        self.transmit(true);
        self.transmit(false);
        let Some(next) = self.next_time() else { return false };
        if next > limit {
            return false;
        }
        self.steps_here = if next > self.now { 0 } else { self.steps_here + 1 };
        assert!(self.steps_here < STEPS_AT_ONCE_MAX, "time stands still at {}: {}", self.now, self.describe());
        self.now = self.now.max(next);
        self.deliver();
        let now = self.now;
        for side in [&mut self.client, &mut self.server] {
            if !side.dead {
                for connection in side.connections.values_mut() {
                    connection.handle_timeout(now);
                }
                side.work(now);
            }
        }
        true
    }

    fn next_time(&self) -> Option<Time> {
        let ends = [&self.client, &self.server].into_iter().filter(|side| !side.dead).flat_map(|side| {
            let gate = side.next_tx;
            let timers = side.connections.values().filter_map(|c| c.next_timeout(self.now));
            timers.map(move |at| if at <= self.now { at.max(gate) } else { at }).chain(side.next_read())
        });
        ends.chain(self.forward.next_time()).chain(self.backward.next_time()).min()
    }

    fn deliver(&mut self) {
        let now = self.now;
        while let Some(datagram) = self.forward.pop(now) {
            let reply = self.server.receive(now, self.client.address, &datagram.bytes);
            self.push_reply(false, reply);
        }
        while let Some(datagram) = self.backward.pop(now) {
            let reply = self.client.receive(now, self.server.address, &datagram.bytes);
            self.push_reply(true, reply);
        }
    }

    fn push_reply(&mut self, from_client: bool, reply: Option<Vec<u8>>) {
        if let Some(bytes) = reply {
            self.push(from_client, bytes);
        }
    }

    fn push(&mut self, from_client: bool, mut bytes: Vec<u8>) {
        if self.tamper.is_some_and(|tamper| !tamper(from_client, &mut bytes)) {
            return;
        }
        self.emitted[usize::from(!from_client)] += 1;
        let link = if from_client { &mut self.forward } else { &mut self.backward };
        link.push(self.now, Datagram { bytes, overhead_bytes: self.overhead_bytes, flow: 0, tag: () });
    }

    /// Lets one end send what it may at this moment, as fast as its interface takes it.
    fn transmit(&mut self, from_client: bool) {
        let mut buffer = [0; 1500];
        loop {
            let now = self.now;
            let side = if from_client { &mut self.client } else { &mut self.server };
            if side.dead || side.next_tx > now {
                return;
            }
            let sent = side.connections.values_mut().find_map(|c| c.poll_transmit(now, &mut buffer));
            let Some(length) = sent.map(|transmit| transmit.length) else { return };
            let bits = (length as u64 + u64::from(self.overhead_bytes)) * 8;
            side.next_tx =
                side.next_tx.max(now) + std::time::Duration::from_nanos(bits * 1_000_000_000 / self.interface_bps);
            self.note(from_client, &buffer[..length]);
            if self.log {
                self.print(from_client, &buffer[..length]);
            }
            self.push(from_client, buffer[..length].to_vec());
        }
    }

    /// Adds a datagram to the trace: FNV-1a over time, direction and words.
    fn note(&mut self, from_client: bool, bytes: &[u8]) {
        let mut hash = self.trace;
        let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(0x100_0000_01B3);
        add(self.now.as_ns() * 2 + u64::from(from_client));
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| add(u64::from_le_bytes(*word)));
        rest.iter().for_each(|&byte| add(byte.into()));
        self.trace = hash;
    }

    fn print(&self, from_client: bool, bytes: &[u8]) {
        use std::io::Write;
        let says = match Unverified::read(bytes) {
            Ok(Unverified::Classic(header)) => header.verify(bytes).map(|it| format!("{:?}", it.segment)),
            Ok(Unverified::Clear(header)) => header.verify(bytes).map(|it| format!("{} {:?}", it.number, it.segment)),
            Ok(Unverified::Sealed(header)) => Ok(format!("{} sealed", header.number())),
            Err(error) => Err(error),
        };
        let says = says.unwrap_or_else(|error| error.to_string());
        let arrow = if from_client { "->" } else { "<-" };
        let _closed_pipe_is_fine = writeln!(std::io::stdout(), "{} {arrow} {says}, {} bytes", self.now, bytes.len());
    }

    /// Counters of the links, forward and backward.
    #[must_use]
    pub fn link_stats(&self) -> (LinkStats, LinkStats) {
        (self.forward.stats(), self.backward.stats())
    }

    /// Changes the path's rate from now on, in both directions.
    ///
    /// # Errors
    /// If the rate is zero.
    pub fn set_rate_bps(&mut self, rate_bps: u64) -> Result<()> {
        self.forward.set_rate_bps(self.now, Some(rate_bps))?;
        self.backward.set_rate_bps(self.now, Some(rate_bps))?;
        Ok(())
    }

    /// Pulls an end's plug.
    pub fn kill_server(&mut self) {
        self.server.dead = true;
    }

    /// The client's connection, which exists until it is closed.
    ///
    /// # Errors
    /// If it is gone.
    pub fn client_connection(&mut self) -> Result<&mut Connection> {
        self.client.connection_mut().context("the client's connection is gone")
    }
}
