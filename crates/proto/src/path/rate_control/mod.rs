//! An automatic rate: how fast this end may send, found and followed while it sends (`spec/protocol.md`, "Automatic rate").
//!
//! A window, that is datagrams per least round trip (\[auto-1\]), goes by the queueing delay which it causes: it grows below a target and
//! shrinks above it, by steps which are judged only by what was sent under the present window. Whose a loss is, decides where it
//! happens: what is lost while the queue is short is the path's own, and does not count. Short trains tell the capacity of
//! the path and so the own share of it; a smaller share waits for more queue, which makes shares equal.
//!
//! * [`account`]: what users are told.
//! * [`history`]: what reports say of arrivals: delays, losses, rates between two of our datagrams.
//! * [`clock_drift`]: how much faster the peer's clock is.
//! * [`capacity`]: trains, and what they tell.
//! * [`start`], [`steady`]: from nothing to the capacity; one round after the other.
//! * [`ebb`]: less for a while, to see what is lost and how short the path is then.
//! * [`upper_bound`]: what the path takes where no queue tells.
//! * [`target`]: the queueing delay that the window goes by.
//! * [`path_loss`]: the loss that is not ours.
//! * [`longer_path`]: whether what looks like a queue is none.
//! * [`question`]: whether others give way when more is sent.
//! * [`rivals`], [`cubic`]: those who do not, and fill the queue whatever we do.
//!
//! Floating-point numbers are added, multiplied, divided and rooted alone, which every machine does alike: a seed is a run.

mod account;
mod capacity;

pub(in crate::path) mod clock_drift;
pub(in crate::path) mod cubic;
mod ebb;
pub(crate) mod history;
mod longer_path;
mod path_loss;
pub(in crate::path) mod question;
pub(in crate::path) mod rivals;
mod start;
mod steady;
mod target;
mod upper_bound;

use std::time::Duration;

use dfcp_time::Time;

use self::account::Account;
use self::capacity::{Capacity, TRAIN};
use self::ebb::Ebb;
use self::history::{History, Point, Span};
use self::longer_path::LongerPath;
use self::path_loss::PathLoss;
use self::question::Question;
use self::rivals::Rivals;
use self::target::Target;
use self::upper_bound::UpperBound;
use crate::config::PathHint;
use crate::config::Policy;
use crate::config::controller::{PathStart, RateController, RateControllerFactory, ReportSeen};
use crate::path::hint::ProvenRate;
use crate::stats::RateControlStats;

/// The least window, in datagrams, and the least rate.
const WINDOW_MIN: f64 = 1.0;
const RATE_MIN_BPS: f64 = 16_000.0;
/// Limit of the data in flight: a factor of the rate's round trip, plus seconds at the rate, plus datagrams.
const FLIGHT_PART: f64 = 1.2;
const FLIGHT_S: f64 = 0.003;
const FLIGHT_DATAGRAMS: f64 = TRAIN + 4.0;

/// Phase of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// The first train is on its way.
    Train,
    /// The window grows to what the train promised.
    Start,
    /// The window goes by the queueing delay.
    Run,
    /// Half the rate for half a window.
    Ebb,
    /// More than the window, to see whether others make room.
    Push,
    /// Rivals fill the queue whatever we do: the window is that of one of them.
    Compete,
}

/// Datagrams sent under one window: after the first `from`, and judged when the fate of number `end` is known.
#[derive(Clone, Copy, Debug)]
struct Round {
    from: f64,
    end: f64,
}

/// The controller of one path's rate.
#[derive(Debug)]
pub(super) struct RateControl {
    policy: Policy,
    datagram_bits: f64,
    max_bps: f64,
    /// The caller's minimum rate, whatever this controller finds; 0 is none.
    floor_bps: f64,
    /// The floor has held the window up since the last round: what is lost then is no sign of the path.
    is_held_up: bool,
    history: History,
    mode: Mode,
    /// Datagrams per least round trip.
    window: f64,
    rate_bps: f64,
    /// Datagrams sent.
    sent: f64,
    round: Round,
    /// The newest mark when the last round was judged; `None` if the window fell then, because losses from before are those of the
    /// old window.
    judged: Option<Point>,
    judged_at: Time,
    capacity: Capacity,
    target: Target,
    path_loss: PathLoss,
    ebb: Ebb,
    upper_bound: UpperBound,
    longer_path: LongerPath,
    question: Question,
    rivals: Rivals,
    account: Account,
    /// Of the start: the round trip of the handshake, seconds.
    first_rtt_s: f64,
    /// Of the start: what came of the first datagrams behind the train.
    first_rounds: Option<Span>,
    /// Of the start: datagrams that arrived per second in its last round.
    start_per_s: f64,
    proven: ProvenRate,
    /// Messages with deadlines are under way, whose time a queue takes.
    spares_queue: bool,
    /// Datagrams behind the first train which must be known before it is judged.
    behind_min: f64,
    /// The path was all ours when it was full last.
    is_alone: bool,
}

/// Factory of this controller.
#[derive(Debug)]
pub(crate) struct Automatic;

impl RateControllerFactory for Automatic {
    fn begin(&self, path: PathStart) -> Box<dyn RateController> {
        let mut control = RateControl::new(path.now, path.datagram_bytes, path.rtt, path.sent);
        control.set_policy(path.policy, path.max_bps);
        if let Some(hint_bps) = path.hint_bps {
            control.expect(hint_bps);
        }
        Box::new(control)
    }
}

impl RateControl {
    /// A path on which `sent` datagrams have been sent, in the round trip `rtt` as far as is known.
    fn new(now: Time, datagram_bytes: u64, rtt: Duration, sent: u64) -> Self {
        let sent = sent as f64;
        let mut history = History::default();
        history.on_rtt(now, rtt.as_secs_f64());
        let mut control = Self {
            policy: Policy::default(),
            datagram_bits: datagram_bytes as f64 * 8.0,
            max_bps: f64::INFINITY,
            floor_bps: 0.0,
            is_held_up: false,
            history,
            mode: Mode::Train,
            window: TRAIN,
            rate_bps: 0.0,
            sent,
            round: Round { from: sent, end: f64::INFINITY },
            judged: None,
            judged_at: now,
            capacity: Capacity::new(sent),
            target: Target::default(),
            path_loss: PathLoss::default(),
            ebb: Ebb::new(now),
            upper_bound: UpperBound::default(),
            longer_path: LongerPath::default(),
            question: Question::new(now),
            rivals: Rivals::new(now),
            account: Account::default(),
            first_rtt_s: rtt.as_secs_f64(),
            first_rounds: None,
            start_per_s: 0.0,
            proven: ProvenRate::new(now),
            spares_queue: false,
            behind_min: 0.0,
            is_alone: true,
        };
        control.set_rate();
        control
    }

    /// An earlier connection has found this rate on what may be the same path (\[auto-12\]): half of it until the first train is judged.
    fn expect(&mut self, rate_bps: u64) {
        let window = start::HINT_PART * rate_bps as f64 / self.datagram_bits * self.history.rtt();
        if window > self.window {
            self.window = window;
            self.behind_min = start::HINT_BEHIND;
            self.set_rate();
        }
    }

    fn within_bounds(&self, rate_bps: f64) -> u64 {
        let least_bps = self.floor_bps.max(RATE_MIN_BPS);
        rate_bps.clamp(least_bps, self.max_bps.max(least_bps)) as u64
    }

    fn set_rate(&mut self) {
        // Traffic that the floor has sent is judged as such: a window of that size.
        let least = self.floor_bps / self.datagram_bits * self.history.rtt();
        if self.window < least {
            (self.window, self.is_held_up) = (least, true);
        }
        self.rate_bps = self.found_bps().max(self.floor_bps);
    }

    fn found_bps(&self) -> f64 {
        let rtt_s = self.history.rtt();
        let queue_s = self.history.queue_lately((rtt_s / 8.0).max(0.002));
        self.window / (rtt_s + queue_s) * self.datagram_bits
    }

    /// Begins a round: traffic from now on is judged once `part` of a window has been sent.
    fn begin_round(&mut self, part: f64) {
        self.round = Round { from: self.sent, end: self.sent + (self.window * part).max(3.0).floor() };
    }

    /// Measurements of the traffic sent under the present window.
    fn observe(&self) -> Option<Span> {
        self.history.span(self.round.from, f64::INFINITY)
    }

    /// Error by chance of a share of `loss` among `sent` datagrams.
    fn doubt(&self, loss: f64, sent: f64) -> f64 {
        path_loss::doubt(loss, sent, self.history.burstiness())
    }

    fn per_s(&self) -> f64 {
        self.window / self.history.rtt()
    }

    /// The queueing delay at which the window stays.
    fn target_s(&self) -> f64 {
        self.target.delay_s(&self.history, self.capacity.per_s(), self.per_s())
    }
}

impl RateController for RateControl {
    fn on_proven(&mut self, now: Time, bytes: u64) {
        self.proven.on_proven(now, bytes);
    }

    fn hint(&self) -> Option<PathHint> {
        let rate_bps = self.steady_bps().min(self.proven.best_bps);
        (rate_bps > 0).then(|| PathHint { rate_bps, rtt: Duration::from_secs_f64(self.history.rtt().clamp(0.0, 1e3)) })
    }

    fn set_policy(&mut self, policy: Policy, max_bps: Option<u64>) {
        self.policy = policy;
        self.target.set_policy(policy);
        self.max_bps = max_bps.map_or(f64::INFINITY, |bps| bps as f64);
    }

    fn set_floor(&mut self, floor_bps: u64) {
        let floor_bps = floor_bps as f64;
        if self.floor_bps == floor_bps {
            return;
        }
        // A window which only the old floor held up comes down with it.
        if self.floor_bps > floor_bps && self.found_bps() <= self.floor_bps {
            self.window = (self.window * floor_bps / self.floor_bps).max(WINDOW_MIN);
        }
        self.floor_bps = floor_bps;
        self.set_rate();
    }

    fn finds_at_most(&self, bps: u64) -> bool {
        self.found_bps() <= bps as f64
    }

    fn has_not_begun(&self) -> bool {
        self.mode == Mode::Train && self.capacity.is_train(self.sent)
    }

    fn set_datagram_bytes(&mut self, datagram_bytes: u64) {
        let factor = self.datagram_bits / (datagram_bytes as f64 * 8.0);
        self.datagram_bits = datagram_bytes as f64 * 8.0;
        self.window *= factor;
        self.start_per_s *= factor;
        self.capacity.scale(factor);
        self.upper_bound.scale(factor);
        self.question.scale(factor);
        self.rivals.scale(factor);
        self.longer_path.forget_pulse();
        self.judged = None;
        match self.mode {
            Mode::Train => {}
            Mode::Start => self.begin_round(start::ROUND_PART),
            Mode::Run => self.begin_round(steady::ROUND_PART),
            Mode::Ebb | Mode::Push | Mode::Compete => self.round.from = self.sent,
        }
    }

    fn rate_bps(&self) -> Option<u64> {
        let is_train = self.capacity.is_train(self.sent) && self.mode != Mode::Ebb;
        if is_train && self.max_bps == f64::INFINITY {
            return None;
        }
        let rate_bps = match self.longer_path.pulse_per_s(self.sent) {
            _ if is_train => self.max_bps,
            Some(per_s) => per_s * self.datagram_bits,
            None if self.mode == Mode::Ebb && self.sent < self.ebb.end => self.rate_bps * self.ebb.part,
            None => self.rate_bps,
        };
        Some(self.within_bounds(rate_bps))
    }

    fn in_flight_max(&self) -> usize {
        let per_s = self.rate_bps / self.datagram_bits;
        let most = FLIGHT_PART * per_s * self.history.smoothed_rtt() + FLIGHT_S * per_s + FLIGHT_DATAGRAMS;
        most.min(1e9) as usize
    }

    fn on_sent(&mut self, sent: u64) -> bool {
        let before = self.rate_bps();
        self.sent = sent as f64;
        self.rate_bps() != before
    }

    fn on_idle(&mut self) {
        self.capacity.on_idle(self.sent);
    }

    fn on_report(&mut self, report: ReportSeen<'_>) {
        let ReportSeen { now, rtt, marks, is_limited, has_messages } = report;
        self.spares_queue = has_messages;
        // While rivals fill the queue there is no empty one to be seen.
        self.history.set_forgets(self.mode != Mode::Compete && !self.question.is_open());
        if let Some(rtt) = rtt {
            self.history.on_rtt(now, rtt.as_secs_f64());
            if let Some(newest) = marks.last() {
                self.history.on_clock(now, rtt.as_secs_f64(), newest);
            }
        }
        let path_loss = (!self.upper_bound.is_known()).then_some(self.path_loss.share);
        self.history.on_marks(marks, path_loss);
        let Some(last) = self.history.last() else { return };
        if last.delay_s < self.history.base() + 0.25 * self.target_s() {
            self.ebb.low_at = now;
        }
        if self.mode == Mode::Run && !is_limited {
            self.follow_fall();
        }
        match self.mode {
            Mode::Train => self.judge_train(),
            Mode::Compete => self.compete(now),
            Mode::Push => self.judge_push(now),
            Mode::Start | Mode::Run | Mode::Ebb if last.sent < self.round.end => {}
            Mode::Start => self.judge_start(now, is_limited),
            Mode::Run => self.judge_round(now, is_limited),
            Mode::Ebb => self.judge_ebb(now, is_limited),
        }
        self.rivals.on_report(now);
        if matches!(self.mode, Mode::Run | Mode::Ebb | Mode::Push | Mode::Compete) {
            self.judge_later_train();
        }
        self.longer_path.judge(&mut self.history, self.path_loss.share);
        // In the start nobody knows yet whose a loss is.
        let is_known = !matches!(self.mode, Mode::Train | Mode::Start);
        self.account.note(&self.history, is_known.then_some(self.path_loss.share));
        self.set_rate();
    }

    fn steady_bps(&self) -> u64 {
        self.within_bounds(self.rate_bps)
    }

    fn stats(&self) -> RateControlStats {
        self.account_stats()
    }
}

#[cfg(test)]
mod tests;
