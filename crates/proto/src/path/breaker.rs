//! Circuit breaker: tests whether heavy loss is caused by the sender itself (`spec/protocol.md`, "Circuit breaker").
//!
//! DFCP does not treat loss as a congestion signal, so a sender faster than its path would overload it for ever. When
//! loss stays above 20 % for 3 s, or for 1 s when the peer proves little, the sender halves its rate for a second. On a
//! path with random loss, delivery halves too, and the rate returns. On a full path, delivery stays constant; the rate
//! then follows the delivered rate.
//!
//! To follow it, the sender must know the path's own loss. It cannot be separated from self-inflicted loss while the
//! path is full. But a path can carry what it has delivered before: loss at a clearly lower rate is the path's own. So
//! the sender briefly lowers its rate from time to time to measure it.

mod sample;
pub(crate) mod watched;

use std::time::Duration;

use dfcp_time::Time;

use crate::stats::BreakerState;
use sample::Sample;
pub(crate) use sample::Snapshot;

const LOSS_TRIP: f64 = 0.20;
const TRIP_AFTER: Duration = Duration::from_secs(3);
/// Duration of high loss that trips the breaker if half of the credit is used up. The peer then proves too little to
/// wait longer, and the test needs the remaining credit.
const TRIP_AFTER_SHORT_OF_CREDIT: Duration = Duration::from_secs(1);
const SAMPLE: Duration = Duration::from_millis(250);
const TRIAL: Duration = Duration::from_secs(1);
/// Longest test. A test lasts longer than [`TRIAL`] if too few datagrams have been sent for a verdict.
const TEST_MAX: Duration = Duration::from_secs(5);
const TEST_DATAGRAMS_MIN: u64 = 200;
/// Fewest datagrams per sample: of known fate, or arrived if the path is full and the delivered rate decides the limit
/// (`spec/protocol.md` \[breaker-1\]).
const SAMPLE_DATAGRAMS_MIN: u64 = 64;
/// Least mean rate of a trial, relative to its allowed rate. A slower sender was mostly idle, and a queue may have
/// absorbed the excess.
const TRIAL_SHARE_MIN: f64 = 0.5;
/// Least improvement of a datagram's arrival probability at half rate that shows a full path. With random loss there is
/// no improvement.
const FARES_BETTER: f64 = 1.12;
/// Factor of the offered to the delivered rate. It detects growing capacity, and keeps a small error of the path's own
/// loss from lowering the rate.
const HEADROOM: f64 = 1.05;
/// Headroom while the path does not seem to be full.
const HEADROOM_GROWING: f64 = 1.25;
/// A full path to which `HEADROOM` is offered lets through 1/1.05 of the datagrams that survive its own loss. Half-way
/// between 1 and that, the path counts as full.
const FULL_BELOW: f64 = 0.975;
/// Rate of a measurement of the path's own loss, relative to the rate that the path carries: delivered rate / (1 − own
/// loss as known so far) (\[breaker-5\]).
const MEASURE_SHARE: f64 = 0.8;
const MEASURE_DATAGRAMS_MIN: u64 = 500;
const MEASURE_MAX: Duration = Duration::from_secs(10);
/// Fewest datagrams of known fate for a measurement of the path's own loss.
const MEASURE_SETTLED_MIN: u64 = 32;
/// Pause between two measurements, in durations of the last one. Measurements then cost about 1 % of the delivered
/// rate.
const MEASURE_PAUSE: u32 = 30;
/// A change of own loss by this much is confirmed by a second measurement at once, based on the rate delivered in the
/// first. If the loss was overestimated, or the path has just shrunk, the first measurement itself offered too much
/// (\[breaker-6\]).
const OWN_LOSS_CHANGE: f64 = 0.10;
/// Measure at once when the delivered rate falls below this fraction of its peak since the last measurement. Lower
/// capacity makes it fall once; higher own loss, if unnoticed, makes it fall without end.
const DELIVERY_FALL: f64 = 2.0 / 3.0;
/// Highest own loss that the rate compensates for.
const OWN_LOSS_MAX: f64 = 0.95;
/// Most by which the path's own loss may exceed the smoothed total loss. Total loss is never below own loss; chance
/// explains this much.
const OWN_LOSS_EXCESS: f64 = 0.10;
/// The limit is lifted after this long at the configured rate, if the arrival rate is at least `LIFT_ABOVE` of what own
/// loss permits. It must outlast the filling of a queue (\[breaker-7\]).
const LIFT_AFTER: Duration = Duration::from_secs(5);
const LIFT_ABOVE: f64 = 0.9;
/// Lowest limit, relative to the configured rate. A connection must stay alive.
const LIMIT_SHARE_MIN: f64 = 0.01;
/// Lowest limit, bit/s.
const LIMIT_BPS_MIN: f64 = 64_000.0;
/// Pause before a lossy path is tested again; doubles with every test. A test costs half the rate for a second: less
/// than 0.5 % of this pause (\[breaker-4\]).
const PAUSE_INITIAL: Duration = Duration::from_secs(120);
const PAUSE_MAX: Duration = Duration::from_secs(960);
/// Rise above the loss accepted by a test that re-arms the breaker at once. The same rise above the path's own loss
/// shows that the path is full even if little is sent.
const LOSS_RISE: f64 = 0.15;

/// Rate limit on a full path.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bps: f64,
    /// Smoothed delivered rate under this limit, bit/s.
    delivered_bps: f64,
    /// Highest `delivered_bps` since the path's own loss was measured, bit/s.
    peak_bps: f64,
    /// Loss rate that the path has by itself, at any sending rate. Unless the limit compensates for it, every decrease
    /// of the rate looks like a smaller path, and the rate falls without end.
    own_loss: f64,
    /// Smoothed total loss rate.
    loss: f64,
    /// Time of the next measurement of the path's own loss.
    measure_at: Time,
    /// Last time at which the limit was below the configured rate, or the path was full.
    bound_at: Time,
}

impl Limit {
    fn set(&mut self, headroom: f64, delivered_bps: f64, configured_bps: f64) {
        let bps = headroom * delivered_bps / (1.0 - self.own_loss);
        let floor = LIMIT_BPS_MIN.max(configured_bps * LIMIT_SHARE_MIN);
        self.bps = bps.max(floor).min(configured_bps);
    }
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// Tests whether the path is full. `loss` and `delivered_bps` are those of the seconds before the test.
    Test { loss: f64, delivered_bps: f64 },
    /// Measures the own loss of a full path.
    Measure { limit: Limit, is_confirmation: bool },
}

/// A short period at a lower rate, and the fate of its datagrams.
#[derive(Clone, Copy, Debug)]
struct Trial {
    purpose: Purpose,
    rate_bps: f64,
    began: Snapshot,
    /// Counters at the end of the trial. From then until the verdict, the rate from before the trial applies.
    ended: Option<Snapshot>,
    /// Counters at the time when all datagrams sent before the trial had a known fate.
    from: Option<Snapshot>,
}

impl Trial {
    fn advance(&mut self, now: Snapshot) {
        if self.from.is_none() && now.settled >= self.began.numbered {
            self.from = Some(now);
        }
        let passed = now.at.since(self.began.at);
        let (datagrams_min, longest) = match self.purpose {
            Purpose::Measure { is_confirmation: false, .. } => (MEASURE_DATAGRAMS_MIN, MEASURE_MAX),
            Purpose::Test { .. } | Purpose::Measure { .. } => (TEST_DATAGRAMS_MIN, TEST_MAX),
        };
        let enough = now.numbered.saturating_sub(self.began.numbered) >= datagrams_min || passed >= longest;
        if self.ended.is_none() && passed >= TRIAL && enough {
            self.ended = Some(now);
        }
    }

    /// Returns the sample of the trial's datagrams, and the counters at its end. `None` before all their fates are
    /// known.
    fn outcome(&self, now: Snapshot) -> Option<(Sample, Snapshot)> {
        let ended = self.ended?;
        (now.settled >= ended.numbered).then_some((Sample::between(self.from?, now), ended))
    }

    /// Returns the rate limit of this trial, bit/s.
    fn limit_bps(&self) -> Option<f64> {
        match (self.ended, self.purpose) {
            (None, _) => Some(self.rate_bps),
            (Some(_), Purpose::Test { .. }) => None,
            (Some(_), Purpose::Measure { limit, .. }) => Some(limit.bps),
        }
    }

    fn was_idle(&self, ended: Snapshot) -> bool {
        Sample::between(self.began, ended).sent_bps < self.rate_bps * TRIAL_SHARE_MIN
    }
}

/// A period of loss above the trip threshold.
#[derive(Clone, Copy, Debug)]
struct HighLoss {
    /// Counters when the period began.
    since: Snapshot,
    /// Counters after half of the time that high loss must last to trip the breaker.
    later: Option<Snapshot>,
}

#[derive(Debug)]
enum State {
    /// Watching. `high` is set while loss exceeds the trip threshold.
    Armed { high: Option<Box<HighLoss>> },
    /// A test or measurement at a lower rate. Boxed, because it is rare and large.
    Trying(Box<Trial>),
    /// The loss is the path's own. The breaker is re-armed at `rearm_at`, or when loss rises markedly.
    Cleared { loss: f64, rearm_at: Time },
    /// The path is full.
    Congested(Limit),
}

#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    last: Option<Snapshot>,
    pause: Duration,
    tests: u32,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: State::Armed { high: None }, last: None, pause: PAUSE_INITIAL, tests: 0 }
    }

    /// Returns the allowed rate, bit/s.
    pub(crate) fn allowed_bps(&self, configured_bps: u64) -> u64 {
        self.limit_bps().map_or(configured_bps, |limit_bps| configured_bps.min(limit_bps as u64))
    }

    fn limit_bps(&self) -> Option<f64> {
        match &self.state {
            State::Armed { .. } | State::Cleared { .. } => None,
            State::Trying(trial) => trial.limit_bps(),
            State::Congested(limit) => Some(limit.bps),
        }
    }

    /// Returns the state for statistics.
    pub(crate) fn state(&self) -> BreakerState {
        match &self.state {
            State::Armed { .. } => BreakerState::Watching,
            State::Trying(trial) => match trial.purpose {
                Purpose::Test { .. } => BreakerState::Testing,
                Purpose::Measure { .. } => BreakerState::Limiting,
            },
            State::Cleared { .. } => BreakerState::LossAccepted,
            State::Congested(_) => BreakerState::Limiting,
        }
    }

    /// Returns true while the rate is held down.
    pub(crate) fn is_limiting(&self) -> bool {
        self.limit_bps().is_some()
    }

    /// Returns the rate that the path can carry, bit/s. `None` unless the limit is below the configured rate.
    pub(crate) fn carried_bps(&self, configured_bps: u64) -> Option<u64> {
        let limit = match &self.state {
            State::Congested(limit) => limit,
            State::Trying(trial) => match &trial.purpose {
                Purpose::Measure { limit, .. } => limit,
                Purpose::Test { .. } => return None,
            },
            State::Armed { .. } | State::Cleared { .. } => return None,
        };
        // At the configured rate the limit no longer binds, although it is lifted only some seconds later.
        (limit.bps < configured_bps as f64).then(|| (limit.delivered_bps / (1.0 - limit.own_loss)) as u64)
    }

    /// Returns the number of tests, for each of which the rate was halved.
    pub(crate) fn tests(&self) -> u32 {
        self.tests
    }

    /// Discards evidence. Traffic below the configured rate proves nothing about that rate.
    pub(crate) fn pass_over(&mut self) {
        self.last = None;
        if matches!(self.state, State::Armed { high: Some(_) } | State::Trying(_)) {
            self.state = State::Armed { high: None };
        }
    }

    /// Takes in the sender's current counters. Called for every report.
    pub(crate) fn observe(&mut self, now: Snapshot, rtt: Duration, configured_bps: u64) {
        let Some(last) = self.last else {
            self.last = Some(now);
            return;
        };
        let configured = configured_bps as f64;
        if let State::Trying(trial) = &mut self.state {
            trial.advance(now);
            if let Some((tried, ended)) = trial.outcome(now) {
                let trial = **trial;
                self.last = Some(now);
                match trial.purpose {
                    Purpose::Test { loss, delivered_bps } => self.judge(now, &trial, tried, ended, loss, delivered_bps),
                    Purpose::Measure { .. } => self.take_own_loss(now, &trial, tried, ended, configured),
                }
            }
            return;
        }
        let sample = Sample::between(last, now);
        let datagrams = if matches!(self.state, State::Congested(_)) { sample.arrived } else { sample.settled };
        if now.at.since(last.at) < SAMPLE.max(rtt) || datagrams < SAMPLE_DATAGRAMS_MIN {
            return;
        }
        self.last = Some(now);
        match &self.state {
            State::Armed { high } => self.watch(now, last, sample, high.as_deref().copied(), configured),
            &State::Cleared { loss, rearm_at } => {
                if now.at >= rearm_at || sample.loss - 2.0 * sample.doubt() > loss + LOSS_RISE {
                    self.state = State::Armed { high: None };
                }
            }
            &State::Congested(limit) => self.follow(now, sample, limit, configured),
            State::Trying(_) => {}
        }
    }

    fn watch(&mut self, now: Snapshot, last: Snapshot, sample: Sample, high: Option<HighLoss>, configured_bps: f64) {
        if sample.loss <= LOSS_TRIP {
            self.state = State::Armed { high: None };
            return;
        }
        // Otherwise a path whose loss is just at the threshold would trip again and again by chance ([breaker-2]).
        let trip_after = if now.is_credit_short { TRIP_AFTER_SHORT_OF_CREDIT } else { TRIP_AFTER };
        let mut high = high.unwrap_or(HighLoss { since: last, later: None });
        if high.later.is_none() && now.at.since(high.since.at) >= trip_after / 2 {
            high.later = Some(last);
        }
        self.state = State::Armed { high: Some(Box::new(high)) };
        let whole = Sample::between(high.since, now);
        if now.at.since(high.since.at) >= trip_after && whole.loss - 2.0 * whole.doubt() > LOSS_TRIP {
            self.tests += 1;
            // Halving a rate that is not used would change nothing, so halve the sent rate.
            let rate_bps = configured_bps.min(whole.sent_bps.max(LIMIT_BPS_MIN)) / 2.0;
            // The path may have shrunk in these seconds. Use the latter half where the difference is significant.
            let later = Sample::between(high.later.unwrap_or(last), now);
            let loss = whole.loss.max(later.loss - 2.0 * later.doubt());
            let delivered_bps = whole.delivered_bps.min(later.delivered_bps);
            self.try_out(now, rate_bps, Purpose::Test { loss, delivered_bps });
        }
    }

    fn try_out(&mut self, now: Snapshot, rate_bps: f64, purpose: Purpose) {
        self.state = State::Trying(Box::new(Trial { purpose, rate_bps, began: now, ended: None, from: None }));
    }

    /// Starts a measurement at clearly less than `takes_bps`, a rate that the path certainly carries.
    fn measure(&mut self, now: Snapshot, takes_bps: f64, limit: Limit, is_confirmation: bool) {
        let rate_bps = (takes_bps * MEASURE_SHARE).max(LIMIT_BPS_MIN.min(limit.bps));
        self.try_out(now, rate_bps, Purpose::Measure { limit, is_confirmation });
    }

    /// Ends a test: decides whether the loss is the path's own.
    fn judge(&mut self, now: Snapshot, trial: &Trial, tried: Sample, ended: Snapshot, loss: f64, delivered_bps: f64) {
        if trial.was_idle(ended) {
            self.state = State::Armed { high: None };
            return;
        }
        // If delivery falls in proportion to the rate, each datagram's arrival probability is unchanged ([breaker-3]).
        let fares_better = (1.0 - tried.loss) > (1.0 - loss) * FARES_BETTER;
        if ended.numbered.saturating_sub(trial.began.numbered) < TEST_DATAGRAMS_MIN {
            self.clear(now, loss);
        } else if fares_better {
            let delivered_bps = delivered_bps.max(tried.delivered_bps);
            let bps = (delivered_bps * HEADROOM).max(LIMIT_BPS_MIN);
            let at = now.at;
            let limit =
                Limit { bps, delivered_bps, peak_bps: 0.0, own_loss: 0.0, loss: 0.0, measure_at: at, bound_at: at };
            self.measure(now, delivered_bps, limit, false);
        } else {
            self.clear(now, tried.loss);
        }
    }

    /// Ends a measurement of the path's own loss. An idle sender does not distort it, unlike a test.
    fn take_own_loss(&mut self, now: Snapshot, trial: &Trial, tried: Sample, ended: Snapshot, configured_bps: f64) {
        let Purpose::Measure { mut limit, is_confirmation } = trial.purpose else { return };
        let change = tried.loss - limit.own_loss;
        let suffices = tried.settled >= MEASURE_SETTLED_MIN;
        let has_changed = suffices && change.abs() - 2.0 * tried.doubt() > OWN_LOSS_CHANGE;
        // A confirmation has fewer datagrams than the first measurement. It only decides whether that one offered too
        // much.
        let counts = if is_confirmation { has_changed && change < 0.0 } else { suffices };
        if counts {
            // Offering a little too much costs little. Offering too little each time makes the rate fall.
            limit.own_loss = (tried.loss + tried.doubt()).min(OWN_LOSS_MAX);
        }
        limit.loss = limit.own_loss;
        limit.measure_at = now.at + ended.at.since(trial.began.at) * MEASURE_PAUSE;
        limit.bound_at = now.at;
        limit.peak_bps = limit.delivered_bps;
        if has_changed && !is_confirmation && !trial.was_idle(ended) {
            self.measure(now, tried.delivered_bps, limit, true);
        } else {
            limit.set(HEADROOM, limit.delivered_bps, configured_bps);
            self.state = State::Congested(limit);
        }
    }

    fn clear(&mut self, now: Snapshot, loss: f64) {
        self.state = State::Cleared { loss, rearm_at: now.at + self.pause };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    fn follow(&mut self, now: Snapshot, sample: Sample, mut limit: Limit, configured_bps: f64) {
        limit.loss += (sample.loss - limit.loss) * 0.25;
        limit.own_loss = limit.own_loss.min(limit.loss + OWN_LOSS_EXCESS);
        // A sender with little data proves nothing about the path, unless even that little is lost.
        if sample.sent_bps < limit.bps * 0.9 && sample.loss <= limit.own_loss + LOSS_RISE {
            self.state = State::Congested(limit);
            return;
        }
        let is_full = 1.0 - sample.loss < (1.0 - limit.own_loss) * FULL_BELOW;
        limit.delivered_bps += (sample.delivered_bps - limit.delivered_bps) * 0.25;
        limit.peak_bps = limit.peak_bps.max(limit.delivered_bps);
        limit.set(if is_full { HEADROOM } else { HEADROOM_GROWING }, sample.delivered_bps, configured_bps);
        if limit.bps < configured_bps || 1.0 - limit.loss < (1.0 - limit.own_loss) * LIFT_ABOVE {
            limit.bound_at = now.at;
        }
        if now.at.since(limit.bound_at) >= LIFT_AFTER {
            if limit.own_loss > LOSS_TRIP {
                self.clear(now, limit.own_loss);
            } else {
                self.state = State::Armed { high: None };
            }
        } else if now.at >= limit.measure_at || limit.delivered_bps < limit.peak_bps * DELIVERY_FALL {
            // The path may have shrunk just now; the latest sample shows it.
            limit.delivered_bps = limit.delivered_bps.min(sample.delivered_bps);
            self.measure(now, limit.delivered_bps / (1.0 - limit.own_loss), limit, false);
        } else {
            self.state = State::Congested(limit);
        }
    }
}

#[cfg(test)]
mod tests;
