//! Random sessions of many streams: both ends open, write, finish, reset and stop streams, over paths with loss, reordering and
//! duplication, all drawn from one seed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{Config, Opener, Rate, State, StreamId, StreamKind, StreamLimits};
use dfcp_testkit::{Job, LinksConfig, Node, StreamApplications, Trust};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::Pair;

/// Time limit of all streams, at the worst loss and rate.
const LIMIT: Duration = Duration::from_secs(600);
/// Time for the last delayed datagrams of an end: resets, keep-alives, and the last reports.
const CREDIT_LIMIT: Duration = Duration::from_secs(30);
/// Time in which both ends open streams.
const STORM: Duration = Duration::from_secs(3);

/// Behaviour of both ends, with a probability for each action.
#[derive(Clone, Copy, Debug)]
struct Habits {
    limits: StreamLimits,
    /// Number of streams opened by each end.
    opens: u32,
    bytes_max: u64,
    reset_chance: f64,
    stop_chance: f64,
    answer_bytes: u64,
}

/// A session of streams drawn from a seed.
#[derive(Debug)]
pub struct StreamScenario {
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
    let mut link = LinkConfig::default()
        .with_delay(delay)
        .with_loss(if loss > 0.0 { Loss::bernoulli(loss) } else { Loss::None })
        .with_queue(QueueLimit::packets(5_000));
    if random.random_bool(0.5) {
        let delay = Duration::from_micros(random.random_range(10..40_000));
        link = link.with_reorder(random.random_range(0.0..0.3), delay);
    }
    if random.random_bool(0.3) {
        link = link.with_jitter(Duration::from_micros(random.random_range(0..30_000)));
    }
    if random.random_bool(0.5) {
        link = link.with_duplicate(random.random_range(0.0..0.3));
    }
    link
}

impl StreamScenario {
    /// Draws everything from `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let limit = pick(random, &[1, 3, 10, 40]);
        let habits = Habits {
            limits: StreamLimits { bidirectional: limit, one_way: pick(random, &[0, 1, 10, 40]) },
            opens: random.random_range(1..60),
            bytes_max: pick(random, &[1, 1_500, 20_000, 200_000]),
            reset_chance: pick(random, &[0.0, 0.1, 0.5]),
            stop_chance: pick(random, &[0.0, 0.1, 0.5]),
            answer_bytes: pick(random, &[0, 1, 2_000, 50_000]),
        };
        let delay = Duration::from_millis(pick(random, &[1, 10, 100]));
        let path =
            LinksConfig { forward: link(random, delay), backward: link(random, delay), interface_bps: 1_000_000_000 };
        let trust = pick(random, &[Trust::Unsealed, Trust::FirstContact]);
        let rate_bps = pick(random, &[1_000_000, 10_000_000, 50_000_000]);
        let config = Config {
            security: trust.security().0,
            rate: Rate::Fixed { rate_bps },
            streams: habits.limits,
            ..Config::danger_unsealed()
        };
        Self { seed, random: random.clone(), habits, path, config }
    }

    /// Runs the session. Checks that the bytes of each stream are right, that every half ends, that no honest end reports a violation, and
    /// that as many streams can be opened at the end as at the start.
    ///
    /// # Errors
    /// Fails with the first failed check.
    pub fn run(self) -> Result<()> {
        let (seed, description) = (self.seed, format!("{self:?}"));
        Run::new(self)?.all().with_context(|| {
            format!("replay: STREAM_SEED={seed} cargo test -p dfcp-protocol-tests --test random_streams replay; {description}")
        })
    }
}

/// Two ends, with the numbers of streams that each has opened.
struct Run {
    random: Pcg64Mcg,
    habits: Habits,
    pair: Pair,
    applications: [StreamApplications; 2],
    opened: [u32; 2],
}

impl Run {
    fn new(scenario: StreamScenario) -> Result<Self> {
        let StreamScenario { seed, random, habits, path, config } = scenario;
        let job = Job { shut_down: false, ..Job::send(0) };
        let pair = Pair::over(seed, path, (config.clone(), job), (config, job))?;
        let mut applications = [Opener::Initiator, Opener::Acceptor].map(|us| StreamApplications::new(seed, us));
        applications.iter_mut().for_each(|it| it.answer_bytes = habits.answer_bytes);
        Ok(Self { random, habits, pair, applications, opened: [0; 2] })
    }

    fn all(mut self) -> Result<()> {
        let is_open = |it: &Self| [&it.pair.client, &it.pair.server].iter().all(|it| it.state() == State::Established);
        self.run_until(Duration::from_secs(60), is_open).context("the handshake")?;
        let end = self.pair.now + STORM;
        while self.pair.now < end && self.opened != [self.habits.opens; 2] {
            self.act();
            let until = self.pair.now + Duration::from_micros(self.random.random_range(0..40_000));
            while self.step(until)? {}
            self.pair.now = self.pair.now.max(until);
        }
        self.run_until(LIMIT, |it| it.applications.iter().all(StreamApplications::are_done)).context("not done")?;
        self.check_bytes()?;
        self.check_credit()
    }

    fn run_until(&mut self, most: Duration, is_done: impl Fn(&Self) -> bool) -> Result<()> {
        let limit = self.pair.now + most;
        while !is_done(self) {
            let [client, server] = &self.applications;
            ensure!(self.pair.now < limit, "{}; {client}; {server}", self.pair.describe());
            if !self.step(limit)? {
                self.pair.now = limit;
            }
        }
        Ok(())
    }

    fn step(&mut self, limit: Time) -> Result<bool> {
        for side in 0..2 {
            let now = self.pair.now;
            let (node, applications) = self.side(side);
            if let Some(connection) = node.connection_mut() {
                applications.work(now, connection);
            }
        }
        let stepped = self.pair.step(limit);
        for node in [&self.pair.client, &self.pair.server] {
            ensure!(node.ended.is_empty(), "the session has ended: {:?}", node.ended);
        }
        Ok(stepped)
    }

    fn side(&mut self, side: usize) -> (&mut Node, &mut StreamApplications) {
        let node = if side == 0 { &mut self.pair.client } else { &mut self.pair.server };
        (node, &mut self.applications[side])
    }

    /// Performs a random action of one end on a stream.
    fn act(&mut self) {
        let side = self.random.random_range(0..2);
        let kind = pick(&mut self.random, &[StreamKind::Bidirectional, StreamKind::OneWay]);
        let bytes = self.random.random_range(0..=self.habits.bytes_max);
        let ids: Vec<StreamId> = self.applications[side].streams.keys().copied().collect();
        let victim = (!ids.is_empty()).then(|| ids[self.random.random_range(0..ids.len())]);
        let resets = self.random.random_bool(self.habits.reset_chance);
        let stops = self.random.random_bool(self.habits.stop_chance);
        let (now, may_open) = (self.pair.now, self.opened[side] < self.habits.opens);
        let (node, applications) = self.side(side);
        let Some(connection) = node.connection_mut() else { return };
        if may_open && applications.open(connection, kind, bytes).is_ok() {
            self.opened[side] += 1;
        }
        let (node, applications) = self.side(side);
        let (Some(connection), Some(id)) = (node.connection_mut(), victim) else { return };
        if resets {
            applications.reset(now, connection, id, 7);
        }
        if stops {
            applications.stop_sending(now, connection, id, 8);
        }
    }

    fn check_bytes(&self) -> Result<()> {
        for (own, peer) in [(0, 1), (1, 0)] {
            for (id, state) in &self.applications[own].streams {
                ensure!(state.corrupt_at.is_none(), "{id:?}: {state:?}");
                let sent = self.applications[peer].get(*id).map(|it| it.written);
                ensure!(state.ended_at.is_none() || sent == Some(state.read), "{id:?} of {sent:?} bytes: {state:?}");
            }
        }
        Ok(())
    }

    /// Checks that each end can open as many streams as permitted at the start, and no more.
    fn check_credit(mut self) -> Result<()> {
        for side in 0..2 {
            for (kind, limit) in [
                (StreamKind::Bidirectional, self.habits.limits.bidirectional),
                (StreamKind::OneWay, self.habits.limits.one_way),
            ] {
                let end = self.pair.now + CREDIT_LIMIT;
                let mut opened = 0;
                while self.pair.now < end {
                    let (node, _) = self.side(side);
                    let connection = node.connection_mut().context("no session")?;
                    while connection.streams().open(kind).is_ok() {
                        opened += 1;
                    }
                    ensure!(opened <= limit, "side {side}: {opened} streams of {kind:?} at once, {limit} permitted");
                    let until = self.pair.now + Duration::from_secs(1);
                    while self.step(until)? {}
                    self.pair.now = self.pair.now.max(until);
                }
                ensure!(opened == limit, "side {side}: {opened} streams of {kind:?}, {limit} permitted");
            }
        }
        Ok(())
    }
}
