//! One round after the other (\[auto-2\]): the window goes by the queueing delay, and asks whose a loss is.

use std::time::Duration;

use dfcp_time::Time;

use super::history::Span;
use super::path_loss::PATH_LOSS_MAX;
use super::{Mode, RateControl, WINDOW_MIN, target};
use crate::config::Policy;

/// A round is this part of a window.
pub(super) const ROUND_PART: f64 = 0.4;
/// How much of the way to its target a round takes the queue, and the largest step.
const GAIN: f64 = 0.6;
const STEP_MAX: f64 = 0.5;
/// With an empty queue the window grows by this at least, to this part of the capacity, by at most the one or the other: among
/// others all of them see the same empty queue.
const IDLE_STEP: f64 = 0.03;
const CAPACITY_PART: f64 = 0.95;
const IDLE_STEP_MAX: f64 = 0.5;
const IDLE_STEP_MAX_AMONG_OTHERS: f64 = 0.05;
/// A window that uses this part of the capacity when the queue is at its target is alone.
const ALONE_SHARE: f64 = 0.8;
/// No window exceeds the capacity by more.
const CAPACITY_EXCEEDED: f64 = 1.25;
/// A step down of more than this makes losses from before it no matter.
const FALL_STEP: f64 = -0.05;
/// The path carries less if the queue exceeds its target by this, and so little of the rate arrives.
const FELL_QUEUE_PART: f64 = 0.25;
const FELL_QUEUE_S: f64 = 0.005;
const FELL_RATE_PART: f64 = 0.5;
/// An ebb: half the rate for half a window. It is due once the base was not seen for this long.
pub(super) const EBB_PART: f64 = 0.5;
const EBB_WINDOW_PART: f64 = 0.5;
const EBB_DATAGRAMS_MIN: f64 = 8.0;
/// The first part of it still shows what was before.
const EBB_SETTLES_PART: f64 = 0.1;
const EBB_AFTER_S: f64 = 5.0;
const EBB_AFTER_ROUND_TRIPS: f64 = 40.0;
/// Less is lost at half the rate by this: the loss was ours.
const EBB_FALL: f64 = 0.015;
/// Half of a smaller share than this makes little difference to a full path, so that its answer counts for less.
const DECISIVE_SHARE: f64 = 0.3;
const UNDECIDED_WEIGHT: f64 = 0.25;
/// A greater loss of the path is verified as often as an ebb is due.
const VERIFIED_LOSS: f64 = 0.03;
const ASK_PAUSE_ROUND_TRIPS: f64 = 4.0;
/// A queue below half of this says nothing of where it ends: seconds, or datagrams.
const TOP_MIN_S: f64 = 0.002;
const TOP_MIN_DATAGRAMS: f64 = 4.0;

/// Half the rate for a while.
#[derive(Debug)]
pub(super) struct Ebb {
    /// The last datagram of it.
    pub(super) end: f64,
    /// What was lost before, if that is the question.
    asked_loss: Option<f64>,
    may_ask_at: Time,
    /// When to see whether what is taken for the path's own loss is not ours.
    verify_at: Time,
    /// When the queue was nearly empty last.
    pub(super) low_at: Time,
}

impl Ebb {
    pub(super) fn new(now: Time) -> Self {
        Self { end: 0.0, asked_loss: None, may_ask_at: now, verify_at: now, low_at: now }
    }
}

impl RateControl {
    pub(super) fn judge_round(&mut self, now: Time, is_limited: bool) {
        let Some(seen) = self.observe() else { return };
        let all = self.judged.and_then(|judged| self.history.since(judged)).unwrap_or(seen);
        self.judged = self.history.last();
        let target_s = self.target_s();
        let is_held_up = std::mem::take(&mut self.is_held_up);
        let sees_queue = is_held_up || self.path_loss.learn(&self.history, self.capacity.per_s());
        let doubt = self.doubt(self.path_loss.share, all.sent);
        let (excess, is_excess) = self.path_loss.excess(all.loss, doubt);
        self.path_loss.fall(all.loss, doubt);
        self.target.relax();
        if is_excess {
            if all.queue_most_s > 0.5 * self.history.top() {
                self.target.on_overflow(all.queue_most_s);
            }
            if seen.queue_least_s > target_s || sees_queue {
                self.window *= 1.0 - excess.clamp(0.0, STEP_MAX);
                self.judged = None;
            } else if now >= self.ebb.may_ask_at {
                self.begin_ebb(Some(all.loss));
                return;
            }
        }
        if self.path_loss.share > VERIFIED_LOSS && now >= self.ebb.verify_at && all.sent >= EBB_DATAGRAMS_MIN {
            self.begin_ebb(Some(all.loss));
            return;
        }
        let is_idle = seen.queue_least_s < 0.5 * target_s
            && seen.queue_most_s < target_s.max(0.02 * self.history.rtt())
            && !is_excess;
        self.take_step(seen, target_s, (is_idle, is_limited));
        if !is_excess && self.capacity.per_s() > 0.0 {
            self.capacity.at_least(seen.passed_per_s);
        }
        self.bound_window();
        self.path_loss.note_base(&self.history);
        let rates_per_s = (self.per_s(), self.capacity.per_s());
        if !is_held_up {
            self.longer_path.note(&self.history, seen, target_s, self.sent, rates_per_s);
        }
        if self.policy != Policy::Low && !is_limited && self.ask(now, seen.queue_least_s) {
            return;
        }
        if now.since(self.ebb.low_at).as_secs_f64() > self.ebb_after_s() {
            self.begin_ebb(None);
            return;
        }
        if !is_limited {
            self.send_later_train(now, is_idle);
        }
        self.begin_round(ROUND_PART);
    }

    /// A path that was ours carries far less than before: what arrives is the new window at once. A round of the old one would take too long.
    pub(super) fn follow_fall(&mut self) {
        let (rtt_s, own) = (self.history.rtt(), 1.0 - self.path_loss.share);
        let queue_s = self.history.queue_lately(rtt_s);
        if !self.is_alone || queue_s < self.target_s() + FELL_QUEUE_PART * rtt_s + FELL_QUEUE_S {
            return;
        }
        let arrives_per_s = self.history.rate_lately(rtt_s + queue_s) / own;
        if arrives_per_s > 0.0 && arrives_per_s < FELL_RATE_PART * self.per_s() * rtt_s / (rtt_s + queue_s) {
            self.window = (arrives_per_s * rtt_s).max(WINDOW_MIN);
            self.judged = None;
            self.begin_round(ROUND_PART);
        }
    }

    fn take_step(&mut self, seen: Span, target_s: f64, (is_idle, is_limited): (bool, bool)) {
        let (rtt_s, queue_s) = (self.history.rtt(), seen.queue_least_s);
        let mut step = (GAIN * (target_s - queue_s) / (rtt_s + queue_s)).clamp(-STEP_MAX, STEP_MAX);
        if queue_s > 0.5 * target_s {
            self.is_alone = target::share(self.capacity.per_s(), self.per_s()) > ALONE_SHARE;
        }
        if is_idle {
            let room = (CAPACITY_PART * self.capacity.per_s() / self.per_s() - 1.0).max(IDLE_STEP);
            step = step.max(room.min(if self.is_alone { IDLE_STEP_MAX } else { IDLE_STEP_MAX_AMONG_OTHERS }));
        }
        if step < 0.0 || !is_limited {
            self.window *= 1.0 + step;
        }
        if step < FALL_STEP {
            self.judged = None;
        }
    }

    fn bound_window(&mut self) {
        if self.capacity.per_s() > 0.0 {
            self.window = self.window.min(CAPACITY_EXCEEDED * self.capacity.per_s() * self.history.rtt());
        }
        self.window = self.window.max(WINDOW_MIN);
    }

    // ---- ebb ----

    fn ebb_after_s(&self) -> f64 {
        EBB_AFTER_S.max(EBB_AFTER_ROUND_TRIPS * self.history.rtt())
    }

    /// Half the rate, to see whether less is lost then, or to let the queue drain: all flows in it come to that together.
    fn begin_ebb(&mut self, asked_loss: Option<f64>) {
        self.mode = Mode::Ebb;
        self.window = self.window.max(WINDOW_MIN);
        self.ebb.asked_loss = asked_loss;
        self.ebb.end = self.sent + (self.window * EBB_WINDOW_PART).max(EBB_DATAGRAMS_MIN).floor();
        self.round.from = self.sent;
        self.round.end = self.ebb.end;
    }

    pub(super) fn judge_ebb(&mut self, now: Time) {
        self.mode = Mode::Run;
        if let Some(seen) = self.history.span(self.round.from + self.window * EBB_SETTLES_PART, self.ebb.end) {
            self.judged = self.history.last();
            self.ebb.low_at = now;
            match self.ebb.asked_loss {
                Some(loss) => self.answer(now, loss, seen),
                None if seen.queue_least_s < self.target_s() => {
                    self.path_loss.share += 0.25 * (seen.loss - self.path_loss.share);
                }
                None => {}
            }
            self.window = self.window.max(WINDOW_MIN);
        }
        self.begin_round(ROUND_PART);
    }

    /// `loss` was lost before, and this was `seen` at half the rate.
    fn answer(&mut self, now: Time, loss: f64, seen: Span) {
        let fall = loss - seen.loss;
        let datagram_s = if self.capacity.per_s() > 0.0 { 1.0 / self.capacity.per_s() } else { 0.0 };
        let top_min_s = TOP_MIN_S.max(TOP_MIN_DATAGRAMS * datagram_s);
        if fall > EBB_FALL + self.doubt(loss, seen.sent) {
            self.window *= 1.0 - (1.5 * fall).clamp(0.0, 0.4);
            self.path_loss.share = self.path_loss.share.min(seen.loss);
        } else if !self.path_loss.is_busy && seen.queue_most_s < 0.5 * self.history.top().max(top_min_s) {
            let own = target::share(self.capacity.per_s(), self.per_s());
            let weight = if own < DECISIVE_SHARE { UNDECIDED_WEIGHT } else { 1.0 };
            self.path_loss.share += weight * ((0.5 * (seen.loss + loss)).min(PATH_LOSS_MAX) - self.path_loss.share);
        } else {
            self.window *= 1.0 - 0.5 * (loss - self.path_loss.share).clamp(0.0, 0.6);
            let doubt = self.doubt(loss, seen.sent);
            self.is_alone |= self.path_loss.note_same(loss, doubt);
        }
        self.ebb.verify_at = now + Duration::from_secs_f64(self.ebb_after_s());
        self.ebb.may_ask_at = now + Duration::from_secs_f64(ASK_PAUSE_ROUND_TRIPS * self.history.smoothed_rtt());
    }
}
