//! One round after the other (\[auto-2\]): the window goes by the queueing delay, and asks whose a loss is.

use dfcp_time::Time;

use super::capacity::TRAIN;
use super::history::Span;
use super::{RateControl, WINDOW_MIN, target};
use crate::config::Policy;

/// A round is this part of a window.
pub(super) const ROUND_PART: f64 = 0.4;
/// Part of the way to its target that a round takes the queue, and the largest step.
const GAIN: f64 = 0.6;
const STEP_MAX: f64 = 0.5;
/// With an empty queue the window grows by this at least, to this part of the capacity, by at most the one or the other: among
/// others all of them see the same empty queue.
const IDLE_STEP: f64 = 0.03;
const CAPACITY_PART: f64 = 0.95;
const IDLE_STEP_MAX: f64 = 0.5;
const IDLE_STEP_MAX_AMONG_OTHERS: f64 = 0.05;
/// A window that uses this part of the capacity when the queue is at its target is alone.
pub(super) const ALONE_SHARE: f64 = 0.85;
/// No window exceeds the capacity by more.
const CAPACITY_EXCEEDED: f64 = 1.25;
/// An application that sends little has room for this many times what passes of it, and for a first train in a round trip: it may have more
/// to send at once, and what is to be sent with it depends on what there is room for.
const LIMITED_GROWTH: f64 = 3.0;
/// Beside messages of its own, whose time a queue takes, a window that has the path for itself uses no more than this part of the capacity.
const SPARING_PART: f64 = 0.95;
/// A step down of more than this makes losses from before it no matter.
const FALL_STEP: f64 = -0.05;
/// The path carries less if the queue exceeds its target by this, and so little of the rate arrives.
const FELL_QUEUE_PART: f64 = 0.25;
const FELL_QUEUE_S: f64 = 0.005;
const FELL_RATE_PART: f64 = 0.5;

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
        let round_trips = now.since(self.judged_at).as_secs_f64() / self.history.smoothed_rtt();
        self.judged_at = now;
        self.target.relax(round_trips);
        self.upper_bound.relax(round_trips, self.per_s());
        if is_excess {
            if all.queue_most_s > 0.5 * self.history.top() {
                self.target.on_overflow(self.history.top());
            }
            if seen.queue_least_s > target_s || sees_queue {
                self.window *= 1.0 - excess.clamp(0.0, STEP_MAX);
                self.judged = None;
            } else if now >= self.ebb.may_ask_at {
                self.begin_ebb(Some(all));
                return;
            }
        }
        if self.is_loss_to_verify(now, all) {
            self.begin_ebb(Some(all));
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
        self.is_alone |= self.path_loss.note_flat(&self.history, round_trips, self.capacity.time_s(TRAIN));
        self.follow_base(now);
        let rates_per_s = (self.per_s(), self.capacity.per_s());
        if !is_held_up {
            self.longer_path.note(&self.history, seen, target_s, self.sent, rates_per_s);
        }
        if self.policy != Policy::Low && !is_limited && self.ask(now, seen.queue_least_s) {
            return;
        }
        if self.is_ebb_due(now) {
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
            let capacity_per_s = self.capacity.per_s();
            let room =
                if capacity_per_s > 0.0 { CAPACITY_PART * capacity_per_s / self.per_s() - 1.0 } else { f64::INFINITY };
            let room = room.max(IDLE_STEP);
            step = step.max(room.min(if self.is_alone { IDLE_STEP_MAX } else { IDLE_STEP_MAX_AMONG_OTHERS }));
        }
        if is_limited && step > 0.0 {
            let most = self.limited_window(seen.passed_per_s);
            self.window = self.window.max(most.min(self.window * (1.0 + step) + GAIN));
        } else {
            // Of a small window a part is little, and a round long.
            let more = (1.0 - queue_s / target_s).max(0.0);
            self.window += (step * self.window).max(if step > 0.0 { GAIN * more } else { f64::NEG_INFINITY });
        }
        if step < FALL_STEP {
            self.judged = None;
        }
    }

    /// The window of an application whose datagrams pass at `passed_per_s`: the effect of more is unknown (\[auto-16\]).
    pub(super) fn limited_window(&self, passed_per_s: f64) -> f64 {
        (LIMITED_GROWTH * passed_per_s * self.history.rtt()).max(TRAIN)
    }

    fn bound_window(&mut self) {
        if self.capacity.per_s() > 0.0 {
            let part = if self.spares_queue && self.is_alone { SPARING_PART } else { CAPACITY_EXCEEDED };
            self.window = self.window.min(part * self.capacity.per_s() * self.history.rtt());
        }
        self.window = self.window.min(self.upper_bound.per_s() * self.history.rtt()).max(WINDOW_MIN);
    }
}
