//! One bulk stream between two endpoints, to count allocations and instructions.
//!
//! [`Pair`](crate::Pair) can do anything to a connection; this does one thing with as little as possible besides
//! the protocol. So it drives its [`Host`]s itself: datagrams are written into a ring and taken in from there in place,
//! as a socket's buffers would be, and once a flow runs, nothing here allocates. The clock moves by the time a datagram
//! takes at the sender's interface. The same configuration gives the same flow.

mod lanes;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_proto::{
    Config, Connection, DATAGRAM_BUFFER_BYTES, Event, Rate, Read, SendBuffering, State, Stats, StreamLimits,
};
use dfcp_testkit::{Host, Received, Trust, seed32};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use lanes::Lanes;

/// Settings of a flow. With a rate of [`Rate::Line`], its ends send as fast as the interface takes datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowConfig {
    /// Encrypted if true; otherwise datagrams have a CRC.
    pub sealed: bool,
    /// Share of the datagrams which are lost, in both directions and independently, 0 to 1.
    pub loss: f64,
    /// Rate of both ends.
    pub rate: Rate,
    /// One-way delay of a datagram behind the interface.
    pub delay: Duration,
    /// The interface of the sending end, bits per second.
    pub interface_bps: u64,
    /// Seed of losses and keys.
    pub seed: u64,
    /// Streams beside the first one, all of one weight, which are written to without end in its place; 0 writes to the first.
    pub streams: u32,
    /// Bytes that these streams accept ahead of sending.
    pub send_buffering: SendBuffering,
}

impl Default for FlowConfig {
    /// Sealed, without loss, 10 Gbit/s, half a millisecond each way, and the first stream alone. Others are written as by
    /// tasks over the library `dfcp`.
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

/// Two ends, one of which sends without end.
#[derive(Debug)]
pub struct Flow {
    now: Time,
    /// Time of a full datagram at the interface.
    datagram_time: Duration,
    sender: Host,
    receiver: Host,
    forward: Wire,
    backward: Wire,
    /// The bytes to write, again and again.
    content: Vec<u8>,
    written: u64,
    writable: bool,
    /// Bytes read in the latest turn.
    taken: Vec<u8>,
    read: u64,
    lanes: Lanes,
    /// Datagrams which the sender has sent.
    sent: u64,
}

/// Datagrams which an end sends, or takes in, before it looks at its timers: about what one system call carries.
const RUN_DATAGRAMS: u64 = 32;
/// Bytes of the content; no multiple of a symbol, nor of a block.
const CONTENT_BYTES: usize = 65_521;
/// Most bytes read in one turn.
const TAKEN_BYTES: usize = 1 << 20;
/// Bytes of a full datagram and of the headers below it.
const PACKET_BYTES: u64 = 1_500;
/// Turns without a datagram of the sender's after which a flow counts as stuck.
const IDLE_TURNS_MAX: u32 = 1_000_000;

impl Flow {
    /// Two ends which are connected, and about to send.
    ///
    /// # Errors
    /// If a configuration is invalid, or they do not come to be connected.
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

    /// Goes on until the sender has sent this many `datagrams` more.
    ///
    /// # Errors
    /// If a byte is wrong, a connection ends, or nothing more is sent.
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

    /// Bytes which have been read, in order and equal to what was written.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read
    }

    /// The sending connection's counters.
    #[must_use]
    pub fn sender_stats(&self) -> Stats {
        self.sender.connection().map(Connection::stats).unwrap_or_default()
    }

    /// The receiving connection's counters.
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

    /// Everything which the sending end does, in the datagrams' way: a profile tells it from
    /// [`receiving_end`](Self::receiving_end) by name.
    #[inline(never)]
    fn sending_end(&mut self, datagrams_max: u64) {
        take(&mut self.sender, self.now, &mut self.backward, &mut self.forward);
        let Some(connection) = self.sender.connection_mut() else { return };
        while let Some(event) = connection.poll_event() {
            self.writable |= event == Event::Writable;
        }
        if !self.lanes.are_none() {
            self.lanes.write(self.now, connection, &self.content);
            self.writable = false;
        }
        while self.writable {
            let from = (self.written % CONTENT_BYTES as u64) as usize;
            let piece = &self.content[from..];
            let taken = connection.write(self.now, piece).unwrap_or_default();
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

    /// Everything which the receiving end does; the bytes which it has read.
    #[inline(never)]
    fn receiving_end(&mut self) -> Result<usize> {
        let now = self.now;
        take(&mut self.receiver, now, &mut self.forward, &mut self.backward);
        let Some(connection) = self.receiver.connection_mut() else { return Ok(0) };
        while connection.poll_event().is_some() {}
        let mut taken = 0;
        while taken < self.taken.len()
            && let Read::Bytes(bytes) = connection.read(now, &mut self.taken[taken..])?
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

/// Lets a host take in what has arrived by `now`, and serves its timers.
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

/// Datagrams under way in one direction: a ring of buffers, so that nothing is allocated or copied.
#[derive(Debug)]
struct Wire {
    /// The address of the end which sends.
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

    /// Sends what `write` writes, if anything, and there is room for it. Whether it did.
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

    /// The next datagram which has arrived, and when.
    fn pop(&mut self, now: Time) -> Option<(Time, &mut [u8])> {
        let next = (self.first + 1) % self.slots.len();
        let slot = self.slots.get_mut(self.first).filter(|slot| self.count > 0 && slot.arrives_at <= now)?;
        self.first = next;
        self.count -= 1;
        Some((slot.arrives_at, &mut slot.bytes[..slot.length]))
    }
}
