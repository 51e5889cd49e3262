//! One bulk stream between two endpoints, for counts of allocations and instructions.
//!
//! [`Pair`](crate::Pair) supports everything that can happen to a connection; this driver does a single thing with minimal work outside the
//! protocol. So it drives its [`Host`]s itself: datagrams are written into a ring and processed there in place, like in a socket's buffers,
//! and once a flow runs, nothing here allocates. The clock advances by the time of a datagram at the sender's interface. The same
//! configuration gives the same flow.

mod lanes;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_proto::{
    Config, Connection, DATAGRAM_BUFFER_BYTES, Rate, Read, SendBuffering, State, Stats, StreamEvent, StreamId,
    StreamLimits,
};
use dfcp_testkit::{Host, Received, Trust, seed32};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use lanes::Lanes;

/// Settings of a flow. With [`Rate::Line`], its ends send as fast as the interface accepts datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowConfig {
    /// True for encryption; otherwise datagrams have a CRC.
    pub sealed: bool,
    /// Share of lost datagrams, in both directions and independently, 0 to 1.
    pub loss: f64,
    /// Rate of both ends.
    pub rate: Rate,
    /// One-way delay of a datagram after the interface.
    pub delay: Duration,
    /// Rate of the sender's interface, bit/s.
    pub interface_bps: u64,
    /// Seed of losses and keys.
    pub seed: u64,
    /// Number of additional streams of equal weight that are written to continuously instead of the first one; 0 uses the first one.
    pub streams: u32,
    /// Bytes that these streams accept ahead of sending.
    pub send_buffering: SendBuffering,
}

impl Default for FlowConfig {
    /// Default flow: encrypted, without loss, 10 Gbit/s, a one-way delay of half a millisecond, and only the first
    /// stream. Additional streams are written in the way of tasks that use the library `dfcp`.
    fn default() -> Self {
        let (delay, interface_bps) = (Duration::from_micros(500), 10_000_000_000);
        Self {
            sealed: true,
            loss: 0.0,
            rate: Rate::Line,
            delay,
            interface_bps,
            seed: 1,
            streams: 0,
            send_buffering: SendBuffering::Shallow,
        }
    }
}

/// Two ends, one of which sends continuously.
#[derive(Debug)]
pub struct Flow {
    now: Time,
    /// Time of a full datagram at the interface.
    datagram_time: Duration,
    sender: Host,
    receiver: Host,
    forward: Wire,
    backward: Wire,
    /// Bytes to write, repeatedly.
    content: Vec<u8>,
    written: u64,
    writable: bool,
    /// Bytes read in the latest step.
    taken: Vec<u8>,
    read: u64,
    lanes: Lanes,
    /// Datagrams sent by the sender.
    sent: u64,
}

/// Datagrams that an end sends or receives before it checks its timers: about the number per system call.
const RUN_DATAGRAMS: u64 = 32;
/// Bytes of the content; not a multiple of a symbol or block.
const CONTENT_BYTES: usize = 65_521;
/// Maximum number of bytes read in one step.
const TAKEN_BYTES: usize = 1 << 20;
/// Bytes of a full datagram including headers below it.
const PACKET_BYTES: u64 = 1_500;
/// A flow counts as stuck after this many steps without a datagram from the sender.
const IDLE_TURNS_MAX: u32 = 1_000_000;

impl Flow {
    /// Opens a flow: two connected ends, ready to send.
    ///
    /// # Errors
    /// Fails if a configuration is invalid, or the connection does not open.
    pub fn open(config: FlowConfig) -> Result<Self> {
        let addresses = [(40_000, 1), (9_000, 2)].map(|(port, host)| SocketAddr::from(([192, 0, 2, host], port)));
        let trust = if config.sealed { Trust::Pinned } else { Trust::Unsealed };
        let (own, accepting) = trust.security();
        let streams = StreamLimits { bidirectional: 0, one_way: config.streams };
        let modern = |security| Config { streams, ..Config::modern().with_rate(config.rate).with_security(security) };
        let now = Time::from_s(1);
        let mut caller = Host::new(addresses[0], None, seed32(config.seed, 1));
        caller.connect(now, addresses[1], modern(own))?;
        let listener = Host::new(addresses[1], Some(modern(accepting).into()), seed32(config.seed, 2));
        let datagram_time = Duration::from_nanos(PACKET_BYTES * 8 * 1_000_000_000 / config.interface_bps.max(1));
        let under_way = config.delay.as_nanos() / datagram_time.as_nanos().max(1);
        let slots = usize::try_from(under_way)?.saturating_add(4 * RUN_DATAGRAMS as usize);
        let mut flow = Self {
            now,
            datagram_time,
            sender: caller,
            receiver: listener,
            forward: Wire::new(addresses[0], slots, config, 3),
            backward: Wire::new(addresses[1], slots, config, 4),
            content: Pcg64Mcg::seed_from_u64(config.seed).random_iter().take(CONTENT_BYTES).collect(),
            written: 0,
            writable: true,
            taken: vec![0; TAKEN_BYTES],
            read: 0,
            lanes: Lanes::default(),
            sent: 0,
        };
        while flow.read == 0 {
            ensure!(flow.now < Time::from_s(60), "the two ends were not connected within a minute");
            flow.turn(RUN_DATAGRAMS)?;
        }
        if config.streams > 0 {
            let connection = flow.sender.connection_mut().context("the sender has no connection")?;
            connection.set_send_buffering(config.send_buffering);
            flow.lanes = Lanes::open(connection, config.streams)?;
        }
        Ok(flow)
    }

    /// Continues until the sender has sent this many further `datagrams`.
    ///
    /// # Errors
    /// Fails if a byte is wrong, a connection ends, or nothing more is sent.
    pub fn run(&mut self, datagrams: u64) -> Result<()> {
        let end = self.sent + datagrams;
        let mut idle_turns = 0;
        while self.sent < end {
            let before = self.sent;
            self.turn(RUN_DATAGRAMS.min(end - before))?;
            idle_turns = if self.sent > before { 0 } else { idle_turns + 1 };
            ensure!(idle_turns < IDLE_TURNS_MAX, "nothing has been sent for long: {:?}", self.sender_stats());
        }
        Ok(())
    }

    /// Number of bytes read, all in order and equal to the written ones.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read
    }

    /// Counters of the sending connection.
    #[must_use]
    pub fn sender_stats(&self) -> Stats {
        self.sender.connection().map(Connection::stats).unwrap_or_default()
    }

    /// Counters of the receiving connection.
    #[must_use]
    pub fn receiver_stats(&self) -> Stats {
        self.receiver.connection().map(Connection::stats).unwrap_or_default()
    }

    fn turn(&mut self, datagrams_max: u64) -> Result<()> {
        self.sending_end(datagrams_max);
        self.now += self.datagram_time * RUN_DATAGRAMS as u32;
        let taken = self.receiving_end()?;
        self.check(taken)
    }

    /// All work of the sending end on datagrams, separate from [`receiving_end`](Self::receiving_end) in a profile.
    #[inline(never)]
    fn sending_end(&mut self, datagrams_max: u64) {
        take(&mut self.sender, self.now, &mut self.backward, &mut self.forward);
        let Some(connection) = self.sender.connection_mut() else { return };
        while connection.poll_event().is_some() {}
        if self.lanes.are_none() {
            while let Some(event) = connection.streams().poll_event() {
                self.writable |= event == StreamEvent::Writable(StreamId::FIRST);
            }
        } else {
            self.lanes.write(self.now, connection, &self.content);
            self.writable = false;
        }
        while self.writable {
            let from = (self.written % CONTENT_BYTES as u64) as usize;
            let piece = &self.content[from..];
            let taken = connection.streams().write(self.now, StreamId::FIRST, piece).unwrap_or_default();
            self.written += taken as u64;
            self.writable = taken == piece.len();
        }
        for n in 0..datagrams_max {
            let at = self.now + self.datagram_time * n as u32;
            if !self.forward.push(at, |out| connection.poll_transmit(at, out).map(|transmit| transmit.length)) {
                break;
            }
            self.sent += 1;
        }
    }

    /// All work of the receiving end; returns the number of bytes read.
    #[inline(never)]
    fn receiving_end(&mut self) -> Result<usize> {
        let now = self.now;
        take(&mut self.receiver, now, &mut self.forward, &mut self.backward);
        let Some(connection) = self.receiver.connection_mut() else { return Ok(0) };
        while connection.poll_event().is_some() {}
        if self.lanes.are_none() {
            while connection.streams().poll_event().is_some() {}
        }
        let mut taken = 0;
        while taken < self.taken.len()
            && let Read::Bytes(bytes) = connection.streams().read(now, StreamId::FIRST, &mut self.taken[taken..])?
        {
            taken += bytes;
        }
        if !self.lanes.are_none() {
            // Bytes written to the first stream before the others were opened are read above.
            self.lanes.read(now, connection, &mut self.taken[taken..], &self.content)?;
        }
        while self.backward.push(now, |out| connection.poll_transmit(now, out).map(|transmit| transmit.length)) {}
        Ok(taken)
    }

    /// Compares the bytes read with those written.
    fn check(&mut self, taken: usize) -> Result<()> {
        let mut rest = &self.taken[..taken];
        while !rest.is_empty() {
            let from = (self.read % CONTENT_BYTES as u64) as usize;
            let (piece, later) = rest.split_at(rest.len().min(CONTENT_BYTES - from));
            ensure!(piece == &self.content[from..from + piece.len()], "wrong bytes behind byte {}", self.read);
            self.read += piece.len() as u64;
            rest = later;
        }
        let connection = self.sender.connection().context("the sender has no connection")?;
        ensure!(connection.state() != State::Closed, "the sender's connection has ended");
        Ok(())
    }
}

/// Delivers the datagrams that have arrived by `now` to a host, and handles its timers.
fn take(host: &mut Host, now: Time, from: &mut Wire, to: &mut Wire) {
    let peer = from.sender;
    while let Some((at, datagram)) = from.pop(now) {
        if let Received::Reply(answer) = host.receive(at, peer, datagram) {
            to.push(now, |out| {
                out[..answer.len()].copy_from_slice(&answer);
                Some(answer.len())
            });
        }
    }
    if host.next_timeout(now).is_some_and(|due| due <= now) {
        host.handle_timeout(now);
    }
}

/// Datagrams in flight in one direction: a ring of buffers, without allocation or copying.
#[derive(Debug)]
struct Wire {
    /// Address of the sending end.
    sender: SocketAddr,
    slots: Vec<Slot>,
    first: usize,
    count: usize,
    delay: Duration,
    loss: f64,
    random: Pcg64Mcg,
}

#[derive(Clone, Debug)]
struct Slot {
    bytes: [u8; DATAGRAM_BUFFER_BYTES],
    length: usize,
    arrives_at: Time,
}

impl Wire {
    fn new(sender: SocketAddr, slots: usize, config: FlowConfig, salt: u64) -> Self {
        let empty = Slot { bytes: [0; DATAGRAM_BUFFER_BYTES], length: 0, arrives_at: Time::ZERO };
        Self {
            sender,
            slots: vec![empty; slots],
            first: 0,
            count: 0,
            delay: config.delay,
            loss: config.loss,
            random: Pcg64Mcg::seed_from_u64(config.seed.wrapping_mul(8).wrapping_add(salt)),
        }
    }

    /// Sends the output of `write`, if there is any and the ring has room. Returns true if a datagram was sent.
    fn push(&mut self, now: Time, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.count == self.slots.len() {
            return false;
        }
        let place = (self.first + self.count) % self.slots.len();
        let slot = &mut self.slots[place];
        let Some(length) = write(&mut slot.bytes) else { return false };
        (slot.length, slot.arrives_at) = (length, now + self.delay);
        let is_lost = self.loss > 0.0 && self.random.random_bool(self.loss);
        self.count += usize::from(!is_lost);
        true
    }

    /// Next datagram that has arrived, with its time of arrival.
    fn pop(&mut self, now: Time) -> Option<(Time, &mut [u8])> {
        let next = (self.first + 1) % self.slots.len();
        let slot = self.slots.get_mut(self.first).filter(|slot| self.count > 0 && slot.arrives_at <= now)?;
        self.first = next;
        self.count -= 1;
        Some((slot.arrives_at, &mut slot.bytes[..slot.length]))
    }
}
