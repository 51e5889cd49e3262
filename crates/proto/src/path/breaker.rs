//! The circuit breaker: is heavy loss our own doing? (`spec/protocol.md`, "Circuit breaker".)
//!
//! DFCP does not take loss for a signal, so a sender faster than its path would drown it for ever. When the loss stays
//! above 20 % for 3 s the sender halves its rate for a second. On a path which loses at random, delivery halves too: the
//! rate returns. On a path which is full, delivery stays: the rate then follows what is delivered.

use std::time::Duration;

use dfcp_time::Time;

const LOSS_TRIP: f64 = 0.20;
const TRIP_AFTER: Duration = Duration::from_secs(3);
const SAMPLE: Duration = Duration::from_millis(250);
const TEST: Duration = Duration::from_secs(1);
/// A test lasts longer when too few datagrams have met their fate to judge, but not for ever.
const TEST_MAX: Duration = Duration::from_secs(5);
const TEST_DATAGRAMS_MIN: u64 = 200;
const SAMPLE_DATAGRAMS_MIN: u64 = 64;
/// With half the rate on a path which loses at random, each datagram fares as before. Anything clearly better means that
/// the path was full.
const FARES_BETTER: f64 = 1.12;
/// What is offered above the delivered rate, so that growing capacity is noticed.
const HEADROOM: f64 = 1.05;
const PROBE_EVERY: Duration = Duration::from_secs(8);
const PROBE_FOR: Duration = Duration::from_millis(500);
const PROBE_GAIN: f64 = 1.25;
/// The rate is never held below this share of the configured one, nor below this rate: a connection must stay alive.
const LIMIT_SHARE_MIN: f64 = 0.01;
const LIMIT_BPS_MIN: f64 = 64_000.0;
/// How long a path found to be lossy is left alone; doubles with every further test. A test costs half the rate for a
/// second and two round trips: at 500 ms, less than 1 % of this pause.
const PAUSE_INITIAL: Duration = Duration::from_secs(120);
const PAUSE_MAX: Duration = Duration::from_secs(960);
/// A loss so much above the one found innocent re-arms the breaker at once.
const LOSS_RISE: f64 = 0.15;

/// What the sender knows at some moment, from its own counters and the latest report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Time,
    /// Datagrams sent so far.
    pub(crate) numbered: u64,
    /// Datagrams with a known fate, and those of them which arrived.
    pub(crate) settled: u64,
    pub(crate) arrived: u64,
    /// IP bits which arrived, and which were sent.
    pub(crate) arrived_bits: u64,
    pub(crate) sent_bits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    settled: u64,
    loss: f64,
    delivered_bps: f64,
    sent_bps: f64,
}

impl Sample {
    fn between(from: Snapshot, to: Snapshot) -> Self {
        let seconds = to.at.since(from.at).as_secs_f64().max(1e-9);
        let settled = to.settled.saturating_sub(from.settled);
        let arrived = to.arrived.saturating_sub(from.arrived) as f64;
        Self {
            settled,
            loss: if settled > 0 { (1.0 - arrived / settled as f64).clamp(0.0, 1.0) } else { 0.0 },
            delivered_bps: to.arrived_bits.saturating_sub(from.arrived_bits) as f64 / seconds,
            sent_bps: to.sent_bits.saturating_sub(from.sent_bits) as f64 / seconds,
        }
    }
}

/// The rate held on a path which was found to be full.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bps: f64,
    /// The loss which the path has by itself, at whatever rate. Were it not made up for, every step down would look like
    /// a smaller path, and the rate would fall without end.
    own_loss: f64,
    loss: f64,
    /// Since when the loss has been high although the rate is held.
    high_since: Option<Time>,
    probe_at: Time,
    probing: bool,
}

/// Less is sent for a moment, to see how the datagrams of that moment fare: those from number `first` up to `end`.
#[derive(Clone, Copy, Debug)]
struct Test {
    began: Time,
    rate_bps: f64,
    /// The loss before the test.
    loss: f64,
    /// The limit held before it.
    limit: Option<Limit>,
    first: u64,
    /// Once enough has been sent; from then on the rate is the one before the test, until the verdict.
    end: Option<u64>,
    /// When the fate of all datagrams before `first` was known.
    from: Option<Snapshot>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Watching; `since` is when the loss rose above the trip.
    Armed { since: Option<Snapshot> },
    /// Half of what was sent before.
    Testing(Test),
    /// The loss was the path's own; `rearm_at` unless it rises markedly.
    Cleared { loss: f64, rearm_at: Time },
    /// The path was full.
    Congested(Limit),
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    last: Option<Snapshot>,
    pause: Duration,
    tests: u32,
}

impl Test {
    fn advance(mut self, now: Snapshot) -> Self {
        if self.from.is_none() && now.settled >= self.first {
            self.from = Some(now);
        }
        let passed = now.at.since(self.began);
        let enough = now.numbered - self.first >= TEST_DATAGRAMS_MIN || passed >= TEST_MAX;
        if self.end.is_none() && passed >= TEST && enough {
            self.end = Some(now.numbered);
        }
        self
    }
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: State::Armed { since: None }, last: None, pause: PAUSE_INITIAL, tests: 0 }
    }

    /// The rate allowed now, given the configured one.
    pub(crate) fn allowed_bps(&self, configured_bps: u64) -> u64 {
        let limited = |limit: Limit| (limit.bps * if limit.probing { PROBE_GAIN } else { 1.0 }) as u64;
        match self.state {
            State::Armed { .. } | State::Cleared { .. } => configured_bps,
            State::Testing(Test { rate_bps, end: None, .. }) => configured_bps.min(rate_bps as u64),
            State::Testing(Test { limit, .. }) => limit.map_or(configured_bps, |l| configured_bps.min(limited(l))),
            State::Congested(limit) => configured_bps.min(limited(limit)),
        }
    }

    /// Whether it holds the rate down now.
    pub(crate) fn is_limiting(&self) -> bool {
        match self.state {
            State::Armed { .. } | State::Cleared { .. } => false,
            State::Testing(Test { end, limit, .. }) => end.is_none() || limit.is_some(),
            State::Congested(_) => true,
        }
    }

    pub(crate) fn tests(&self) -> u32 {
        self.tests
    }

    /// Takes in the sender's latest knowledge. Called with every report.
    pub(crate) fn observe(&mut self, now: Snapshot, rtt: Duration, configured_bps: u64) {
        let Some(last) = self.last else {
            self.last = Some(now);
            return;
        };
        if let State::Testing(test) = self.state {
            self.state = State::Testing(test.advance(now));
            if let State::Testing(Test { end: Some(end), from: Some(from), .. }) = self.state
                && now.settled >= end
            {
                self.judge(now, from, test);
            }
            return;
        }
        let sample = Sample::between(last, now);
        if now.at.since(last.at) < SAMPLE.max(rtt) || sample.settled < SAMPLE_DATAGRAMS_MIN {
            return;
        }
        self.last = Some(now);
        match self.state {
            State::Armed { since } => self.watch(now, last, sample, since, configured_bps),
            State::Cleared { loss, rearm_at } => {
                if now.at >= rearm_at || sample.loss > loss + LOSS_RISE {
                    self.state = State::Armed { since: None };
                }
            }
            State::Congested(limit) => self.follow(now, sample, limit, configured_bps),
            State::Testing(_) => {}
        }
    }

    fn watch(&mut self, now: Snapshot, last: Snapshot, sample: Sample, since: Option<Snapshot>, configured_bps: u64) {
        if sample.loss <= LOSS_TRIP {
            self.state = State::Armed { since: None };
            return;
        }
        let since = since.unwrap_or(last);
        self.state = State::Armed { since: Some(since) };
        let whole = Sample::between(since, now);
        // A path which loses just that much trips by chance otherwise, again and again.
        let doubt = 2.0 * (whole.loss * (1.0 - whole.loss) / whole.settled.max(1) as f64).sqrt();
        if now.at.since(since.at) >= TRIP_AFTER && whole.loss - doubt > LOSS_TRIP {
            self.begin_test(now, configured_bps as f64 / 2.0, whole.loss, None);
        }
    }

    fn begin_test(&mut self, now: Snapshot, rate_bps: f64, loss: f64, limit: Option<Limit>) {
        self.tests += 1;
        let first = now.numbered;
        self.state = State::Testing(Test { began: now.at, rate_bps, loss, limit, first, end: None, from: None });
    }

    /// The fate of the datagrams sent in the test is known: is the loss the path's own?
    fn judge(&mut self, now: Snapshot, from: Snapshot, test: Test) {
        let Test { rate_bps, loss, limit, .. } = test;
        let tested = Sample::between(from, now);
        self.last = Some(now);
        if tested.settled < TEST_DATAGRAMS_MIN {
            // Too little was sent to learn anything.
            self.state = State::Armed { since: None };
            return;
        }
        // Delivery that falls in proportion to the rate means that each datagram fares as before.
        let congested = (1.0 - tested.loss) > (1.0 - loss) * FARES_BETTER;
        if congested || limit.is_some() {
            let bps = match limit {
                Some(limit) if !congested => limit.bps,
                _ => tested.delivered_bps * HEADROOM / (1.0 - own(tested.loss)),
            };
            let bps = bps.max(if congested { LIMIT_BPS_MIN.min(rate_bps) } else { rate_bps });
            let own_loss = if congested { 0.0 } else { tested.loss };
            let probe_at = now.at + PROBE_EVERY;
            self.state = State::Congested(Limit {
                bps,
                own_loss,
                loss: tested.loss,
                high_since: None,
                probe_at,
                probing: false,
            });
        } else {
            self.state = State::Cleared { loss: tested.loss, rearm_at: now.at + self.pause };
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
    }

    fn follow(&mut self, now: Snapshot, sample: Sample, mut limit: Limit, configured_bps: u64) {
        let configured = configured_bps as f64;
        limit.loss += (sample.loss - limit.loss) * 0.25;
        // A sender with little to send proves nothing about the path.
        if sample.sent_bps >= limit.bps * 0.9 {
            limit.own_loss = limit.own_loss.min(limit.loss);
            limit.bps = sample.delivered_bps * HEADROOM / (1.0 - own(limit.own_loss));
        }
        if limit.bps >= configured {
            self.state = State::Armed { since: None };
            return;
        }
        limit.bps = limit.bps.max(configured * LIMIT_SHARE_MIN).max(LIMIT_BPS_MIN.min(configured));
        if now.at >= limit.probe_at {
            limit.probing = !limit.probing;
            limit.probe_at = now.at + if limit.probing { PROBE_FOR } else { PROBE_EVERY };
        }
        // Holding the rate down does not cure the loss: find out how much of it is the path's own.
        let high = limit.loss > limit.own_loss + LOSS_RISE;
        limit.high_since = if high { Some(limit.high_since.unwrap_or(now.at)) } else { None };
        self.state = State::Congested(limit);
        if limit.high_since.is_some_and(|since| now.at.since(since) >= TRIP_AFTER) {
            limit.high_since = None;
            self.begin_test(now, limit.bps / 2.0, limit.loss, Some(limit));
        }
    }
}

/// A loss as it is made up for: offering `HEADROOM` times what a full path takes loses a little by itself.
fn own(loss: f64) -> f64 {
    if loss <= 1.0 - 1.0 / HEADROOM { 0.0 } else { loss.min(0.9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives the breaker against a path of `capacity_bps` which also loses a share `loss` at random.
    fn drive(
        breaker: &mut Breaker,
        seconds: u64,
        from: Snapshot,
        offered_bps: u64,
        path: impl Fn(f64) -> f64,
    ) -> Snapshot {
        let mut now = from;
        for _ in 0..seconds * 100 {
            let rate = breaker.allowed_bps(offered_bps) as f64;
            let bits = rate / 100.0;
            let delivered = path(rate) / 100.0;
            now.at += Duration::from_millis(10);
            now.numbered += (bits / 11_808.0) as u64;
            now.settled = now.numbered;
            now.arrived += (delivered / 11_808.0) as u64;
            now.sent_bits += bits as u64;
            now.arrived_bits += delivered as u64;
            breaker.observe(now, Duration::from_millis(20), offered_bps);
        }
        now
    }

    const START: Snapshot =
        Snapshot { at: Time::ZERO, numbered: 0, settled: 0, arrived: 0, arrived_bits: 0, sent_bits: 0 };

    #[test]
    fn a_full_path_is_followed_and_its_growth_noticed() {
        let mut breaker = Breaker::new();
        let now = drive(&mut breaker, 12, START, 1_000_000_000, |rate| rate.min(100e6));
        let allowed = breaker.allowed_bps(1_000_000_000) as f64 / 100e6;
        assert!((1.0..1.32).contains(&allowed), "{allowed}");
        drive(&mut breaker, 60, now, 1_000_000_000, |rate| rate.min(400e6));
        assert!(breaker.allowed_bps(1_000_000_000) >= 400_000_000);
    }

    #[test]
    fn a_lossy_path_is_tested_once_and_then_left_alone() {
        let mut breaker = Breaker::new();
        let now = drive(&mut breaker, 6, START, 1_000_000_000, |rate| rate / 2.0);
        assert_eq!((breaker.tests(), breaker.allowed_bps(1_000_000_000)), (1, 1_000_000_000));
        let now = drive(&mut breaker, 110, now, 1_000_000_000, |rate| rate / 2.0);
        assert_eq!(breaker.tests(), 1);
        drive(&mut breaker, 1_200, now, 1_000_000_000, |rate| rate / 2.0);
        assert!((2..=4).contains(&breaker.tests()), "the pauses double: {}", breaker.tests());
    }

    #[test]
    fn a_full_path_which_also_loses_at_random_is_not_given_up() {
        let mut breaker = Breaker::new();
        drive(&mut breaker, 120, START, 1_000_000_000, |rate| rate.min(100e6) * 0.6);
        let allowed = breaker.allowed_bps(1_000_000_000) as f64 / 100e6;
        assert!((0.9..1.4).contains(&allowed), "{allowed}");
    }

    #[test]
    fn a_loss_which_only_seems_to_exceed_the_threshold_does_not_trip() {
        let mut breaker = Breaker::new();
        drive(&mut breaker, 60, START, 100_000_000, |rate| rate * 0.796);
        assert_eq!(breaker.tests(), 1, "in time the evidence suffices");
        let mut breaker = Breaker::new();
        drive(&mut breaker, 4, START, 100_000_000, |rate| rate * 0.796);
        assert_eq!(breaker.tests(), 0);
    }

    #[test]
    fn little_loss_never_trips() {
        let mut breaker = Breaker::new();
        drive(&mut breaker, 60, START, 1_000_000_000, |rate| rate * 0.85);
        assert_eq!(breaker.tests(), 0);
        assert!(!breaker.is_limiting());
    }
}
