//! The start (\[auto-6\]): half of what the train promised, and then the rest, as long as that neither queues nor is lost.

use dfcp_time::Time;

use super::capacity::TRAIN;
use super::history::Span;
use super::path_loss::{self, PATH_LOSS_MAX};
use super::{Mode, RateControl, WINDOW_MIN, steady, target};

/// A round is this part of a window.
pub(super) const ROUND_PART: f64 = 0.25;
/// The path is full when the least delay exceeds the target by this part of a round trip, when more is sent than it takes, or
/// when this much more is lost than the first round lost.
const FULL_LEAST_PART: f64 = 0.05;
const FULL_MOST_PART: f64 = 0.3;
const OVERLOAD: f64 = 0.1;
const OVERLOAD_MOST_PART: f64 = 0.01;
const LOSS_MORE: f64 = 0.1;
/// Its losses beyond the path's own look like bursts, which count for no more than this.
const BURSTINESS_MAX: f64 = 2.0;
/// Of shorter round trips these parts say nothing, seconds.
const ROUND_TRIP_MIN_S: f64 = 0.02;
/// It goes up to this part of the train's capacity, doubling, or by a fifth beyond it.
const CAPACITY_PART: f64 = 0.95;
const BEYOND: f64 = 1.2;
const ENOUGH_PART: f64 = 0.84;
/// It falls to what arrived, and not below this part.
const FALL_MIN: f64 = 0.3;
/// So many datagrams of the first rounds tell it.
const LEARNT_DATAGRAMS: f64 = 48.0;
/// An unknown capacity has been found once this many datagrams or more arrive only this much faster at twice the rate.
const STALL_DATAGRAMS: f64 = 64.0;
const STALL_GROWTH: f64 = 1.3;
/// A hint counts for this part. The train is judged only once this many datagrams behind it are known: its queue then drains more
/// slowly.
pub(super) const HINT_PART: f64 = 0.5;
pub(super) const HINT_BEHIND: f64 = 2.0 * TRAIN;
/// A train that lost by this much more than what followed found a full queue.
const TRAIN_LOSS_MORE: f64 = 0.2;

impl RateControl {
    pub(super) fn begin_start(&mut self) {
        self.mode = Mode::Start;
        self.path_loss.base_at_start = self.history.base();
        self.first_rounds = None;
        self.start_per_s = 0.0;
        self.begin_round(ROUND_PART);
    }

    pub(super) fn judge_start(&mut self, now: Time, is_limited: bool) {
        let Some(seen) = self.observe() else { return };
        let rtt_s = self.history.rtt();
        let part_s = rtt_s.max(ROUND_TRIP_MIN_S);
        let target_s = self.target_s();
        let loses = self.first_rounds.is_some_and(|first| {
            let burstiness = self.history.burstiness().min(BURSTINESS_MAX);
            let doubt = |sent| path_loss::doubt(first.loss, sent, burstiness);
            let doubt = doubt(seen.sent) + doubt(first.sent);
            seen.loss > first.loss + LOSS_MORE + doubt
        });
        let is_full = seen.queue_least_s > target_s + FULL_LEAST_PART * part_s
            || seen.overload > OVERLOAD && seen.queue_most_s > target_s + OVERLOAD_MOST_PART * part_s
            || seen.queue_most_s > target_s + FULL_MOST_PART * part_s && seen.queue_least_s > 0.1 * rtt_s
            || loses
            || self.lost_more_than_train(seen)
            || self.capacity.per_s() <= 0.0 && !is_limited && self.stalls(seen);
        if !is_full && !self.path_loss.is_busy && self.first_rounds.is_none() {
            self.learn_from_start();
        }
        let capacity = self.capacity.per_s() * rtt_s;
        // An application that sends little finds no end of the path.
        let is_over = capacity <= 0.0 && is_limited;
        if is_full || self.path_loss.is_busy {
            let arrived = seen.arrivals_per_s / (1.0 - self.path_loss.share) * rtt_s;
            self.window = self.window.min(arrived).max(FALL_MIN * self.window).max(WINDOW_MIN);
        } else if is_over {
            self.window = self.window.max(self.limited_window(seen.passed_per_s));
        } else if capacity <= 0.0 || self.window < ENOUGH_PART * capacity {
            let most =
                if capacity > 0.0 { (CAPACITY_PART * capacity).max(BEYOND * self.window) } else { f64::INFINITY };
            self.window = (2.0 * self.window).min(most);
            self.begin_round(ROUND_PART);
            return;
        }
        if capacity <= 0.0 && !is_limited && !self.path_loss.is_busy {
            self.capacity.at_least(seen.arrivals_per_s / (1.0 - self.path_loss.share));
        }
        self.judged = None;
        self.mode = Mode::Run;
        let own = target::share(self.capacity.per_s(), self.per_s());
        self.is_alone = !self.path_loss.is_busy && own > steady::ALONE_SHARE;
        self.begin_watching_base(now);
        self.begin_round(steady::ROUND_PART);
    }

    /// More is lost behind the train than of it, by more than chance, and there is a queue.
    fn lost_more_than_train(&self, seen: Span) -> bool {
        let (known, loss) = self.capacity.first_known;
        let doubt = self.doubt(seen.loss, known) + self.doubt(seen.loss, seen.sent);
        self.first_rounds.is_none() && seen.loss > loss + doubt && seen.queue_least_s > self.flat_s()
    }

    /// Twice as much is sent, and hardly more arrives.
    fn stalls(&mut self, seen: Span) -> bool {
        let before_per_s = std::mem::replace(&mut self.start_per_s, seen.arrivals_per_s);
        seen.sent >= STALL_DATAGRAMS && seen.arrivals_per_s < STALL_GROWTH * before_per_s
    }

    /// The path was not full: what it lost is its own, unless the train lost far more, which a full queue does to trains. What is lost
    /// at higher rates afterwards does not count: it may be ours.
    fn learn_from_start(&mut self) {
        let Some(all) = self.history.span(self.capacity.end(), f64::INFINITY) else { return };
        if all.sent >= LEARNT_DATAGRAMS {
            self.first_rounds = Some(all);
        }
        let chance = self.doubt(self.capacity.first_loss, TRAIN);
        if self.capacity.first_loss > all.loss + TRAIN_LOSS_MORE + chance {
            self.path_loss.is_busy = true;
        } else {
            self.path_loss.share = all.loss.min(PATH_LOSS_MAX);
            self.capacity.forgive_first(chance);
        }
    }
}
