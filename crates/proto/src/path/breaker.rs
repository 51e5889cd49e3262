//! The circuit breaker: is heavy loss our own doing? (`spec/protocol.md`, "Circuit breaker".)
//!
//! DFCP does not treat loss as a signal, so a sender faster than its path would drown it for ever. When the loss stays
//! above 20 % for 3 s, or for 1 s when the peer proves little, the sender halves its rate for a second. On a path which
//! loses at random, delivery halves too: the rate returns. On a path which is full, delivery stays: the rate then follows what is delivered.
//!
//! To follow it, the loss which the path has by itself must be known; it cannot be told from the sender's own doing while
//! the path is full. But what a path has delivered it can take: whatever is lost when clearly less is offered, the path
//! loses by itself. So that is offered for a moment now and then.

mod sample;
pub(crate) mod watched;

use std::time::Duration;

use dfcp_time::Time;

use crate::stats::BreakerState;
use sample::Sample;
pub(crate) use sample::Snapshot;

const LOSS_TRIP: f64 = 0.20;
const TRIP_AFTER: Duration = Duration::from_secs(3);
/// A sender whose peer proves so little that half of its credit is used up cannot wait as long: the test needs the rest.
const TRIP_AFTER_SHORT_OF_CREDIT: Duration = Duration::from_secs(1);
const SAMPLE: Duration = Duration::from_millis(250);
const TRIAL: Duration = Duration::from_secs(1);
/// A trial lasts longer when too few datagrams have been sent to judge, but not for ever.
const TEST_MAX: Duration = Duration::from_secs(5);
const TEST_DATAGRAMS_MIN: u64 = 200;
/// The fate of this many must be known, or on a full path this many must have arrived, if their number decides the limit (`spec/protocol.md`
/// \[breaker-1\]).
const SAMPLE_DATAGRAMS_MIN: u64 = 64;
/// Below this share of the trial's rate the sender was mostly idle: a queue may have taken what the path could not.
const TRIAL_SHARE_MIN: f64 = 0.5;
/// With half the rate on a path which loses at random, each datagram fares as before. Anything clearly better means that
/// the path was full.
const FARES_BETTER: f64 = 1.12;
/// Factor of the offered to the delivered rate, so that growing capacity is noticed and a small error of the path's own loss
/// does not make the rate fall.
const HEADROOM: f64 = 1.05;
/// The headroom while the path does not seem to be full.
const HEADROOM_GROWING: f64 = 1.25;
/// A path to which `HEADROOM` is offered lets through 1/1.05 of what survives its own loss: half of the way there, it
/// counts as full.
const FULL_BELOW: f64 = 0.975;
/// Part of the delivered rate, divided by one minus the path's own loss as known so far, that is offered to measure that loss
/// (\[breaker-5\]).
const MEASURE_SHARE: f64 = 0.8;
const MEASURE_DATAGRAMS_MIN: u64 = 500;
const MEASURE_MAX: Duration = Duration::from_secs(10);
/// The fate of fewer datagrams tells nothing about the path's own loss.
const MEASURE_SETTLED_MIN: u64 = 32;
/// The pause before a measurement, in durations of the last one: it costs about 1 % of the delivered rate.
const MEASURE_PAUSE: u32 = 30;
/// A change this large is confirmed at once, with what was delivered in the measurement for the delivered rate: had the loss
/// been thought too high, or had the path shrunk just then, the measurement itself offered too much (\[breaker-6\]).
const OWN_LOSS_CHANGE: f64 = 0.10;
/// It comes at once when delivery has fallen so far since the last one. A path of less capacity makes it fall once; one
/// which loses more by itself, without end.
const DELIVERY_FALL: f64 = 2.0 / 3.0;
/// No loss above this one is made up for.
const OWN_LOSS_MAX: f64 = 0.95;
/// Excess of the path's own loss over the smoothed one that chance explains: no loss seen is below the path's own.
const OWN_LOSS_EXCESS: f64 = 0.10;
/// The limit is lifted after this long at the configured rate, if `LIFT_ABOVE` of what the path's own loss leaves arrived. It
/// must outlast the filling of a queue (\[breaker-7\]).
const LIFT_AFTER: Duration = Duration::from_secs(5);
const LIFT_ABOVE: f64 = 0.9;
/// The rate is never held below this share of the configured one, nor below this rate: a connection must stay alive.
const LIMIT_SHARE_MIN: f64 = 0.01;
const LIMIT_BPS_MIN: f64 = 64_000.0;
/// Pause before a path found to be lossy is tested again; doubles with every further test. A test costs half the rate for a
/// second: less than half a per cent of this pause (\[breaker-4\]).
const PAUSE_INITIAL: Duration = Duration::from_secs(120);
const PAUSE_MAX: Duration = Duration::from_secs(960);
/// A loss this much above the one found innocent re-arms the breaker at once; this much above the path's own, it shows that
/// the path is full even if little is sent.
const LOSS_RISE: f64 = 0.15;

/// The rate held on a path which was found to be full.
#[derive(Clone, Copy, Debug)]
struct Limit {
    bps: f64,
    /// Delivered rate while the limit is offered, smoothed, and its maximum since the path's own loss was measured.
    delivered_bps: f64,
    peak_bps: f64,
    /// The loss which the path has by itself, at whatever rate. Were it not made up for, every step down would look like
    /// a smaller path, and the rate would fall without end.
    own_loss: f64,
    /// All loss, smoothed.
    loss: f64,
    /// Time of the next measurement of the path's own loss.
    measure_at: Time,
    /// Last time that the limit kept anything back, or that the path was full.
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
    /// Is the path full? With the loss and the delivered rate of the seconds before.
    Test { loss: f64, delivered_bps: f64 },
    /// Measures the loss that a full path has by itself.
    Measure { limit: Limit, is_confirmation: bool },
}

/// Less is sent for a moment, to see how the datagrams of that moment fare.
#[derive(Clone, Copy, Debug)]
struct Trial {
    purpose: Purpose,
    rate_bps: f64,
    began: Snapshot,
    /// Once enough has been sent; from then on the rate is the one before the trial, until the verdict.
    ended: Option<Snapshot>,
    /// Counters once the fate of all datagrams before the trial was known.
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

    /// Fate of the trial's datagrams and the end of the trial, once known.
    fn outcome(&self, now: Snapshot) -> Option<(Sample, Snapshot)> {
        let ended = self.ended?;
        (now.settled >= ended.numbered).then_some((Sample::between(self.from?, now), ended))
    }

    /// The rate to be kept to.
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

/// A loss above the trip.
#[derive(Clone, Copy, Debug)]
struct HighLoss {
    /// Counters when the loss rose.
    since: Snapshot,
    /// Half of the time later after which it trips.
    later: Option<Snapshot>,
}

#[derive(Debug)]
enum State {
    /// Watching; the loss may be above the trip, which is rare.
    Armed { high: Option<Box<HighLoss>> },
    /// Less than before is sent. Rare, and large.
    Trying(Box<Trial>),
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

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: State::Armed { high: None }, last: None, pause: PAUSE_INITIAL, tests: 0 }
    }

    /// The rate allowed now, given the configured one.
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

    /// Current state, for statistics.
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

    /// True while it holds the rate down.
    pub(crate) fn is_limiting(&self) -> bool {
        self.limit_bps().is_some()
    }

    /// The rate which the path was found to carry, while the limit is below the configured rate.
    pub(crate) fn carried_bps(&self, configured_bps: u64) -> Option<u64> {
        let limit = match &self.state {
            State::Congested(limit) => limit,
            State::Trying(trial) => match &trial.purpose {
                Purpose::Measure { limit, .. } => limit,
                Purpose::Test { .. } => return None,
            },
            State::Armed { .. } | State::Cleared { .. } => return None,
        };
        // A path which has grown again is left alone for some seconds before the limit is lifted.
        (limit.bps < configured_bps as f64).then(|| (limit.delivered_bps / (1.0 - limit.own_loss)) as u64)
    }

    /// Number of tests: the rate was halved to learn whether the path is full.
    pub(crate) fn tests(&self) -> u32 {
        self.tests
    }

    /// Discards evidence: traffic below the configured rate says nothing for or against that rate.
    pub(crate) fn pass_over(&mut self) {
        self.last = None;
        if matches!(self.state, State::Armed { high: Some(_) } | State::Trying(_)) {
            self.state = State::Armed { high: None };
        }
    }

    /// Takes in the sender's latest knowledge. Called with every report.
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
        // A path which loses just that much trips by chance otherwise, again and again ([breaker-2]).
        let trip_after = if now.is_credit_short { TRIP_AFTER_SHORT_OF_CREDIT } else { TRIP_AFTER };
        let mut high = high.unwrap_or(HighLoss { since: last, later: None });
        if high.later.is_none() && now.at.since(high.since.at) >= trip_after / 2 {
            high.later = Some(last);
        }
        self.state = State::Armed { high: Some(Box::new(high)) };
        let whole = Sample::between(high.since, now);
        if now.at.since(high.since.at) >= trip_after && whole.loss - 2.0 * whole.doubt() > LOSS_TRIP {
            self.tests += 1;
            // Half of a rate which is not used would change nothing.
            let rate_bps = configured_bps.min(whole.sent_bps.max(LIMIT_BPS_MIN)) / 2.0;
            // The path may have shrunk in these seconds: what it did in the latter half counts, as far as that is no chance.
            let later = Sample::between(high.later.unwrap_or(last), now);
            let loss = whole.loss.max(later.loss - 2.0 * later.doubt());
            let delivered_bps = whole.delivered_bps.min(later.delivered_bps);
            self.try_out(now, rate_bps, Purpose::Test { loss, delivered_bps });
        }
    }

    fn try_out(&mut self, now: Snapshot, rate_bps: f64, purpose: Purpose) {
        self.state = State::Trying(Box::new(Trial { purpose, rate_bps, began: now, ended: None, from: None }));
    }

    /// Offers clearly less than `takes_bps`, which the path takes for certain.
    fn measure(&mut self, now: Snapshot, takes_bps: f64, limit: Limit, is_confirmation: bool) {
        let rate_bps = (takes_bps * MEASURE_SHARE).max(LIMIT_BPS_MIN.min(limit.bps));
        self.try_out(now, rate_bps, Purpose::Measure { limit, is_confirmation });
    }

    /// The fate of the datagrams sent in the test is known: is the loss the path's own?
    fn judge(&mut self, now: Snapshot, trial: &Trial, tried: Sample, ended: Snapshot, loss: f64, delivered_bps: f64) {
        if trial.was_idle(ended) {
            self.state = State::Armed { high: None };
            return;
        }
        // Delivery that falls in proportion to the rate means that each datagram fares as before ([breaker-3]).
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

    /// The fate of the datagrams sent in a measurement is known. Their loss does not depend on how busy the sender was.
    fn take_own_loss(&mut self, now: Snapshot, trial: &Trial, tried: Sample, ended: Snapshot, configured_bps: f64) {
        let Purpose::Measure { mut limit, is_confirmation } = trial.purpose else { return };
        let change = tried.loss - limit.own_loss;
        let suffices = tried.settled >= MEASURE_SETTLED_MIN;
        let has_changed = suffices && change.abs() - 2.0 * tried.doubt() > OWN_LOSS_CHANGE;
        // A confirmation has fewer datagrams than what it confirms: it only tells whether too much was offered there.
        let counts = if is_confirmation { has_changed && change < 0.0 } else { suffices };
        if counts {
            // Offering a little too much costs little; offering too little each time makes the rate fall.
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
        // A sender with little to send proves nothing about the path, unless it loses even that.
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
            // Should the path have shrunk just now, then the latest sample knows.
            limit.delivered_bps = limit.delivered_bps.min(sample.delivered_bps);
            self.measure(now, limit.delivered_bps / (1.0 - limit.own_loss), limit, false);
        } else {
            self.state = State::Congested(limit);
        }
    }
}

#[cfg(test)]
mod tests;
