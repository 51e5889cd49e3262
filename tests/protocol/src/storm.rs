//! Storms of streams: thousands are opened and ended at both ends, over paths with loss and address changes, beside messages, while readers
//! pause and the peer's memory is small. Applications rely on events only, so a missing event leaves a stream open forever.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{
    Config, Connection, Deadline, MessageError, Opener, Priority, Rate, Read, State, StreamError, StreamEvent,
    StreamId, StreamKind, StreamLimits, Streams,
};
use dfcp_testkit::{Job, LinksConfig, Node, Trust, client_address, server_address};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::Pair;

/// Time during which both ends open streams. Afterwards [`LIMIT`] bounds the time until all streams have ended.
const STORM: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(600);
/// Time limit until both ends have closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);
/// Interval of comparing the lists of a session with its streams.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
const BUFFER_BYTES: usize = 16 << 10;

/// Behaviour of both ends, with a probability for each action.
#[derive(Clone, Copy, Debug)]
struct Habits {
    limits: StreamLimits,
    opens: u32,
    bytes_max: u64,
    reset_chance: f64,
    stop_chance: f64,
    /// Probability that an end writes to a stream continuously, and resets it in the end.
    endless_chance: f64,
    /// Probability and greatest length of a reader's initial pause.
    pause_chance: f64,
    pause: Duration,
    flush_chance: f64,
    messages_per_s: u32,
    move_every: Option<Duration>,
}

/// A storm drawn from a seed.
#[derive(Debug)]
pub struct StormScenario {
    seed: u64,
    random: Pcg64Mcg,
    habits: Habits,
    path: LinksConfig,
    config: Config,
}

fn pick<T: Copy>(random: &mut Pcg64Mcg, choices: &[T]) -> T {
    choices[random.random_range(0..choices.len())]
}

fn link(random: &mut Pcg64Mcg, delay: Duration) -> LinkConfig {
    let loss = pick(random, &[0.0, 0.01, 0.1, 0.3]);
    let link = LinkConfig::default()
        .with_delay(delay)
        .with_loss(if loss > 0.0 { Loss::bernoulli(loss) } else { Loss::None })
        .with_queue(QueueLimit::packets(5_000));
    if random.random_bool(0.3) { link.with_reorder(0.1, Duration::from_millis(5)) } else { link }
}

impl StormScenario {
    /// Draws everything from `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let random = &mut Pcg64Mcg::seed_from_u64(seed ^ 0x5702_3141);
        let limit = pick(random, &[3, 30, 300, 2_000]);
        let habits = Habits {
            limits: StreamLimits { bidirectional: limit, one_way: pick(random, &[1, 30, 300]) },
            opens: pick(random, &[50, 400, 1_500]),
            bytes_max: pick(random, &[1, 1_500, 20_000]),
            reset_chance: pick(random, &[0.0, 0.1, 0.5]),
            stop_chance: pick(random, &[0.0, 0.1, 0.5]),
            endless_chance: pick(random, &[0.0, 0.0, 0.02]),
            pause_chance: pick(random, &[0.0, 0.1, 0.9]),
            pause: Duration::from_millis(pick(random, &[10, 500, 5_000])),
            flush_chance: pick(random, &[0.0, 0.5, 1.0]),
            messages_per_s: pick(random, &[0, 0, 100, 1_000]),
            move_every: pick(
                random,
                &[None, None, Some(Duration::from_millis(300)), Some(Duration::from_millis(1_500))],
            ),
        };
        let delay = Duration::from_millis(pick(random, &[1, 10, 60]));
        let path =
            LinksConfig { forward: link(random, delay), backward: link(random, delay), interface_bps: 1_000_000_000 };
        let trust = pick(random, &[Trust::Unsealed, Trust::FirstContact]);
        let rate_bps = pick(random, &[2_000_000, 10_000_000, 50_000_000]);
        // Only encrypted connections can change addresses.
        let habits = Habits { move_every: habits.move_every.filter(|_| trust == Trust::FirstContact), ..habits };
        let memory_bytes = pick(random, &[1_u64 << 20, 4 << 20, 64 << 20]);
        let config = Config {
            security: trust.security().0,
            rate: Rate::Fixed { rate_bps },
            streams: habits.limits,
            messages: true,
            receive_memory_bytes: memory_bytes,
            send_buffer_bytes: pick(random, &[1 << 20, 64 << 20]),
            ..Config::danger_unsealed()
        };
        Self { seed, random: random.clone(), habits, path, config }
    }

    /// Runs the storm: every stream and every message must end, and then the session.
    ///
    /// # Errors
    /// Fails with the first failed check.
    pub fn run(self) -> Result<()> {
        let (seed, description) = (self.seed, format!("{:?} {:?} {:?}", self.habits, self.path, self.config.rate));
        let memory = (self.config.receive_memory_bytes, self.config.send_buffer_bytes);
        Run::new(self)?.all().with_context(|| {
            format!("replay: STORM_SEED={seed} cargo test -p dfcp-protocol-tests --test storms replay; {memory:?} {description}")
        })
    }
}

/// Both halves of one stream at one end.
#[derive(Debug)]
struct Halves {
    /// Bytes left to write; `None` if this half has ended.
    writes: Option<u64>,
    finishes: bool,
    is_finished: bool,
    reads: bool,
    /// Time of the first read.
    reads_from: Time,
    read: u64,
    written: u64,
}

impl Halves {
    /// Writes as much as there is room for, and ends this half after the last byte.
    fn write(
        &mut self,
        now: Time,
        streams: &mut Streams<'_>,
        id: StreamId,
        mut flushes: impl FnMut() -> bool,
    ) -> Result<()> {
        let buffer = [id.index() as u8; BUFFER_BYTES];
        while let Some(left) = self.writes.filter(|_| !self.is_finished) {
            if left == 0 && self.finishes {
                streams.finish(now, id);
                self.is_finished = true;
                break;
            }
            if left == 0 {
                streams.reset(now, id, 1);
                self.writes = None;
                break;
            }
            let length = buffer.len().min(usize::try_from(left)?);
            match streams.write(now, id, &buffer[..length]) {
                Ok(0) => break,
                Ok(taken) => {
                    self.writes = Some(left - taken as u64);
                    self.written += taken as u64;
                }
                // An event that follows states the reason.
                Err(StreamError::Ended) => break,
                Err(error) => return Err(error.into()),
            }
            if flushes() {
                streams.flush(id);
            }
        }
        Ok(())
    }

    /// Reads all available data, after the initial pause.
    fn read(&mut self, now: Time, streams: &mut Streams<'_>, id: StreamId) -> Result<()> {
        let mut buffer = [0; BUFFER_BYTES];
        while self.reads && self.reads_from <= now {
            match streams.read(now, id, &mut buffer) {
                Ok(Read::Bytes(count)) => {
                    ensure!(buffer[..count].iter().all(|&byte| byte == id.index() as u8), "wrong bytes");
                    self.read += count as u64;
                }
                Ok(Read::Blocked) => break,
                Ok(Read::End) | Err(StreamError::Reset(_)) => self.reads = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The applications at one end.
#[derive(Debug)]
struct Applications {
    us: Opener,
    random: Pcg64Mcg,
    habits: Habits,
    streams: BTreeMap<StreamId, Halves>,
    /// Streams to process now or later.
    ready: BTreeSet<StreamId>,
    later: BTreeSet<(Time, StreamId)>,
    opened: u32,
    /// True while the end waits for credit to open streams.
    waits_for_credit: [bool; 2],
    messages: u64,
}

impl Applications {
    fn new(seed: u64, us: Opener, habits: Habits) -> Self {
        Self {
            us,
            random: Pcg64Mcg::seed_from_u64(seed.wrapping_mul(2) + u64::from(us == Opener::Acceptor)),
            habits,
            streams: BTreeMap::new(),
            ready: BTreeSet::new(),
            later: BTreeSet::new(),
            opened: 0,
            waits_for_credit: [false; 2],
            messages: 0,
        }
    }

    fn add(&mut self, now: Time, id: StreamId) {
        let is_ours = id.opener() == self.us;
        let is_both = id.kind() == StreamKind::Bidirectional;
        let pauses = self.random.random_bool(self.habits.pause_chance);
        let pause = self.habits.pause.mul_f64(if pauses { self.random.random_range(0.0..1.0) } else { 0.0 });
        let is_endless = is_ours && self.random.random_bool(self.habits.endless_chance);
        let bytes = if is_endless { 256 << 10 } else { self.random.random_range(0..=self.habits.bytes_max) };
        let halves = Halves {
            writes: (is_ours || is_both).then_some(bytes),
            finishes: !is_endless,
            is_finished: false,
            reads: !is_ours || is_both,
            reads_from: now + pause,
            read: 0,
            written: 0,
        };
        self.streams.insert(id, halves);
        self.ready.insert(id);
        self.later.insert((now + pause, id));
    }

    fn take_events(&mut self, now: Time, connection: &mut Connection) -> Result<()> {
        while let Some(event) = connection.streams().poll_event() {
            match event {
                StreamEvent::Opened(_) => {
                    while let Some(id) = connection.streams().accept() {
                        self.add(now, id);
                    }
                }
                StreamEvent::Available => self.waits_for_credit = [false; 2],
                StreamEvent::Finished(id) => {
                    if let Some(halves) = self.streams.get_mut(&id) {
                        ensure!(halves.is_finished, "{id:?} was not finished: {halves:?}");
                        halves.writes = None;
                        self.ready.insert(id);
                    }
                }
                StreamEvent::Stopped { stream, .. } => {
                    if let Some(halves) = self.streams.get_mut(&stream) {
                        halves.writes = None;
                        self.ready.insert(stream);
                    }
                }
                StreamEvent::Readable(id) | StreamEvent::Writable(id) => {
                    self.ready.insert(id);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn work(&mut self, now: Time, connection: &mut Connection) -> Result<()> {
        self.take_events(now, connection)?;
        while let Some(&(at, id)) = self.later.first().filter(|(at, _)| *at <= now) {
            self.later.remove(&(at, id));
            self.ready.insert(id);
        }
        while let Some(id) = self.ready.pop_first() {
            self.work_on(now, connection, id)?;
        }
        while connection.messages().and_then(|mut it| it.receive()).is_some() {
            self.messages += 1;
        }
        Ok(())
    }

    fn work_on(&mut self, now: Time, connection: &mut Connection, id: StreamId) -> Result<()> {
        let (Some(halves), mut streams) = (self.streams.get_mut(&id), connection.streams()) else { return Ok(()) };
        halves.write(now, &mut streams, id, || self.random.random_bool(self.habits.flush_chance))?;
        halves.read(now, &mut streams, id).with_context(|| format!("{id:?}: {halves:?}"))?;
        if halves.writes.is_none() && !halves.reads {
            self.streams.remove(&id);
        }
        Ok(())
    }

    /// Opens some streams, as far as credit permits.
    fn open_some(&mut self, now: Time, connection: &mut Connection) -> Result<()> {
        for _ in 0..self.random.random_range(0..20) {
            let kind = pick(&mut self.random, &[StreamKind::Bidirectional, StreamKind::OneWay]);
            if self.opened == self.habits.opens || self.waits_for_credit[kind as usize] {
                continue;
            }
            let mut streams = connection.streams();
            match streams.open(kind) {
                Ok(id) => {
                    if self.random.random_bool(0.1) {
                        let (urgency, incremental) = (self.random.random_range(0..8), self.random.random_bool(0.5));
                        streams.set_priority(id, Priority { urgency, incremental, ..Priority::default() });
                    }
                    self.opened += 1;
                    self.add(now, id);
                }
                Err(StreamError::NoCredit) => self.waits_for_credit[kind as usize] = true,
                Err(StreamError::NotTaken | StreamError::NoMemory) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Resets or stops some halves.
    fn end_some(&mut self, now: Time, connection: &mut Connection) {
        for _ in 0..self.streams.len().div_ceil(10) {
            let at = self.random.random_range(0..self.streams.len().max(1));
            let Some(id) = self.streams.keys().nth(at).copied() else { return };
            let resets = self.random.random_bool(self.habits.reset_chance / 10.0);
            let stops = self.random.random_bool(self.habits.stop_chance / 10.0);
            let (Some(halves), mut streams) = (self.streams.get_mut(&id), connection.streams()) else { return };
            if resets && halves.writes.take().is_some() {
                streams.reset(now, id, 7);
            }
            if stops && std::mem::take(&mut halves.reads) {
                streams.stop_sending(now, id, 8);
            }
            if halves.writes.is_none() && !halves.reads {
                self.streams.remove(&id);
            }
        }
    }

    fn send_message(&mut self, now: Time, connection: &mut Connection) -> Result<()> {
        let bytes = pick(&mut self.random, &[0, 10, 1_000, 5_000]);
        let deadline = match self.random.random_range(0..10) {
            0 => Deadline::RELIABLE,
            1..5 => Deadline::within(Duration::from_millis(100)),
            _ => Deadline::within(Duration::from_secs(5)),
        };
        let Some(mut messages) = connection.messages() else { return Ok(()) };
        match messages.send(now, &vec![1; bytes], deadline) {
            Ok(()) | Err(MessageError::Full) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Checks that the session's lists of streams agree with its streams. Only debug builds have the necessary data.
fn check_lists(connection: &Connection) -> Result<()> {
    #[cfg(debug_assertions)]
    connection.check_lists().map_err(anyhow::Error::msg)?;
    let _connection = connection;
    Ok(())
}

/// The two ends.
struct Run {
    random: Pcg64Mcg,
    habits: Habits,
    pair: Pair,
    applications: [Applications; 2],
    checked_at: Time,
    moved_at: Time,
    message_at: Time,
    moves: u16,
}

impl Run {
    fn new(scenario: StormScenario) -> Result<Self> {
        let StormScenario { seed, random, habits, path, config } = scenario;
        let job = Job { shut_down: false, ..Job::send(0) };
        let pair = Pair::over(seed, path, (config.clone(), job), (config, job))?;
        let applications = [Opener::Initiator, Opener::Acceptor].map(|us| Applications::new(seed, us, habits));
        let now = pair.now;
        Ok(Self { random, habits, pair, applications, checked_at: now, moved_at: now, message_at: now, moves: 0 })
    }

    fn all(mut self) -> Result<()> {
        let are_open = |it: &Self| [&it.pair.client, &it.pair.server].iter().all(|it| it.state() == State::Established);
        self.run_until(Duration::from_secs(60), are_open).context("the handshake")?;
        let end = self.pair.now + STORM;
        (self.moved_at, self.message_at) = (self.pair.now, self.pair.now);
        while self.pair.now < end {
            let side = self.random.random_range(0..2);
            let now = self.pair.now;
            let (node, applications) = self.side(side);
            let connection = node.connection_mut().context("no session")?;
            applications.open_some(now, connection)?;
            applications.end_some(now, connection);
            self.send_messages()?;
            self.move_one();
            let until = self.pair.now + Duration::from_micros(self.random.random_range(0..30_000));
            while self.step(until)? {}
            self.pair.now = self.pair.now.max(until);
        }
        self.pair.path.keep_former();
        self.run_until(LIMIT, |it| it.applications.iter().all(|it| it.streams.is_empty())).context("not done")?;
        self.close().context("not closed")
    }

    fn send_messages(&mut self) -> Result<()> {
        let now = self.pair.now;
        while self.habits.messages_per_s > 0 && self.message_at <= now {
            self.message_at += Duration::from_secs(1) / self.habits.messages_per_s;
            let side = self.random.random_range(0..2);
            let (node, applications) = self.side(side);
            applications.send_message(now, node.connection_mut().context("no session")?)?;
        }
        Ok(())
    }

    fn move_one(&mut self) {
        if self.habits.move_every.is_none_or(|every| self.pair.now < self.moved_at + every) {
            return;
        }
        self.moved_at = self.pair.now;
        self.moves += 1;
        let mut to = if self.random.random_bool(0.5) { client_address() } else { server_address() };
        let is_client = to == client_address();
        to.set_port(to.port() + self.moves);
        if is_client {
            self.pair.path.move_client(to);
        } else {
            self.pair.path.move_server(to);
        }
    }

    fn close(mut self) -> Result<()> {
        for side in 0..2 {
            let now = self.pair.now;
            let connection = self.side(side).0.connection_mut().context("no session")?;
            connection.streams().finish(now, StreamId::FIRST);
            let until = self.pair.now + Duration::from_millis(self.random.random_range(0..300));
            while self.step(until)? {}
            self.pair.now = self.pair.now.max(until);
        }
        let are_closed = |it: &Self| {
            [&it.pair.client, &it.pair.server].iter().all(|it| matches!(it.state(), State::TimeWait | State::Closed))
        };
        self.run_until(CLOSE_LIMIT, are_closed)
    }

    fn run_until(&mut self, most: Duration, is_done: impl Fn(&Self) -> bool) -> Result<()> {
        let limit = self.pair.now + most;
        while !is_done(self) {
            ensure!(self.pair.now < limit, "{}", self.describe());
            if !self.step(limit)? {
                self.pair.now = limit;
            }
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let mut text = self.pair.describe();
        for it in &self.applications {
            let first: Vec<_> = it.streams.iter().take(3).collect();
            text.push_str(&format!("; {:?} has {} streams of {}: {first:?}", it.us, it.streams.len(), it.opened));
        }
        text
    }

    fn step(&mut self, limit: Time) -> Result<bool> {
        let now = self.pair.now;
        let checks = now >= self.checked_at + CHECK_INTERVAL;
        for side in 0..2 {
            let (node, applications) = self.side(side);
            if let Some(connection) = node.connection_mut() {
                applications.work(now, connection).with_context(|| format!("{now}"))?;
                if checks {
                    check_lists(connection).with_context(|| format!("{now}, side {side}"))?;
                }
            }
        }
        if checks {
            self.checked_at = now;
        }
        let stepped = self.pair.step(limit);
        for node in [&self.pair.client, &self.pair.server] {
            ensure!(node.ended.iter().all(Option::is_none), "the session has ended: {:?}", node.ended);
        }
        Ok(stepped)
    }

    fn side(&mut self, side: usize) -> (&mut Node, &mut Applications) {
        let node = if side == 0 { &mut self.pair.client } else { &mut self.pair.server };
        (node, &mut self.applications[side])
    }
}
