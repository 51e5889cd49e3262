//! Messages with deadlines over one path, on a virtual clock: share in time, and cost.
//!
//! The two ends have different clocks, with different origins and, on request, different speeds.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_proto::{Accept, Config, Connection, Deadline, Event, MessageError, Rate, State, Stats, StreamId};
pub use dfcp_sim::messages::Losses;
use dfcp_testkit::{Host, Received, Trust, seed32};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Settings of a run: messages, path and losses.
#[derive(Clone, Copy, Debug)]
pub struct MessagesConfig {
    /// Rate of the path in each direction, bits of IP packets per second.
    pub path_bps: u64,
    /// One-way delay.
    pub delay: Duration,
    /// Losses in the direction of data.
    pub losses: Losses,
    /// True if reports are lost like data.
    pub both_ways: bool,
    /// Rate of both ends.
    pub rate: Rate,
    /// Bytes per message.
    pub bytes: usize,
    /// Interval of messages.
    pub every: Duration,
    /// Deadline of each message.
    pub deadline: Deadline,
    /// The same deadline as a duration.
    pub within: Duration,
    /// Time before the first counted message.
    pub warm_up: Duration,
    /// Number of counted messages.
    pub count: u64,
    /// True for a stream of the same session that is written to continuously.
    pub bulk: bool,
    /// Length of the stalls, one per second, during which the data's path delivers nothing: packets due then are delivered at the end of
    /// the stall.
    pub stall: Duration,
    /// Drift of the receiver's clock, ppm; positive for a fast clock.
    pub drift_ppm: i64,
    /// True if the sender ends the session after the last message.
    pub closes: bool,
    /// Memory limit of the receiving endpoint, bytes; the default if `None`.
    pub memory_bytes_max: Option<u64>,
    /// Seed of losses and keys.
    pub seed: u64,
}

impl Default for MessagesConfig {
    /// Default path of the table: 100 Mbit/s, 25 ms, and a message of 1316 bytes per 4 ms.
    fn default() -> Self {
        let within = Duration::from_millis(85);
        Self {
            path_bps: 100_000_000,
            delay: Duration::from_millis(25),
            losses: Losses::Independent(0.0),
            both_ways: false,
            rate: Rate::Fixed { rate_bps: 98_000_000 },
            bytes: 1_316,
            every: Duration::from_millis(4),
            deadline: Deadline::within(within),
            within,
            warm_up: Duration::from_secs(10),
            count: 10_000,
            bulk: false,
            stall: Duration::ZERO,
            drift_ppm: 0,
            closes: false,
            memory_bytes_max: None,
            seed: 1,
        }
    }
}

/// Results of the counted messages.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Messages handed over.
    pub messages: u64,
    /// Messages delivered within the deadline, by the exact clock of the test.
    pub in_time: u64,
    /// Messages delivered later than that.
    pub delivered_late: u64,
    /// Datagrams with symbols of messages.
    pub datagrams: u64,
    /// Messages refused because too many were waiting to be sent.
    pub refused: u64,
    /// Longest time without a delivery while messages were handed over.
    pub longest_gap: Duration,
    /// Time from the last hand-over until the peer had confirmed the end of the session. `None` if the sender was not
    /// configured to end it, or the confirmation came too late.
    pub closed_after: Option<Duration>,
    /// Times from hand-over to delivery, sorted, µs.
    pub latencies_us: Vec<u32>,
    /// Bytes read of the concurrent stream.
    pub bulk_bytes: u64,
    /// Duration of the counted part.
    pub took: Duration,
    /// Statistics of the sender at the end.
    pub sender: Stats,
    /// Statistics of the receiver at the end.
    pub receiver: Stats,
}

impl Outcome {
    /// Share of messages that were not delivered in time.
    #[must_use]
    pub fn missed(&self) -> f64 {
        1.0 - self.in_time as f64 / self.messages.max(1) as f64
    }

    /// Datagrams per message, minus one.
    #[must_use]
    pub fn overhead(&self) -> f64 {
        self.datagrams as f64 / self.messages.max(1) as f64 - 1.0
    }
}

/// Lead of the receiver's clock at the beginning.
const CLOCK_AHEAD: Duration = Duration::from_millis(12_345_678);
/// Bytes of headers below a datagram.
const HEADER_BYTES: u64 = 28;
/// Longest queueing delay of the path; a packet that would wait longer is dropped.
const QUEUE: Duration = Duration::from_millis(50);

/// Runs the messages.
///
/// # Errors
/// Fails if the two ends do not connect, or deliver a message that was not sent, or deliver one twice.
pub fn run(config: MessagesConfig) -> Result<Outcome> {
    World::open(config)?.run()
}

struct World {
    config: MessagesConfig,
    now: Time,
    sender: Host,
    receiver: Host,
    forward: Lane,
    backward: Lane,
    /// Send time of each message; `None` once delivered.
    sent: VecDeque<Option<Time>>,
    first: u64,
    next_at: Time,
    message: Vec<u8>,
    /// Buffer for bytes read from the bulk stream, which are discarded.
    buffer: Vec<u8>,
    handed: u64,
    /// Time of the last delivery of a counted message, or of the start of counting.
    last_delivery: Time,
    outcome: Outcome,
}

impl World {
    fn open(config: MessagesConfig) -> Result<Self> {
        let addresses = [(40_000, 1), (9_000, 2)].map(|(port, host)| SocketAddr::from(([192, 0, 2, host], port)));
        let (own, accepting) = Trust::Pinned.security();
        let modern = |security| {
            let modern = Config::modern().with_messages(true).with_rate(config.rate).with_security(security);
            modern.with_send_buffer_bytes(16 << 20)
        };
        let now = Time::from_s(1);
        let mut sender = Host::new(addresses[0], None, seed32(config.seed, 1));
        sender.connect(now, addresses[1], modern(own))?;
        let accept = Accept { memory_bytes_max: config.memory_bytes_max, ..modern(accepting).into() };
        let receiver = Host::new(addresses[1], Some(accept), seed32(config.seed, 2));
        let losses = if config.both_ways { config.losses } else { Losses::Independent(0.0) };
        let mut world = Self {
            config,
            now,
            sender,
            receiver,
            forward: Lane::new(config, config.losses, 3),
            backward: Lane::new(config, losses, 4),
            sent: VecDeque::new(),
            first: 0,
            next_at: Time::MAX,
            message: vec![0; config.bytes],
            buffer: vec![7; 65_536],
            handed: 0,
            last_delivery: now,
            outcome: Outcome::default(),
        };
        while world.receiver.connection().is_none_or(|it| it.next_timeout(now).is_none()) || !world.is_open() {
            ensure!(world.now < Time::from_s(60), "the two ends were not connected within a minute");
            world.step()?;
        }
        Ok(world)
    }

    fn is_open(&mut self) -> bool {
        let is_open =
            |host: &mut Host| host.connection_mut().and_then(Connection::messages).is_some_and(|it| it.are_taken());
        is_open(&mut self.sender) && is_open(&mut self.receiver)
    }

    fn run(mut self) -> Result<Outcome> {
        self.next_at = self.now;
        let warm = self.now + self.config.warm_up;
        while self.now < warm {
            self.step()?;
        }
        let before = self.sender_stats()?;
        let began = self.now;
        self.outcome = Outcome::default();
        self.last_delivery = began;
        self.first += self.sent.len() as u64;
        self.sent.clear();
        let first = self.handed;
        while self.handed < first + self.config.count {
            self.step()?;
        }
        self.next_at = Time::MAX;
        self.note_gap();
        let longest_gap = self.outcome.longest_gap;
        let handed_all = self.now;
        let end = self.now + self.config.within + Duration::from_secs(1);
        let after = self.sender_stats()?;
        let took = self.now.since(began);
        let bulk_bytes = self.outcome.bulk_bytes;
        if self.config.closes {
            let connection = self.sender.connection_mut().context("the sender has no connection")?;
            connection.streams().finish(self.now, StreamId::FIRST);
        }
        let mut closed_after = None;
        while self.now < end {
            self.step()?;
            if closed_after.is_none() && self.sender.connection().is_some_and(has_all_delivered) {
                closed_after = Some(self.now.since(handed_all));
            }
        }
        let mut outcome = self.outcome.clone();
        outcome.latencies_us.sort_unstable();
        Ok(Outcome {
            messages: self.config.count,
            datagrams: after.messages_sent.datagrams - before.messages_sent.datagrams,
            bulk_bytes,
            took,
            longest_gap,
            closed_after,
            sender: self.sender_stats()?,
            receiver: self.receiver.connection().context("no connection")?.stats(),
            ..outcome
        })
    }

    fn sender_stats(&self) -> Result<Stats> {
        Ok(self.sender.connection().context("the sender has no connection")?.stats())
    }

    /// Time of the receiver's clock.
    fn theirs(&self, now: Time) -> Time {
        let since = i128::from(now.as_ns());
        let drift = since * i128::from(self.config.drift_ppm) / 1_000_000;
        Time::from_ns((since + drift) as u64) + CLOCK_AHEAD
    }

    fn ours(&self, theirs: Time) -> Time {
        let since = theirs.as_ns().saturating_sub(CLOCK_AHEAD.as_nanos() as u64);
        let ns = i128::from(since) * 1_000_000 / (1_000_000 + i128::from(self.config.drift_ppm));
        Time::from_ns(ns as u64 + u64::from(self.config.drift_ppm != 0))
    }

    /// Advances to the next event.
    fn step(&mut self) -> Result<()> {
        let timeouts = [
            self.sender.next_timeout(self.now),
            self.receiver.next_timeout(self.theirs(self.now)).map(|at| self.ours(at)),
        ];
        let arrivals = [self.forward.next_at(), self.backward.next_at()];
        let next = timeouts.into_iter().chain(arrivals).flatten().min().unwrap_or(self.next_at).min(self.next_at);
        self.now = next.max(self.now);
        let (now, theirs) = (self.now, self.theirs(self.now));
        if now >= self.next_at {
            self.hand_over()?;
        }
        if self.config.bulk && self.next_at < Time::MAX {
            self.write_bulk()?;
        }
        take(&mut self.sender, now, &mut self.backward, now, &mut self.forward);
        take(&mut self.receiver, theirs, &mut self.forward, now, &mut self.backward);
        self.read()?;
        send(&mut self.sender, now, &mut self.forward, now);
        send(&mut self.receiver, theirs, &mut self.backward, now);
        Ok(())
    }

    fn hand_over(&mut self) -> Result<()> {
        let number = self.first + self.sent.len() as u64;
        if let Some(place) = self.message.first_chunk_mut() {
            *place = number.to_le_bytes();
        }
        let connection = self.sender.connection_mut().context("the sender has no connection")?;
        let mut messages = connection.messages().context("it is classic")?;
        match messages.send(self.now, &self.message, self.config.deadline) {
            Err(MessageError::Full) => self.outcome.refused += 1,
            sent => sent?,
        }
        self.sent.push_back(Some(self.now));
        self.handed += 1;
        self.next_at += self.config.every;
        while self.sent.len() > 200_000 {
            self.sent.pop_front();
            self.first += 1;
        }
        Ok(())
    }

    /// Records the time since the previous delivery, at a delivery or at the end of counting.
    fn note_gap(&mut self) {
        let gap = self.now.since(self.last_delivery);
        self.outcome.longest_gap = self.outcome.longest_gap.max(gap);
        self.last_delivery = self.now;
    }

    fn write_bulk(&mut self) -> Result<()> {
        let connection = self.sender.connection_mut().context("the sender has no connection")?;
        while connection.streams().write(self.now, StreamId::FIRST, &self.buffer)? > 0 {}
        Ok(())
    }

    fn read(&mut self) -> Result<()> {
        let theirs = self.theirs(self.now);
        let Some(connection) = self.receiver.connection_mut() else { return Ok(()) };
        let mut deliveries = 0;
        while connection.poll_event().is_some() {}
        while let Ok(dfcp_proto::Read::Bytes(read)) =
            connection.streams().read(theirs, StreamId::FIRST, &mut self.buffer)
        {
            self.outcome.bulk_bytes += read as u64;
        }
        let mut messages = connection.messages().context("it is classic")?;
        while let Some(message) = messages.receive() {
            ensure!(message.bytes.len() == self.config.bytes, "a message of {} bytes", message.bytes.len());
            let number = u64::from_le_bytes(*message.bytes.first_chunk().context("a message without a number")?);
            // Not a counted message.
            let Some(at) = number.checked_sub(self.first) else { continue };
            let place = self.sent.get_mut(at as usize).context("a message that was not sent")?;
            let sent = place.take().context("a message was delivered twice")?;
            let took = self.now.since(sent);
            deliveries += 1;
            self.outcome.latencies_us.push(took.as_micros() as u32);
            if took <= self.config.within {
                self.outcome.in_time += 1;
            } else {
                self.outcome.delivered_late += 1;
            }
        }
        if deliveries > 0 {
            self.note_gap();
        }
        Ok(())
    }
}

/// True once the peer has confirmed the end of this half.
fn has_all_delivered(connection: &Connection) -> bool {
    matches!(connection.state(), State::FinWait2 | State::TimeWait | State::Closed)
}

/// Delivers arrived datagrams to a host, and handles its timers; `clock` is the time of its clock.
fn take(host: &mut Host, clock: Time, from: &mut Lane, now: Time, to: &mut Lane) {
    let peer = from.sender;
    while let Some(mut datagram) = from.pop(now) {
        if let Received::Reply(answer) = host.receive(clock, peer, &mut datagram) {
            to.push(now, answer);
        }
    }
    if host.next_timeout(clock).is_some_and(|due| due <= clock) {
        host.handle_timeout(clock);
    }
    let handles: Vec<_> = host.connections.keys().copied().collect();
    for handle in handles {
        while let Some(event) = host.poll_event(handle) {
            if event == Event::Message {
                break;
            }
        }
    }
}

fn send(host: &mut Host, clock: Time, to: &mut Lane, now: Time) {
    while let Some(packet) = host.transmit(clock) {
        to.push(now, packet.bytes);
    }
}

/// One direction of the path.
struct Lane {
    sender: SocketAddr,
    under_way: VecDeque<(Time, Vec<u8>)>,
    bps: u64,
    delay: Duration,
    free_at: Time,
    stall: Duration,
    losses: Losses,
    random: Pcg64Mcg,
    is_bad: bool,
    changes_at: Time,
}

impl Lane {
    fn new(config: MessagesConfig, losses: Losses, salt: u64) -> Self {
        let is_forward = salt == 3;
        let host = if is_forward { (40_000, 1) } else { (9_000, 2) };
        Self {
            stall: if is_forward { config.stall } else { Duration::ZERO },
            sender: SocketAddr::from(([192, 0, 2, host.1], host.0)),
            under_way: VecDeque::new(),
            bps: config.path_bps,
            delay: config.delay,
            free_at: Time::ZERO,
            losses,
            random: Pcg64Mcg::seed_from_u64(config.seed.wrapping_mul(8).wrapping_add(salt)),
            is_bad: true,
            changes_at: Time::ZERO,
        }
    }

    fn push(&mut self, now: Time, datagram: Vec<u8>) {
        let begins = self.free_at.max(now);
        if begins.since(now) > QUEUE {
            return;
        }
        let bits = (datagram.len() as u64 + HEADER_BYTES) * 8;
        self.free_at = begins + Duration::from_nanos(bits * 1_000_000_000 / self.bps);
        if !self.loses(self.free_at) {
            let arrives = self.free_at + self.delay;
            let second = arrives - Duration::from_nanos(arrives.as_ns() % 1_000_000_000);
            self.under_way.push_back((arrives.max(second + self.stall), datagram));
        }
    }

    fn loses(&mut self, at: Time) -> bool {
        match self.losses {
            Losses::Independent(share) => share > 0.0 && self.random.random_bool(share),
            Losses::Bursts { share, mean } => {
                while self.changes_at <= at {
                    self.is_bad = !self.is_bad;
                    let mean_s = mean.as_secs_f64() * if self.is_bad { 1.0 } else { (1.0 - share) / share };
                    let uniform: f64 = self.random.random_range(f64::MIN_POSITIVE..1.0);
                    self.changes_at += Duration::from_secs_f64(-mean_s * uniform.ln());
                }
                self.is_bad
            }
        }
    }

    fn next_at(&self) -> Option<Time> {
        self.under_way.front().map(|&(at, _)| at)
    }

    fn pop(&mut self, now: Time) -> Option<Vec<u8>> {
        let has_come = self.next_at().is_some_and(|at| at <= now);
        has_come.then(|| self.under_way.pop_front()).flatten().map(|(_, datagram)| datagram)
    }
}
