//! What the path carries (\[auto-4\]), from trains: datagrams sent at once arrive as far apart as the bottleneck takes for each.

use std::time::Duration;

use dfcp_time::Time;

use super::history::Span;
use super::{RateControl, WINDOW_MIN};

/// Datagrams of the first train, and of later ones.
pub(super) const TRAIN: f64 = 16.0;
const LATER_TRAIN: f64 = 8.0;
/// Where the first arrives faster than the receiver's clock can tell, the next is longer by this factor, up to a limit.
const TRAIN_GROWTH: f64 = 8.0;
const TRAIN_MAX: f64 = 1_024.0;
/// Later trains are longer where arrivals jitter: by what arrives in three times the jitter, up to these limits.
const JITTERS: f64 = 3.0;
const WINDOW_PART_MAX: f64 = 0.2;
const LATER_TRAIN_MAX: f64 = 64.0;
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
    /// The queue was empty when it was sent.
    is_clear: bool,
    due: Option<Time>,
    /// Of the first train: datagrams that passed per second, and the share that did not arrive, until it is known why.
    first_passed_per_s: f64,
    pub(super) first_loss: f64,
}

/// What the first train says of the path.
#[derive(Clone, Copy, Debug)]
pub(super) enum FirstTrain {
    Known(Span),
    /// A longer one is on its way.
    TooFast {
        datagrams: f64,
    },
    Unknown,
}

impl Capacity {
    pub(super) fn new(sent: f64) -> Self {
        Self {
            per_s: 0.0,
            from: sent,
            end: sent + TRAIN,
            is_clear: false,
            due: None,
            first_passed_per_s: 0.0,
            first_loss: 0.0,
        }
    }

    /// Datagrams per second; 0 while unknown.
    pub(super) fn per_s(&self) -> f64 {
        self.per_s
    }

    /// Whether the next datagram is one of a train.
    pub(super) fn is_train(&self, sent: f64) -> bool {
        sent < self.end
    }

    pub(super) fn end(&self) -> f64 {
        self.end
    }

    /// What is known of the first train, the arrivals of which are `seen`.
    pub(super) fn on_first(&mut self, seen: Option<Span>, sent: f64) -> FirstTrain {
        if let Some(train) = seen.filter(Self::suffices) {
            // What was lost elsewhere took its time on the bottleneck; what found its queue full did not. As long as it is not
            // known which, the lower of both.
            self.per_s = train.arrivals_per_s;
            self.first_passed_per_s = train.passed_per_s;
            self.first_loss = train.loss;
            return FirstTrain::Known(train);
        }
        let length = self.end - self.from;
        if seen.is_some_and(|train| train.loss >= 0.5) || length >= TRAIN_MAX {
            return FirstTrain::Unknown;
        }
        (self.from, self.end) = (sent, sent + length * TRAIN_GROWTH);
        FirstTrain::TooFast { datagrams: length * TRAIN_GROWTH }
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
        let Some(behind) = self.history.span(self.capacity.end, f64::INFINITY) else { return };
        let seen = self.history.span(self.capacity.from, self.capacity.end);
        match self.capacity.on_first(seen, self.sent) {
            FirstTrain::Known(train) => {
                // If its queue does not drain behind it, the path was full without us.
                let bump_s = train.queue_most_s - train.queue_least_s;
                let stays = behind.queue_least_s - train.queue_least_s > 0.5 * bump_s + 0.0001;
                self.path_loss.is_busy = stays || train.loss > 0.7;
                let half = 0.5 * self.capacity.per_s * self.history.rtt();
                self.window = if self.path_loss.is_busy { half.min(1.5 * TRAIN) } else { half }.max(WINDOW_MIN);
            }
            FirstTrain::TooFast { datagrams } => {
                self.window = datagrams;
                return;
            }
            FirstTrain::Unknown => self.window = 2.0 * TRAIN,
        }
        self.begin_start();
    }

    /// Sends a train if one is due.
    pub(super) fn send_later_train(&mut self, now: Time, is_clear: bool) {
        let capacity = &mut self.capacity;
        let is_under_way = capacity.from < capacity.end;
        let is_wanted = is_clear && !is_under_way && self.window > 2.0 * LATER_TRAIN;
        if !is_wanted && capacity.due.is_some_and(|due| now < due) || self.window <= LATER_TRAIN {
            return;
        }
        let spread = JITTERS * self.history.jitter_s * capacity.per_s;
        let length = LATER_TRAIN.max(spread.min(WINDOW_PART_MAX * self.window).min(LATER_TRAIN_MAX));
        (capacity.from, capacity.end) = (self.sent, self.sent + length.floor());
        capacity.is_clear = is_clear;
        capacity.due = Some(now + Duration::from_secs_f64((PAUSE_ROUND_TRIPS * self.history.rtt()).max(PAUSE_S)));
    }

    pub(super) fn judge_later_train(&mut self) {
        let (from, end) = (self.capacity.from, self.capacity.end);
        if from >= end || self.history.last().is_none_or(|last| last.sent < end) {
            return;
        }
        self.capacity.from = end;
        let Some(train) = self.history.span(from, end).filter(Capacity::suffices) else { return };
        let has_dropped = train.loss > self.path_loss.share + self.doubt(self.path_loss.share, train.sent);
        let found = if has_dropped { train.arrivals_per_s / (1.0 - self.path_loss.share) } else { train.passed_per_s };
        let most = RISE_MAX * self.capacity.per_s.max(self.per_s());
        let weight = if self.capacity.is_clear { WEIGHT_CLEAR } else { WEIGHT };
        self.capacity.per_s += weight * (found.min(most) - self.capacity.per_s);
    }
}
