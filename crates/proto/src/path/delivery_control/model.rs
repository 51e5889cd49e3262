//! The model of the path: estimates, no decisions.

use std::collections::VecDeque;

use dfcp_time::Time;

use super::marks::{Marks, Point, Span};
use super::params::P;
use crate::config::controller::Mark;
use crate::path::rate_control::clock_drift::ClockDrift;

/// Round trip before any was measured, seconds.
const RTT_GUESS_S: f64 = 0.1;
/// Rounds that are remembered at most.
const ROUNDS_MAX: usize = 256;
/// Weight of a mark in the burstiness of losses, and datagrams over which losses are averaged.
const BURST_WEIGHT: f64 = 0.02;
const MEAN_MEMORY: f64 = 128.0;
/// Datagrams over which the loss in a short queue is averaged.
const SHORT_MEMORY: f64 = 1_000.0;
/// Datagrams in a short queue after which their loss is used.
const SHORT_SENT_MIN: f64 = 200.0;
/// Longest queue, datagrams, below which nothing is learnt: where no queue ever forms, "short" means nothing.
const SHORT_DATAGRAMS: f64 = 24.0;
/// The same limit, seconds.
const SHORT_S: f64 = 0.004;
/// Arrivals within so little are one clump, seconds.
const CLUMP_S: f64 = 0.0002;

/// One round.
#[derive(Clone, Copy, Debug)]
struct Round {
    at_s: f64,
    per_s: f64,
    low_s: f64,
}

/// Estimates of one path. Rates are in datagrams per second.
#[derive(Debug)]
pub(super) struct PathModel {
    pub(super) marks: Marks,
    clock_drift: ClockDrift,
    rounds: VecDeque<Round>,
    /// Time in rounds that had enough to send, and time of the last round, seconds.
    active_s: f64,
    round_at_s: f64,
    /// The first of these times, and delivery.
    deliveries: VecDeque<(f64, f64)>,
    /// Time and round-trip time, ascending in both.
    rtts: VecDeque<(f64, f64)>,
    smoothed_rtt_s: f64,
    gap_s: f64,
    jitter_s: f64,
    /// Interval of departures, seconds.
    interval_s: f64,
    /// Numbers of the newest train.
    train: (f64, f64),
    variance: f64,
    variance_independent: f64,
    mean_loss: f64,
    /// Datagrams sent while the queue was short, and those of them that were lost.
    short: (f64, f64),
    /// Time and greatest queueing delay of rounds.
    tops: VecDeque<(f64, f64)>,
    /// Base delays are not forgotten.
    keeps_base: bool,
    /// Rate that trains found, 0 while unknown.
    pub(super) train_per_s: f64,
}

impl Default for PathModel {
    fn default() -> Self {
        Self {
            marks: Marks::default(),
            clock_drift: ClockDrift::new(P.drift_max),
            rounds: VecDeque::new(),
            active_s: 0.0,
            round_at_s: 0.0,
            deliveries: VecDeque::new(),
            rtts: VecDeque::new(),
            smoothed_rtt_s: 0.0,
            gap_s: 0.0,
            jitter_s: 0.0,
            interval_s: f64::INFINITY,
            train: (0.0, 0.0),
            variance: 0.0,
            variance_independent: 0.0,
            mean_loss: 0.0,
            short: (0.0, 0.0),
            tops: VecDeque::new(),
            keeps_base: false,
            train_per_s: 0.0,
        }
    }
}

impl PathModel {
    pub(super) fn set_train(&mut self, train: (f64, f64)) {
        self.train = train;
    }

    /// Datagrams leave in this interval while the application has enough of them.
    pub(super) fn set_interval_s(&mut self, interval_s: f64) {
        self.interval_s = interval_s;
    }

    /// Others keep the queue from becoming empty, or do not: base delays are not forgotten meanwhile.
    pub(super) fn set_keeps_base(&mut self, keeps: bool) {
        self.keeps_base = keeps;
    }

    /// Datagrams have another size: `factor` times as many of them carry the same bits.
    pub(super) fn scale(&mut self, factor: f64) {
        self.train_per_s *= factor;
        self.deliveries.iter_mut().for_each(|(_, per_s)| *per_s *= factor);
        self.rounds.iter_mut().for_each(|round| round.per_s *= factor);
    }

    /// The handshake's round trip, of small packets, is forgotten with the first data.
    pub(super) fn forget_rtts(&mut self) {
        self.rtts.clear();
    }

    pub(super) fn on_rtt(&mut self, now_s: f64, rtt_s: f64) {
        let smoothed_s = self.smoothed_rtt_s;
        self.smoothed_rtt_s = if smoothed_s > 0.0 { smoothed_s + (rtt_s - smoothed_s) / 8.0 } else { rtt_s };
        while self.rtts.back().is_some_and(|&(_, other)| other >= rtt_s) {
            self.rtts.pop_back();
        }
        // The least ones stand in front: where all are full, the newest takes the place of the one before.
        if self.rtts.len() == ROUNDS_MAX {
            self.rtts.pop_back();
        }
        self.rtts.push_back((now_s, rtt_s));
        while !self.keeps_base && self.rtts.front().is_some_and(|&(at, _)| now_s - at > P.base_memory_s) {
            self.rtts.pop_front();
        }
    }

    /// Least recent round trip, seconds.
    pub(super) fn rtt_s(&self) -> f64 {
        self.rtts.front().map_or(RTT_GUESS_S, |&(_, rtt_s)| rtt_s).max(1e-5)
    }

    /// Smoothed round trip, seconds.
    pub(super) fn smoothed_rtt_s(&self) -> f64 {
        if self.smoothed_rtt_s > 0.0 { self.smoothed_rtt_s } else { RTT_GUESS_S }
    }

    pub(super) fn on_clock(&mut self, now: Time, rtt_s: f64, mark: &Mark) {
        let delay_s = self.marks.raw_delay_s(mark);
        if self.clock_drift.note(now.as_ns() as f64 / 1e9, rtt_s, delay_s) {
            self.rounds.clear();
        }
    }

    pub(super) fn on_marks(&mut self, marks: &[Mark]) {
        for mark in marks {
            let mut point = self.marks.point(mark, self.clock_drift.sum_s());
            if !self.marks.continues(&point) {
                continue;
            }
            if let Some(last) = self.marks.last() {
                point.paused_s += self.note_pause(&last, &point);
                self.note_losses(&last, &point);
                self.note_short(&last, &point);
            }
            self.marks.push(point);
        }
    }

    /// Gaps between arrivals, and jumps of the delay. Returns how long the sender was silent, seconds.
    fn note_pause(&mut self, last: &Point, next: &Point) -> f64 {
        let (sent, waited_s) = (next.sent - last.sent, next.arrived_s - last.arrived_s);
        let own_s = (next.sent_s - last.sent_s) / sent;
        // Neither the sender's own pauses nor losses are gaps of the path.
        let paused_s = (next.sent_s - last.sent_s - P.pause_times * sent * self.interval_s).max(0.0);
        let gap_s = if sent > 1.0 { waited_s - paused_s } else { waited_s - own_s };
        let gap_s = gap_s * (next.received - last.received) / sent;
        let kept_s = P.gap_memory_s.max(P.gap_memory_rtts * self.smoothed_rtt_s());
        let fades = 1.0 - (waited_s / kept_s).min(0.5);
        self.gap_s = gap_s.max(self.gap_s * fades).min(P.gap_rtts_max * self.smoothed_rtt_s().max(1e-3));
        // A queue grows by no more than was sent meanwhile, unless that was a train.
        let is_train = next.sent > self.train.0 && last.sent <= self.train.1;
        let jump_s = if is_train { 0.0 } else { next.delay_s - last.delay_s - (next.sent_s - last.sent_s) };
        self.jitter_s = jump_s.max(self.jitter_s * fades);
        if paused_s > P.active_rtts * self.smoothed_rtt_s() { paused_s.min(waited_s) } else { 0.0 }
    }

    fn note_losses(&mut self, last: &Point, next: &Point) {
        let sent = next.sent - last.sent;
        let lost = sent - (next.received - last.received);
        self.mean_loss += (sent / MEAN_MEMORY).min(1.0) * (lost / sent - self.mean_loss);
        let excess = lost - sent * self.mean_loss;
        self.variance += BURST_WEIGHT * (excess * excess - self.variance);
        let independent = sent * self.mean_loss * (1.0 - self.mean_loss);
        self.variance_independent += BURST_WEIGHT * (independent - self.variance_independent);
    }

    /// Losses between two datagrams that found a short queue: the queue did not cause them.
    fn note_short(&mut self, last: &Point, next: &Point) {
        let sent = next.sent - last.sent;
        let per_s = sent / (next.sent_s - last.sent_s).max(1e-6);
        let Some(base_s) = self.base_s(per_s) else { return };
        let short_s = base_s + 0.5 * self.top_s();
        if next.delay_s >= short_s || last.delay_s >= short_s {
            return;
        }
        let kept = (1.0 - sent / SHORT_MEMORY).max(0.0);
        let lost = sent - (next.received - last.received);
        self.short = (self.short.0 * kept + sent, self.short.1 * kept + lost);
    }

    /// Loss in a short queue, and the datagrams that tell it. `None` where the queue was never long enough to tell.
    pub(super) fn short_loss(&self, capacity_per_s: f64) -> Option<(f64, f64)> {
        let least_s = (SHORT_DATAGRAMS / capacity_per_s.max(1.0)).max(SHORT_S).max(1.5 * self.jitter_s);
        let (sent, lost) = self.short;
        (self.top_s() > least_s && sent >= SHORT_SENT_MIN).then(|| ((lost / sent).clamp(0.0, 0.9), sent))
    }

    /// Longest recent gap between arrivals, seconds: batches, or the time between datagrams.
    pub(super) fn gap_s(&self) -> f64 {
        self.gap_s
    }

    /// Greatest recent jump of the delay that no queue of ours can make, seconds.
    pub(super) fn jitter_s(&self) -> f64 {
        self.jitter_s
    }

    /// Two standard errors of a loss among `sent` datagrams, with the burstiness of losses up to `burst_max`.
    pub(super) fn doubt(&self, loss: f64, sent: f64, burst_max: f64) -> f64 {
        let burst = if self.variance_independent > 0.0 { self.variance / self.variance_independent } else { 1.0 };
        let sent = sent.max(1.0);
        2.0 * (burst.clamp(1.0, burst_max) * (loss * (1.0 - loss) + 1.0 / sent) / sent).sqrt()
    }

    /// Datagrams behind number `from` up to `until`.
    pub(super) fn span(&self, from: f64, until: f64) -> Option<Span> {
        self.marks.span(from, until, (self.gap_s / 8.0).min(CLUMP_S))
    }

    /// Records a round that was sent at one rate. `is_limited` means that the application had too little to send
    /// meanwhile: what was delivered before is still possible then.
    pub(super) fn on_round(&mut self, now_s: f64, seen: &Span, is_limited: bool) {
        let rtt_s = self.rtt_s();
        if !is_limited {
            self.active_s += (now_s - self.round_at_s).min(P.active_rtts * (rtt_s + self.gap_s));
        }
        self.round_at_s = now_s;
        let base_s = self.base_s(seen.sent_per_s()).unwrap_or(seen.low_s);
        if self.rounds.len() == ROUNDS_MAX {
            if self.keeps_base {
                self.rounds.pop_back();
            } else {
                self.rounds.pop_front();
            }
        }
        self.rounds.push_back(Round { at_s: now_s, per_s: seen.sent_per_s(), low_s: seen.low_s });
        let memory_s = P.base_memory_s.max(P.base_memory_rtts * rtt_s);
        while !self.keeps_base && self.rounds.front().is_some_and(|round| now_s - round.at_s > memory_s) {
            self.rounds.pop_front();
        }
        let least_s = rtt_s.max(P.delivery_gaps * self.gap_s);
        if let Some(per_s) = self.marks.delivery(least_s, P.delivery_arrivals) {
            if self.deliveries.len() == ROUNDS_MAX {
                self.deliveries.pop_front();
            }
            self.deliveries.push_back((self.active_s, per_s));
        }
        let arrives = seen.arrives_per_s().max(1.0);
        let memory_s = P
            .delivery_memory_s
            .max(P.delivery_memory_rtts * rtt_s)
            .max(4.0 * self.gap_s)
            .max(2.0 * P.delivery_arrivals / arrives);
        while self.deliveries.front().is_some_and(|&(at_s, _)| self.active_s - at_s > memory_s) {
            self.deliveries.pop_front();
        }
        self.tops.push_back((now_s, seen.top_s - base_s));
        while self.tops.len() > ROUNDS_MAX || self.tops.front().is_some_and(|&(at_s, _)| now_s - at_s > 10.0 * rtt_s) {
            self.tops.pop_front();
        }
    }

    /// Base delay at a rate of `per_s`: the least of all rounds or, where jitter delays dense packets more, of those at
    /// comparable rates.
    pub(super) fn base_s(&self, per_s: f64) -> Option<f64> {
        let has_jitter = self.jitter_s > P.flat_s.max(P.flat_rtt * self.rtt_s());
        let least_per_s = if has_jitter { P.comparable_rate * per_s } else { 0.0 };
        let alike = self.rounds.iter().filter(|round| round.per_s >= least_per_s);
        alike.map(|round| round.low_s).reduce(f64::min)
    }

    /// The path has become longer: only the newest round tells its base delay.
    pub(super) fn forget_base(&mut self) {
        let newest = self.rounds.back().copied();
        self.rounds.clear();
        self.rounds.extend(newest);
    }

    /// Greatest recent delivery.
    pub(super) fn delivery(&self) -> f64 {
        self.deliveries.iter().map(|&(_, per_s)| per_s).fold(0.0, f64::max)
    }

    /// Greatest recent queueing delay, seconds.
    pub(super) fn top_s(&self) -> f64 {
        self.tops.iter().map(|&(_, top_s)| top_s).fold(0.0, f64::max)
    }

    /// Present queueing delay of traffic at `per_s`, seconds.
    pub(super) fn queue_s(&self, per_s: f64) -> f64 {
        self.queue_within_s((self.rtt_s() / 8.0).max(0.002), per_s)
    }

    /// Queueing delay of traffic at `per_s` in the last `seconds`.
    pub(super) fn queue_within_s(&self, seconds: f64, per_s: f64) -> f64 {
        let seconds = seconds.max(P.round_gaps * self.gap_s);
        let delay_s = self.marks.low_delay_s(seconds).unwrap_or(0.0);
        (delay_s - self.base_s(per_s).unwrap_or(delay_s)).max(0.0)
    }
}
