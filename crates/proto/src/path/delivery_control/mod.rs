//! An automatic rate that is judged by delivery.
//!
//! [`PathModel`](model::PathModel) estimates; [`law`](law::law) alone writes the window; [`experiment`]s leave
//! [`Beliefs`](law::Beliefs), each with an end.
//!
//! | phase | event | next |
//! |---|---|---|
//! | train | arrived | start, with half of its promise or less |
//! | start | delivery follows | start, twice as fast up to the promise, then by steps |
//! | start | delivery falls behind, a queue, or more loss than at lower rates | steady, at what was delivered |
//! | steady | more loss than the path's own, short queue | loss probe, after a control arm |
//! | steady | short queue, pause over | probe up |
//! | steady | no short queue for long, or an overflow of a shared path | drain |
//! | loss probe | as much arrives at half the rate, or less is lost | ceiling at the delivery, for a time |
//! | loss probe | as much is lost | that is the path's own loss |
//! | probe up | delivery follows | faster |
//! | steady | the least delay has fallen, path not alone | drain, and again as long as it falls |
//! | steady | queue far above its target for long | push: more for some round trips |
//! | push | three times others made no room | compete: the window of a flow of CUBIC |
//! | compete | queue short, or eight events | steady |
//!
//! [`Company`](company::Company) says when a path is not taken for full of others any more.

mod account;
mod company;
mod experiment;
mod law;
mod marks;
mod model;
mod params;
mod rivals;
mod start;
mod steady;

use std::time::Duration;

use dfcp_time::Time;

use self::account::Account;
use self::company::{Company, Passed};
use self::experiment::Experiment;
use self::law::{Beliefs, Step, law, target_s};
use self::marks::Span;
use self::model::PathModel;
use self::params::P;
use self::rivals::Rivals;
use self::start::Start;
use self::steady::Schedule;
use crate::config::controller::{PathStart, RateController, RateControllerFactory, ReportSeen};
use crate::config::{PathHint, Policy};
use crate::path::hint::ProvenRate;
use crate::stats::{RateControlStats, RatePhase};

/// Least rate, bit/s.
const RATE_MIN_BPS: f64 = 8_000.0;

/// A window up to this factor of the configured minimum is held up by it.
const HELD_UP: f64 = 1.01;

/// Factory of controllers that are judged by delivery.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryControllers;

impl RateControllerFactory for DeliveryControllers {
    fn begin(&self, path: PathStart) -> Box<dyn RateController> {
        Box::new(DeliveryControl::new(path))
    }
}

/// The controller of one path's rate.
#[derive(Debug)]
struct DeliveryControl {
    policy: Policy,
    datagram_bits: f64,
    max_bps: f64,
    /// The configured minimum; 0 is none.
    floor_bps: f64,
    model: PathModel,
    beliefs: Beliefs,
    /// Datagrams per least round trip; written by [`Self::apply`] alone.
    window: f64,
    /// Datagrams per second.
    per_s: f64,
    sent: f64,
    now_s: f64,
    /// Round trip of the handshake, seconds.
    handshake_rtt_s: f64,
    /// Numbers of the train that is on its way: behind the first, up to the second.
    train: (f64, f64),
    /// The application had nothing to send in the middle of it: it is no train.
    is_train_limited: bool,
    /// The last datagram that repays it.
    repaid: f64,
    /// Numbers of the present round.
    round: (f64, f64),
    experiment: Option<Experiment>,
    /// `None` in the steady phase.
    start: Option<Start>,
    schedule: Schedule,
    company: Company,
    rivals: Rivals,
    account: Account,
    /// Messages with deadlines are on their way.
    spares_queue: bool,
    now: Time,
    proven: ProvenRate,
}

impl DeliveryControl {
    fn new(path: PathStart) -> Self {
        let sent = path.sent as f64;
        let now_s = path.now.as_ns() as f64 / 1e9;
        let mut model = PathModel::default();
        model.on_rtt(now_s, path.rtt.as_secs_f64());
        let train = (sent, sent + P.train);
        model.set_train(train);
        let mut control = Self {
            policy: path.policy,
            datagram_bits: path.datagram_bytes as f64 * 8.0,
            max_bps: path.max_bps.map_or(f64::INFINITY, |bps| bps as f64),
            floor_bps: 0.0,
            model,
            beliefs: Beliefs::default(),
            window: P.train,
            per_s: 0.0,
            sent,
            now_s,
            handshake_rtt_s: path.rtt.as_secs_f64(),
            train,
            is_train_limited: false,
            repaid: train.1,
            round: (sent, f64::INFINITY),
            experiment: None,
            start: Some(Start::default()),
            schedule: Schedule::new(now_s),
            company: Company::default(),
            rivals: Rivals::new(path.now),
            account: Account::default(),
            spares_queue: false,
            now: path.now,
            proven: ProvenRate::new(path.now),
        };
        if let Some(hint_bps) = path.hint_bps {
            let hinted = 0.5 * hint_bps as f64 / control.datagram_bits * control.model.rtt_s();
            control.apply(Step::Set(hinted.max(P.train)));
        }
        control.set_rate();
        control
    }

    /// The only writer of the window.
    fn apply(&mut self, step: Step) {
        let target_s = self.target_s();
        self.window = law(&self.model, &self.beliefs, target_s, self.window, step);
    }

    fn target_s(&self) -> f64 {
        target_s(&self.model, &self.beliefs, self.policy, self.window)
    }

    fn set_rate(&mut self) {
        // Traffic that the floor has sent is judged as such: a window of that size.
        let floor_per_s = self.floor_bps / self.datagram_bits;
        if self.window < floor_per_s * self.model.rtt_s() {
            self.apply(Step::Set(floor_per_s * self.model.rtt_s()));
        }
        self.per_s = self.found_per_s().max(floor_per_s);
        self.model.set_interval_s(1.0 / self.per_s);
    }

    /// The minimum holds the window up: no experiment can send less, so losses tell nothing.
    fn is_held_up(&self) -> bool {
        self.window <= HELD_UP * self.floor_bps / self.datagram_bits * self.model.rtt_s()
    }

    /// Rate of the window, without the configured minimum, datagrams per second.
    fn found_per_s(&self) -> f64 {
        let rtt_s = self.model.rtt_s();
        self.window / (rtt_s + self.model.queue_s(self.window / rtt_s))
    }

    /// Rate of the next datagram, datagrams per second.
    fn present_per_s(&self) -> f64 {
        let usual = if self.is_repaying() { P.repays * self.per_s } else { self.per_s };
        self.experiment.filter(|it| self.sent < it.until).map_or(usual, |it| it.per_s)
    }

    fn is_train(&self) -> bool {
        self.sent < self.train.1
    }

    /// A later train has been sent before its time: as many datagrams behind it leave more slowly, so that its queue
    /// drains.
    fn is_repaying(&self) -> bool {
        self.sent < self.repaid
    }

    fn within_bounds(&self, per_s: f64) -> u64 {
        let least_bps = self.floor_bps.max(RATE_MIN_BPS);
        (per_s * self.datagram_bits).clamp(least_bps, self.max_bps.max(least_bps)) as u64
    }

    fn begin_train(&mut self, datagrams: f64) {
        self.train = (self.sent, self.sent + datagrams);
        self.is_train_limited = false;
        let repays = if self.start.is_none() { P.repays / (1.0 - P.repays) } else { 0.0 };
        self.repaid = self.sent + datagrams * (1.0 + repays);
        self.model.set_train(self.train);
    }

    /// Begins a round without an experiment.
    fn begin_round(&mut self) {
        self.set_rate();
        let train = (self.repaid - self.sent).max(0.0);
        let gaps = P.round_gaps * self.model.gap_s() * self.per_s;
        let least = if self.start.as_ref().is_some_and(Start::has_lost) { P.start_min } else { P.round_min };
        let count = train + (P.round_part * self.window).max(least).max(gaps);
        self.round = (self.sent, self.sent + count.floor());
        self.experiment = None;
    }

    /// Ends the present round, and decides from what it measured. `is_limited` means that the application had nothing
    /// to send meanwhile.
    fn judge(&mut self, is_limited: bool) {
        let until = self.experiment.map_or(f64::INFINITY, |it| it.until);
        let settles = self.experiment.map_or(0.0, |it| P.settles * (it.until - self.round.0));
        let from = self.round.0 + settles;
        let from = if self.round.0 < self.repaid { from.max(self.repaid) } else { from };
        let Some(seen) = self.model.span(from, until).filter(|seen| seen.sent >= 3.0) else {
            // Reports told too little: the round goes on.
            self.round.1 = self.sent + (self.round.1 - self.round.0).max(P.round_min);
            if let Some(it) = &mut self.experiment {
                it.until = self.round.1;
            }
            return;
        };
        self.model.on_round(self.now_s, &seen, is_limited);
        let rtts = self.schedule.on_round(self.now_s, &self.model, &mut self.beliefs);
        if self.start.is_some() {
            self.judge_start(&seen, is_limited);
        } else {
            let passed = Passed { rtts, loss: self.schedule.loss(), spread: self.schedule.spread() };
            let fell_s = self.company.on_round(self.now_s, &self.model, passed);
            // The queue at an overflow was longer than it seemed.
            self.beliefs.limit_s += P.limit_part * fell_s;
            self.judge_steady(&seen, is_limited);
            if !is_limited {
                self.bound_by_delivery(&seen);
            }
            self.spare_queue();
            if self.experiment.is_none() && self.rivals.is_following() {
                self.begin_round();
            }
        }
    }

    /// No rate exceeds twice the delivery.
    fn bound_by_delivery(&mut self, seen: &Span) {
        let queue_s = self.queue_of(seen);
        let most = P.exceeded * self.model.delivery() / (1.0 - self.beliefs.own_loss);
        self.apply(Step::AtMost(most * (1.0 + queue_s / self.model.rtt_s())));
    }

    /// Messages with deadlines are on their way, whose time a queue takes: the window leaves a part of the path.
    fn spare_queue(&mut self) {
        if let Some(per_s) = self.spared_per_s() {
            self.apply(Step::AtMost(per_s));
        }
    }

    /// Greatest rate that makes no queue; `None` if it is not wanted, or not known.
    fn spared_per_s(&self) -> Option<f64> {
        let is_known = self.spares_queue && self.company.is_alone && self.model.train_per_s > 0.0;
        is_known.then(|| P.spares * law::capacity(&self.model, &self.beliefs))
    }

    /// Queueing delay of a round, seconds.
    fn queue_of(&self, seen: &Span) -> f64 {
        let base_s = self.model.base_s(seen.sent_per_s()).unwrap_or(seen.low_s);
        (seen.low_s - base_s).max(0.0)
    }

    /// Part of the capacity that the window takes; 0 while no train has told it: one's own delivery is always all of
    /// itself.
    fn share(&self) -> f64 {
        if self.model.train_per_s <= 0.0 {
            return 0.0;
        }
        self.window / self.model.rtt_s() / law::capacity(&self.model, &self.beliefs).max(1e-9)
    }
}

impl RateController for DeliveryControl {
    fn rate_bps(&self) -> Option<u64> {
        if self.is_train() {
            return (self.max_bps < f64::INFINITY).then(|| self.within_bounds(f64::INFINITY));
        }
        Some(self.within_bounds(self.present_per_s()))
    }

    fn steady_bps(&self) -> u64 {
        self.within_bounds(self.per_s)
    }

    fn in_flight_max(&self) -> usize {
        let most = if self.start.as_ref().is_some_and(Start::is_first_train) {
            (self.train.1 - self.train.0 + P.train + 4.0).max(1.2 * self.window)
        } else {
            let per_s = self.present_per_s().max(self.per_s);
            1.2 * per_s * self.model.smoothed_rtt_s() + 0.003 * self.per_s + P.train + 4.0
        };
        most.min(1e9) as usize
    }

    fn on_sent(&mut self, sent: u64) -> bool {
        let paces = |it: &Self| {
            (it.is_train(), it.is_repaying(), it.experiment.is_some_and(|experiment| it.sent < experiment.until))
        };
        let before = paces(self);
        self.sent = sent as f64;
        before != paces(self)
    }

    fn on_idle(&mut self) {
        self.is_train_limited |= self.train.0 < self.sent && self.is_train();
    }

    fn on_report(&mut self, report: ReportSeen<'_>) {
        let ReportSeen { now, rtt, marks, is_limited, has_messages } = report;
        self.spares_queue = has_messages;
        (self.now, self.now_s) = (now, now.as_ns() as f64 / 1e9);
        self.model.set_keeps_base(self.rivals.keeps_base());
        if let Some(rtt) = rtt {
            if self.model.marks.last().is_none() {
                self.model.forget_rtts();
            }
            self.model.on_rtt(self.now_s, rtt.as_secs_f64());
            if let Some(newest) = marks.last() {
                self.model.on_clock(now, rtt.as_secs_f64(), newest);
            }
        }
        self.model.on_marks(marks);
        let Some(last) = self.model.marks.last() else { return };
        if self.start.as_ref().is_some_and(Start::is_first_train) {
            self.judge_first_train(last.sent);
        } else {
            self.judge_later_train(last.sent);
            if !self.rivals.is_following() {
                self.face_rivals();
            } else if last.sent >= self.round.1 {
                self.judge(is_limited);
            }
        }
        self.rivals.on_report(now);
        // In the start nobody knows yet whose a loss is.
        if self.start.is_none() {
            self.account.note(&self.model, self.beliefs.own_loss, law::capacity(&self.model, &self.beliefs));
        }
        self.set_rate();
    }

    fn on_proven(&mut self, now: Time, bytes: u64) {
        self.proven.on_proven(now, bytes);
    }

    fn set_policy(&mut self, policy: Policy, max_bps: Option<u64>) {
        self.policy = policy;
        self.max_bps = max_bps.map_or(f64::INFINITY, |bps| bps as f64);
    }

    fn set_floor(&mut self, floor_bps: u64) {
        let floor_bps = floor_bps as f64;
        if self.floor_bps == floor_bps {
            return;
        }
        // A window which only the old floor held up comes down with it.
        if self.floor_bps > floor_bps && self.found_per_s() * self.datagram_bits <= self.floor_bps {
            self.apply(Step::AtMost(self.model.delivery()));
        }
        self.floor_bps = floor_bps;
        self.set_rate();
    }

    fn set_datagram_bytes(&mut self, datagram_bytes: u64) {
        let factor = self.datagram_bits / (datagram_bytes as f64 * 8.0);
        self.datagram_bits = datagram_bytes as f64 * 8.0;
        self.model.scale(factor);
        self.beliefs.ceiling_per_s *= factor;
        self.rivals.scale(factor);
        self.apply(Step::Times(factor));
        self.set_rate();
    }

    fn has_not_begun(&self) -> bool {
        self.start.as_ref().is_some_and(Start::is_first_train) && self.is_train()
    }

    fn finds_at_most(&self, bps: u64) -> bool {
        self.found_per_s() * self.datagram_bits <= bps as f64
    }

    fn hint(&self) -> Option<PathHint> {
        let rate_bps = self.steady_bps().min(self.proven.best_bps);
        (rate_bps > 0).then(|| PathHint { rate_bps, rtt: Duration::from_secs_f64(self.model.rtt_s().clamp(0.0, 1e3)) })
    }

    fn stats(&self) -> RateControlStats {
        let capacity = law::capacity(&self.model, &self.beliefs) * self.datagram_bits;
        let judged = self.account.judged();
        RateControlStats {
            phase: match (&self.start, self.rivals.is_competing()) {
                (Some(_), _) => RatePhase::Start,
                (None, true) => RatePhase::Compete,
                (None, false) => RatePhase::Steady,
            },
            rate_bps: self.steady_bps(),
            capacity_bps: (capacity > 0.0).then_some(capacity as u64),
            target_queue: Duration::from_secs_f64(self.target_s().clamp(0.0, 1e3)),
            path_loss: self.beliefs.own_loss,
            datagrams_judged: judged.sent as u64,
            datagrams_lost: judged.lost as u64,
            datagrams_lost_in_queue: judged.lost_in_queue as u64,
        }
    }
}

#[cfg(test)]
mod tests;
