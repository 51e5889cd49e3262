//! Flows that fill the queue whatever we do (\[auto-8\]), because they yield to losses alone. Beside them the window is that of
//! one of them.

use std::time::Duration;

use dfcp_time::Time;

use super::cubic::VirtualCubic;
use super::history::Span;
use super::{Mode, RateControl, WINDOW_MIN, steady};
use crate::config::Policy;

/// The queue is short below its target and this part of a round trip.
pub(in crate::path) const SHORT_PART: f64 = 0.05;
/// As a new flow of TCP it begins by slow start, but up to this part of what the path holds at most.
pub(in crate::path) const SLOW_START_PART: f64 = 0.5;
/// It does not exceed what arrives by more.
pub(in crate::path) const DELIVERED_EXCEEDED: f64 = 1.25;
/// An event is a loss beyond the path's own by this or, on a path without losses, of more datagrams than these; or that the queue
/// falls from its peak to this part less a part of a round trip, because others have yielded.
pub(in crate::path) const LOSS_EXCESS: f64 = 0.005;
pub(in crate::path) const LOSSLESS: f64 = 0.005;
pub(in crate::path) const LOST_MIN: f64 = 2.0;
const QUEUE_FALL_PART: f64 = 0.75;
const QUEUE_ROUND_TRIP_PART: f64 = 0.05;
const PEAK_FORGETS_PER_S: f64 = 0.02;
pub(in crate::path) const EVENT_PAUSE_ROUND_TRIPS: f64 = 1.5;
/// It ends when the queue has been short for this long, and for a trial after this number of events: after an overflow all flows
/// see the queue empty.
pub(in crate::path) const CLEAR_ROUND_TRIPS: f64 = 4.0;
pub(in crate::path) const EVENTS_MAX: u32 = 8;

/// Estimate of the other flows.
#[derive(Debug)]
pub(super) struct Rivals {
    /// Ours among theirs.
    cubic: VirtualCubic,
    events: u32,
    event_after: Time,
    queue: Queue,
    low_since: Time,
    last_report: Time,
}

/// Peaks and troughs of the queue among rivals.
#[derive(Debug, Default)]
pub(in crate::path) struct Queue {
    pub(in crate::path) peak_s: f64,
    pub(in crate::path) trough_s: f64,
    pub(in crate::path) is_falling: bool,
}

impl Queue {
    /// After an event the queue falls; how far it falls once it has risen again is what counts as the next.
    pub(in crate::path) fn note(&mut self, queue_s: f64, rtt_s: f64, elapsed_s: f64) {
        if self.is_falling {
            self.trough_s = self.trough_s.min(queue_s);
            self.is_falling = queue_s < self.trough_s + QUEUE_ROUND_TRIP_PART * rtt_s;
            self.peak_s = queue_s;
        }
        self.peak_s = self.peak_s.max(queue_s) * (1.0 - PEAK_FORGETS_PER_S * elapsed_s);
    }

    pub(in crate::path) fn has_fallen(&self, queue_s: f64, rtt_s: f64) -> bool {
        !self.is_falling && queue_s < QUEUE_FALL_PART * self.peak_s - QUEUE_ROUND_TRIP_PART * rtt_s
    }
}

impl Rivals {
    pub(super) fn new(now: Time) -> Self {
        Self {
            cubic: VirtualCubic::new(1.0, 0.0),
            events: 0,
            event_after: now,
            queue: Queue::default(),
            low_since: now,
            last_report: now,
        }
    }

    /// Windows are counted in other datagrams.
    pub(super) fn scale(&mut self, factor: f64) {
        self.cubic.scale(factor);
    }

    pub(super) fn on_report(&mut self, now: Time) {
        self.last_report = now;
    }
}

impl RateControl {
    /// Number of TCP flows that we count for.
    fn weight(&self) -> f64 {
        if self.policy == Policy::High { 2.0 } else { 1.0 }
    }

    /// Others make no room.
    pub(super) fn begin_competing(&mut self, now: Time, seen: Span) {
        let all = self.capacity.per_s() * (self.history.rtt() + seen.queue_least_s);
        self.rivals.cubic = VirtualCubic::new(self.window / self.weight(), SLOW_START_PART * all);
        self.rivals.events = 0;
        self.rivals.queue = Queue { peak_s: seen.queue_most_s, ..Queue::default() };
        self.rivals.event_after = now + Duration::from_secs_f64(2.0 * self.history.smoothed_rtt());
        self.rivals.low_since = now;
        self.mode = Mode::Compete;
        self.round.from = self.sent;
    }

    /// A report has come while we compete.
    pub(super) fn compete(&mut self, now: Time) {
        let rtt_s = self.history.rtt();
        let queue_s = self.history.queue_lately((rtt_s / 4.0).max(0.002));
        let elapsed_s = now.since(self.rivals.last_report).as_secs_f64();
        let delivered = self.history.rate_lately(self.history.smoothed_rtt()) / (1.0 - self.path_loss.share);
        let most = DELIVERED_EXCEEDED * delivered * (rtt_s + queue_s) / self.weight();
        self.rivals.cubic.grow(elapsed_s, rtt_s + queue_s, most.max(2.0));
        self.rivals.queue.note(queue_s, rtt_s, elapsed_s);
        if now >= self.rivals.event_after {
            self.note_event(now, queue_s);
        }
        self.window = (self.weight() * self.rivals.cubic.window()).max(WINDOW_MIN);
        if queue_s > self.target_s().min(0.1 * rtt_s) + SHORT_PART * rtt_s {
            self.rivals.low_since = now;
        }
        let is_clear = now.since(self.rivals.low_since).as_secs_f64() > CLEAR_ROUND_TRIPS * rtt_s;
        // The policy may have become one that yields.
        if is_clear || self.rivals.events >= EVENTS_MAX || self.policy == Policy::Low {
            self.stop_competing(now, rtt_s / (rtt_s + queue_s));
        }
    }

    fn note_event(&mut self, now: Time, queue_s: f64) {
        let Some(seen) = self.observe() else { return };
        let rtt_s = self.history.rtt();
        let doubt = self.doubt(self.path_loss.share, seen.sent);
        let (excess, _) = self.path_loss.excess(seen.loss, doubt);
        let is_loss = excess > LOSS_EXCESS + doubt || self.path_loss.share < LOSSLESS && excess * seen.sent > LOST_MIN;
        let rivals = &mut self.rivals;
        if is_loss || rivals.queue.has_fallen(queue_s, rtt_s) {
            rivals.cubic.on_event();
            rivals.events += 1;
            rivals.event_after = now + Duration::from_secs_f64(EVENT_PAUSE_ROUND_TRIPS * (rtt_s + queue_s));
            rivals.queue.is_falling = true;
            rivals.queue.trough_s = queue_s;
            self.round.from = self.sent;
        } else if seen.sent > self.window {
            self.round.from = self.history.last().map_or(self.sent, |last| last.sent);
        }
    }

    fn stop_competing(&mut self, now: Time, part: f64) {
        self.mode = Mode::Run;
        self.window *= part;
        self.ebb.low_at = now;
        self.judged = None;
        self.begin_round(steady::ROUND_PART);
    }
}
