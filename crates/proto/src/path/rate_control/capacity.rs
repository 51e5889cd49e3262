//! Capacity of the path (\[auto-4\]), from trains: datagrams sent at once arrive as far apart as the bottleneck takes for each.

use std::time::Duration;

use dfcp_time::Time;

use super::history::{Point, Span};
use super::{RateControl, WINDOW_MIN};

/// Datagrams of the first train, and of later ones.
pub(super) const TRAIN: f64 = 16.0;
const LATER_TRAIN: f64 = 8.0;
/// Small windows send one only as long as they know no capacity: a shorter one, but not below this.
const LATER_TRAIN_MIN: f64 = 4.0;
/// A first train that arrives faster than the receiver's clock can tell is followed by one longer by this factor, up to a limit.
const TRAIN_GROWTH: f64 = 8.0;
const TRAIN_MAX: f64 = 1_024.0;
/// Later trains are longer where arrivals jitter, by what arrives in three times the jitter, and where reports tell too little of shorter
/// ones, up to these limits.
const JITTERS: f64 = 3.0;
const WINDOW_PART_MAX: f64 = 0.2;
const LATER_TRAIN_MAX: f64 = 64.0;
/// A path that loses more of it is full.
const FULL_LOSS: f64 = 0.7;
/// The first window, as a part of what the train promises: the second part if delays have been flat since the handshake, within this
/// part of a round trip or these seconds, and the third if they fall.
const START_PART: f64 = 0.25;
const FLAT_START_PART: f64 = 0.5;
const FALLING_START_PART: f64 = 1.0 / 16.0;
const FLAT_PART: f64 = 0.01;
const FLAT_S: f64 = 0.001;
/// Its queue has had the time to drain after this many times what that takes at the load behind it, which counts as no more than this.
const DRAIN_TIMES: f64 = 1.5;
const DRAIN_LOAD_MAX: f64 = 0.8;
/// A train that filled the queue lost only its end: at least this many datagrams behind the last known arrival, at least this share of
/// them, and this much more than what followed the train lost.
const TAIL_LOST_MIN: f64 = 6.0;
const TAIL_LOSS: f64 = 0.5;
const TAIL_LOSS_MORE: f64 = 0.2;
/// A train that waited for its application says something only if so much of the time that it took to arrive was made by the path.
const BURST_OVERLOAD: f64 = 0.5;
/// Datagrams of it which must have arrived to say anything.
const ARRIVED_MIN: f64 = 3.0;
/// A later train is sent once a second or in ten round trips, and at once when the queue is empty.
const PAUSE_S: f64 = 1.0;
const PAUSE_ROUND_TRIPS: f64 = 10.0;
/// The weight of what a later train says, and of one through an empty queue.
const WEIGHT: f64 = 0.5;
const WEIGHT_CLEAR: f64 = 0.9;
/// One train raises the capacity by this factor at most.
const RISE_MAX: f64 = 4.0;

/// The estimate, and the train which is under way.
#[derive(Debug)]
pub(super) struct Capacity {
    per_s: f64,
    /// The train: the datagrams after the first `from` up to number `end`.
    from: f64,
    end: f64,
    /// Factor for its rates, as datagrams have had another size since.
    train_factor: f64,
    is_repeated: bool,
    /// The newest mark when it was repeated.
    before: Option<Point>,
    /// The queue was empty when it was sent.
    is_clear: bool,
    /// The application had nothing to send in its midst.
    is_limited: bool,
    due: Option<Time>,
    /// Of the first train: datagrams that passed per second, and the share that did not arrive, until it is known why.
    first_passed_per_s: f64,
    /// Datagrams of the next one.
    later_train: f64,
    pub(super) first_loss: f64,
    /// Number of datagrams of it whose fate is known, and the share of them that was lost, its end included.
    pub(super) first_known: (f64, f64),
}

/// Verdict of the first train on the path.
#[derive(Clone, Copy, Debug)]
pub(super) enum FirstTrain {
    Known(Span),
    /// Another one is on its way.
    Again,
    /// A longer one is on its way.
    TooFast {
        datagrams: f64,
    },
    /// The application had too little to send: this many datagrams passed per second, or 0 if unknown, and the path may carry more.
    Limited {
        passed_per_s: f64,
    },
    /// Hardly anything of it arrived, or all of it at once.
    Unknown {
        is_lost: bool,
    },
}

impl Capacity {
    pub(super) fn new(sent: f64) -> Self {
        Self {
            per_s: 0.0,
            from: sent,
            end: sent + TRAIN,
            train_factor: 1.0,
            is_repeated: false,
            before: None,
            is_clear: false,
            is_limited: false,
            due: None,
            first_passed_per_s: 0.0,
            later_train: LATER_TRAIN,
            first_loss: 0.0,
            first_known: (0.0, 0.0),
        }
    }

    /// Datagrams become longer, by which fewer of them pass: `factor` times as many.
    pub(super) fn scale(&mut self, factor: f64) {
        self.per_s *= factor;
        self.first_passed_per_s *= factor;
        self.train_factor *= factor;
    }

    /// Datagrams per second; 0 while unknown.
    pub(super) fn per_s(&self) -> f64 {
        self.per_s
    }

    /// Seconds that the bottleneck takes for `datagrams`; 0 while that is unknown.
    pub(super) fn time_s(&self, datagrams: f64) -> f64 {
        if self.per_s > 0.0 { datagrams / self.per_s } else { 0.0 }
    }

    /// True if the next datagram belongs to a train.
    pub(super) fn is_train(&self, sent: f64) -> bool {
        sent < self.end
    }

    pub(super) fn end(&self) -> f64 {
        self.end
    }

    /// Verdict of the first train, whose arrivals are `seen`. `loss` is the share lost of everything up to the arrivals behind it.
    pub(super) fn on_first(&mut self, seen: Option<Span>, loss: f64, sent: f64) -> FirstTrain {
        if seen.map_or(loss, |train| train.loss) > FULL_LOSS && !self.is_repeated {
            // By chance, or because the path is full: the next one tells.
            self.is_repeated = true;
            self.begin_train(sent, TRAIN);
            return FirstTrain::Again;
        }
        if let Some(train) = seen.filter(Self::suffices) {
            if self.is_too_slow(&train) {
                return FirstTrain::Limited { passed_per_s: train.passed_per_s * self.train_factor };
            }
            // Datagrams lost elsewhere took their time on the bottleneck; those that found its queue full did not. Until it is
            // known which, the lower rate counts.
            self.per_s = train.arrivals_per_s * self.train_factor;
            self.first_passed_per_s = train.passed_per_s * self.train_factor;
            self.first_loss = train.loss;
            return FirstTrain::Known(train);
        }
        let length = self.end - self.from;
        // Of one that is lost for the most part no two arrivals may be known.
        let is_lost = seen.map_or(loss, |train| train.loss) >= 0.5;
        if is_lost || length >= TRAIN_MAX {
            return FirstTrain::Unknown { is_lost };
        }
        if self.is_limited {
            return FirstTrain::Limited { passed_per_s: 0.0 };
        }
        self.begin_train(sent, length * TRAIN_GROWTH);
        FirstTrain::TooFast { datagrams: length * TRAIN_GROWTH }
    }

    fn begin_train(&mut self, sent: f64, datagrams: f64) {
        (self.from, self.end, self.train_factor, self.is_limited) = (sent, sent + datagrams, 1.0, false);
    }

    /// The application has nothing to send for now.
    pub(super) fn on_idle(&mut self, sent: f64) {
        self.is_limited |= self.from < sent && sent < self.end;
    }

    /// True if the train came as slowly as the application sent it: it was no train.
    fn is_too_slow(&self, train: &Span) -> bool {
        self.is_limited && train.overload < BURST_OVERLOAD
    }

    /// The loss of the first train was the path's own, give or take `chance`: its lost datagrams took their time on the
    /// bottleneck.
    pub(super) fn forgive_first(&mut self, chance: f64) {
        self.per_s = self.first_passed_per_s.min(self.per_s / (1.0 - self.first_loss) * (1.0 + chance));
        self.first_loss = 0.0;
    }

    /// So much has passed while the queue did not grow.
    pub(super) fn at_least(&mut self, per_s: f64) {
        self.per_s = self.per_s.max(per_s);
    }

    fn suffices(train: &Span) -> bool {
        train.sent * (1.0 - train.loss) >= ARRIVED_MIN
    }
}

impl RateControl {
    /// The first train has arrived once something that was sent behind it has.
    pub(super) fn judge_train(&mut self) {
        if self.history.last().is_none_or(|last| last.sent < self.capacity.end + self.behind_min) {
            return;
        }
        self.behind_min = 0.0;
        let Some(behind) = self.history.span(self.capacity.end, f64::INFINITY) else { return };
        let seen = self.history.span(self.capacity.from, self.capacity.end);
        let loss = self.loss_since_train();
        match self.capacity.on_first(seen, loss, self.sent) {
            FirstTrain::Known(train) => {
                let Some(is_full) = self.was_full(train, behind) else { return };
                let (tail_sent, tail_loss) = self.history.tail(self.capacity.end).unwrap_or_default();
                let known = train.sent + tail_sent;
                self.capacity.first_known = (known, (train.sent * train.loss + tail_sent * tail_loss) / known);
                self.path_loss.is_busy = is_full;
                self.window = self.first_window(train, behind).max(WINDOW_MIN);
            }
            FirstTrain::Again => {
                self.capacity.before = self.history.last();
                return;
            }
            FirstTrain::TooFast { datagrams } => {
                self.window = datagrams;
                return;
            }
            FirstTrain::Limited { passed_per_s } => {
                self.window = self.window.max(self.limited_window(passed_per_s));
            }
            FirstTrain::Unknown { is_lost } => {
                self.path_loss.is_busy = is_lost;
                self.window = if is_lost { WINDOW_MIN.max(0.5 * TRAIN) } else { 2.0 * TRAIN };
            }
        }
        self.is_alone = !self.path_loss.is_busy;
        self.begin_start();
    }

    /// Delays that differ by less are the same.
    pub(super) fn flat_s(&self) -> f64 {
        (FLAT_PART * self.history.rtt()).max(FLAT_S)
    }

    /// Returns the window behind the first train, if that train has told the path's capacity.
    fn first_window(&self, train: Span, behind: Span) -> f64 {
        let rtt_s = self.history.rtt();
        let flat_s = self.flat_s();
        // The train's first datagram waited longer than what came behind it: others fill the path, and are giving way.
        let is_falling = train.queue_least_s > flat_s;
        let is_flat = self.first_rtt_s - rtt_s < flat_s && behind.queue_most_s < flat_s + self.capacity.time_s(TRAIN);
        let part = if is_falling {
            FALLING_START_PART
        } else if is_flat {
            FLAT_START_PART
        } else {
            START_PART
        };
        let window = part * self.capacity.per_s * rtt_s;
        if self.path_loss.is_busy { window.min(1.5 * TRAIN) } else { window }
    }

    /// Share of all datagrams that was lost up to the newest mark, or since a first train was lost.
    fn loss_since_train(&self) -> f64 {
        let (sent, received) = self.capacity.before.map_or((0.0, 0.0), |before| (before.sent, before.received));
        self.history.last().map_or(0.0, |last| 1.0 - (last.received - received) / (last.sent - sent).max(1.0))
    }

    /// True if the path was full without us: the queue of the train does not drain behind it. `None` as long as it may not have had
    /// the time.
    fn was_full(&self, train: Span, behind: Span) -> Option<bool> {
        let (rtt_s, per_s) = (self.history.rtt(), self.capacity.per_s);
        let bump_s = train.queue_most_s - train.queue_least_s;
        // Datagrams behind it queue, too, if the path holds less than the window. A bump that losses hid proves nothing.
        let ours_s = (self.window / per_s - rtt_s).max(0.0);
        let is_seen = bump_s > 0.5 * (train.sent - 1.0) / per_s;
        let stays = is_seen && behind.queue_least_s - train.queue_least_s > 0.5 * bump_s + ours_s + 0.0001;
        let behind_per_s = self.window / rtt_s;
        let drains_s = bump_s / (1.0 - (behind_per_s / per_s).min(DRAIN_LOAD_MAX));
        if stays && behind.sent < (DRAIN_TIMES * drains_s * behind_per_s).min(TRAIN) {
            return None;
        }
        Some(stays || train.loss > FULL_LOSS || self.lost_its_end(train, behind)?)
    }

    /// True if the train filled the queue, which then took none of the rest of it. `None` as long as too little is known of what followed.
    fn lost_its_end(&self, train: Span, behind: Span) -> Option<bool> {
        let (sent, loss) = self.history.tail(self.capacity.end).unwrap_or_default();
        if train.loss > 0.0 || sent * loss < TAIL_LOST_MIN || loss < TAIL_LOSS {
            return Some(false);
        }
        // Delays that differ show others; a burst of losses does not make any.
        let differs = behind.queue_most_s - behind.queue_least_s > self.flat_s();
        let is_more = loss > behind.loss + TAIL_LOSS_MORE + self.doubt(behind.loss, sent);
        (behind.sent >= TRAIN).then_some(differs && is_more)
    }

    /// Sends a train if one is due.
    pub(super) fn send_later_train(&mut self, now: Time, is_clear: bool) {
        let capacity = &mut self.capacity;
        let is_under_way = capacity.from < capacity.end;
        let is_wanted = is_clear && !is_under_way && self.window > 2.0 * LATER_TRAIN;
        let is_small = self.window <= LATER_TRAIN && capacity.per_s > 0.0;
        if !is_wanted && capacity.due.is_some_and(|due| now < due) || is_small {
            return;
        }
        let spread = JITTERS * self.history.jitter_s() * capacity.per_s;
        let least = self.window.clamp(LATER_TRAIN_MIN, LATER_TRAIN);
        let wanted = spread.max(capacity.later_train).min(WINDOW_PART_MAX * self.window).min(LATER_TRAIN_MAX);
        let length = least.max(wanted);
        capacity.begin_train(self.sent, length.floor());
        capacity.is_clear = is_clear;
        capacity.due = Some(now + Duration::from_secs_f64((PAUSE_ROUND_TRIPS * self.history.rtt()).max(PAUSE_S)));
    }

    pub(super) fn judge_later_train(&mut self) {
        let (from, end) = (self.capacity.from, self.capacity.end);
        if from >= end || self.history.last().is_none_or(|last| last.sent < end) {
            return;
        }
        self.capacity.from = end;
        let Some(train) = self.history.span(from, end).filter(Capacity::suffices) else {
            // Reports tell of one arrival in some: of a longer train they tell of two.
            self.capacity.later_train = (2.0 * self.capacity.later_train).min(LATER_TRAIN_MAX);
            return;
        };
        if self.capacity.is_too_slow(&train) {
            return;
        }
        self.capacity.later_train = (0.5 * self.capacity.later_train).max(LATER_TRAIN);
        let has_dropped = train.loss > self.path_loss.share + self.doubt(self.path_loss.share, train.sent);
        let found = if has_dropped { train.arrivals_per_s / (1.0 - self.path_loss.share) } else { train.passed_per_s };
        let found = found * self.capacity.train_factor;
        if self.capacity.per_s <= 0.0 {
            self.capacity.per_s = found;
            return;
        }
        let most = RISE_MAX * self.capacity.per_s.max(self.per_s());
        let weight = if self.capacity.is_clear { WEIGHT_CLEAR } else { WEIGHT };
        self.capacity.per_s += weight * (found.min(most) - self.capacity.per_s);
    }
}
