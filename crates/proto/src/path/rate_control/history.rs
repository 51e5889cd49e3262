//! Recent arrivals as reported, by the receiver's clock.

use std::collections::VecDeque;

use dfcp_time::Time;

use super::clock_drift::ClockDrift;
use crate::config::controller::Mark;
use crate::limits::RATE_MARKS_MAX;
use crate::path::windowed::{WindowedMax, WindowedMin};

/// Least delays and round trips are remembered for 20 s, in parts of 5 s.
const MEMORY_PART_S: f64 = 5.0;
const MEMORY_PARTS: usize = 5;
/// Jitter between two arrivals that the receiver's own work explains, seconds: not jitter of the path.
const JITTER_FREE_S: f64 = 0.0005;
const JITTER_MAX_S: f64 = 0.05;
const JITTER_CHANGES: f64 = 4.0;
/// Weight of a report in the jitter, and of an interval in the burstiness of losses.
const JITTER_WEIGHT: f64 = 0.02;
const BURST_WEIGHT: f64 = 0.02;
/// Datagrams over which losses are averaged.
const MEAN_MEMORY: f64 = 128.0;
const BURST_MAX: f64 = 6.3;
/// Datagrams over which the loss with a short queue is remembered.
const SHORT_MEMORY: f64 = 1_000.0;
/// The round trip before any was measured, seconds.
const RTT_GUESS_S: f64 = 0.1;

/// A mark in the arithmetic of the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) sent: f64,
    pub(super) received: f64,
    pub(super) arrived_s: f64,
    /// One-way delay, from an origin which is always the same.
    pub(super) delay_s: f64,
}

/// Measurements between two marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    /// Datagrams sent, and the share of them that did not arrive.
    pub(super) sent: f64,
    pub(super) loss: f64,
    /// Datagrams which arrived per second, and which arrived or were lost on the way.
    pub(super) arrivals_per_s: f64,
    pub(super) passed_per_s: f64,
    /// The least and the greatest queueing delay at a mark, seconds.
    pub(super) queue_least_s: f64,
    pub(super) queue_most_s: f64,
    /// Growth of the queueing delay per second of arrivals: the excess of the sent over the path's rate, as a part of the sent one.
    pub(super) overload: f64,
}

#[derive(Debug, Default)]
pub(super) struct History {
    points: VecDeque<Point>,
    /// The first arrival by the peer's clock, and how long after it the newest was, in microseconds.
    origin_us: Option<u32>,
    newest_us: i64,
    clock_drift: ClockDrift,
    base_s: WindowedMin<f64, MEMORY_PARTS>,
    rtt_s: WindowedMin<f64, MEMORY_PARTS>,
    smoothed_rtt_s: Option<f64>,
    /// Time that counts for what is forgotten, and whether it passes.
    memory_s: f64,
    forgets: bool,
    last: Time,
    /// The greatest queueing delay lately, seconds.
    top_s: WindowedMax<f64, MEMORY_PARTS>,
    /// Jitter, seconds: the spread of delays within a report; the change of its least delay from the report before; that least delay.
    spread_s: f64,
    change_s: f64,
    least_s: f64,
    /// The variance of losses in intervals between marks, and what it would be if they were independent.
    variance: f64,
    variance_independent: f64,
    mean_loss: f64,
    short_sent: f64,
    short_lost: f64,
}

impl History {
    /// Sets whether observations of the path expire.
    pub(super) fn set_forgets(&mut self, forgets: bool) {
        self.forgets = forgets;
    }

    /// A round trip was measured.
    pub(super) fn on_rtt(&mut self, now: Time, rtt_s: f64) {
        if self.forgets {
            self.memory_s += now.since(self.last).as_secs_f64();
        }
        self.last = now;
        self.rtt_s.update(self.part(), rtt_s);
        self.smoothed_rtt_s = Some(self.smoothed_rtt_s.map_or(rtt_s, |smoothed| smoothed + (rtt_s - smoothed) / 8.0));
    }

    /// The newest datagram that a report tells of: when it was sent and arrived, and the round trip.
    pub(super) fn on_clock(&mut self, now: Time, rtt_s: f64, mark: &Mark) {
        let Some(delay_s) = self.raw_delay_s(mark) else { return };
        self.clock_drift.note(now.as_ns() as f64 / 1e9, rtt_s, delay_s);
    }

    /// As the clocks show it; `None` before the first mark.
    fn raw_delay_s(&self, mark: &Mark) -> Option<f64> {
        let arrived_s = self.arrived_us(mark, self.origin_us?) as f64 / 1e6;
        Some(arrived_s - mark.sent_at.as_ns() as f64 / 1e9)
    }

    /// The clock's numbers wrap; each is the nearest to the newest.
    fn arrived_us(&self, mark: &Mark, origin_us: u32) -> i64 {
        let newest_us = (self.newest_us as u32).wrapping_add(origin_us);
        self.newest_us + i64::from(mark.arrived_us.wrapping_sub(newest_us).cast_signed())
    }

    /// Takes in the marks of a report, oldest first.
    pub(super) fn on_marks(&mut self, marks: &[Mark], path_loss: Option<f64>) {
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for mark in marks {
            let Some(point) = self.point(mark) else { continue };
            self.note_burstiness(&point, path_loss);
            self.note_short(&point);
            self.base_s.update(self.part(), point.delay_s);
            (least, most) = (least.min(point.delay_s), most.max(point.delay_s));
            self.top_s.update(self.part(), point.delay_s - self.base());
            if self.points.len() == RATE_MARKS_MAX {
                self.points.pop_front();
            }
            self.points.push_back(point);
        }
        if marks.len() > 2 && most > least {
            let jitter_s = |seconds: f64| (seconds - JITTER_FREE_S).clamp(0.0, JITTER_MAX_S);
            self.spread_s += JITTER_WEIGHT * (jitter_s(most - least) - self.spread_s);
            self.change_s += JITTER_WEIGHT * (jitter_s((least - self.least_s).abs()) - self.change_s);
            self.least_s = least;
        }
    }

    fn point(&mut self, mark: &Mark) -> Option<Point> {
        let origin_us = *self.origin_us.get_or_insert(mark.arrived_us);
        let arrived_us = self.arrived_us(mark, origin_us);
        self.newest_us = self.newest_us.max(arrived_us);
        let arrived_s = arrived_us as f64 / 1e6;
        let point = Point {
            sent: mark.sent as f64,
            received: mark.received as f64,
            arrived_s,
            delay_s: arrived_s - mark.sent_at.as_ns() as f64 / 1e9 - self.clock_drift.sum_s(),
        };
        let is_next =
            |last: &Point| point.sent > last.sent && point.received >= last.received && arrived_s >= last.arrived_s;
        self.points.back().is_none_or(is_next).then_some(point)
    }

    /// Counts losses while the queue is short: the queue did not cause them.
    fn note_short(&mut self, point: &Point) {
        let Some(last) = self.points.back() else { return };
        let short = self.base() + self.top() / 2.0;
        if point.delay_s >= short || last.delay_s >= short {
            return;
        }
        let sent = point.sent - last.sent;
        let kept = (1.0 - sent / SHORT_MEMORY).max(0.0);
        self.short_sent = self.short_sent * kept + sent;
        self.short_lost = self.short_lost * kept + sent - (point.received - last.received);
    }

    /// Number of datagrams for which the queue was short, and the share of them that was lost.
    pub(super) fn short(&self) -> (f64, f64) {
        (self.short_sent, (self.short_lost / self.short_sent.max(1.0)).clamp(0.0, 0.9))
    }

    /// Among losses of `path_loss`, or of what is lost on average: where no queue tells whose a loss is, what is lost by turns is no burst.
    fn note_burstiness(&mut self, point: &Point, path_loss: Option<f64>) {
        let Some(last) = self.points.back() else { return };
        let sent = point.sent - last.sent;
        let lost = sent - (point.received - last.received);
        self.mean_loss += (sent / MEAN_MEMORY).min(1.0) * (lost / sent - self.mean_loss);
        let expected = path_loss.unwrap_or(self.mean_loss);
        if expected <= 0.0 || point.delay_s - self.base() > self.top() / 2.0 {
            return;
        }
        let excess = lost - sent * expected;
        self.variance += BURST_WEIGHT * (excess * excess - self.variance);
        let independent = sent * expected * (1.0 - expected);
        self.variance_independent += BURST_WEIGHT * (independent - self.variance_independent);
    }

    /// Jitter of delays without a queue, seconds. If packets arrive in batches, delays differ, but the least does not.
    pub(super) fn jitter_s(&self) -> f64 {
        self.spread_s.min(JITTER_CHANGES * self.change_s)
    }

    /// Factor of the standard error of a loss over that of independent ones.
    pub(super) fn burstiness(&self) -> f64 {
        if self.variance_independent <= 0.0 {
            return 1.0;
        }
        (self.variance / self.variance_independent).sqrt().clamp(1.0, BURST_MAX)
    }

    fn part(&self) -> u64 {
        (self.memory_s / MEMORY_PART_S) as u64
    }

    /// The least one-way delay lately.
    pub(super) fn base(&self) -> f64 {
        self.base_s.get().unwrap_or(0.0)
    }

    /// The path has got longer: what was the least before is not to be had any more.
    pub(super) fn set_base(&mut self, base_s: f64) {
        self.base_s = WindowedMin::new();
        self.base_s.update(self.part(), base_s);
        self.top_s = WindowedMax::new();
    }

    /// The greatest queueing delay lately, seconds.
    pub(super) fn top(&self) -> f64 {
        self.top_s.get().unwrap_or(0.0)
    }

    /// The least round trip lately, seconds.
    pub(super) fn rtt(&self) -> f64 {
        self.rtt_s.get().unwrap_or(RTT_GUESS_S)
    }

    /// The smoothed round trip, seconds.
    pub(super) fn smoothed_rtt(&self) -> f64 {
        self.smoothed_rtt_s.unwrap_or(RTT_GUESS_S)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    pub(super) fn last(&self) -> Option<Point> {
        self.points.back().copied()
    }

    /// Of the datagrams after the first `from` that were sent, up to `until`: from the first mark to the last.
    pub(super) fn span(&self, from: f64, until: f64) -> Option<Span> {
        let begin = self.points.partition_point(|point| point.sent <= from);
        let end = self.points.partition_point(|point| point.sent <= until);
        let first = *self.points.get(begin)?;
        self.between(first, begin, end)
    }

    /// Datagrams sent from the newest mark up to `end` to the first one behind it, and the share of them that was lost.
    pub(super) fn tail(&self, end: f64) -> Option<(f64, f64)> {
        let behind = self.points.partition_point(|point| point.sent <= end);
        let (last, next) = (self.points.get(behind.checked_sub(1)?)?, self.points.get(behind)?);
        let sent = next.sent - last.sent;
        Some((sent, 1.0 - (next.received - last.received) / sent))
    }

    /// From the mark `first` to the newest.
    pub(super) fn since(&self, first: Point) -> Option<Span> {
        let begin = self.points.partition_point(|point| point.sent < first.sent);
        self.between(first, begin, self.points.len())
    }

    fn between(&self, first: Point, begin: usize, end: usize) -> Option<Span> {
        let last = *self.points.get(end.checked_sub(1)?)?;
        let (sent, received) = (last.sent - first.sent, last.received - first.received);
        if sent <= 0.0 || last.arrived_s <= first.arrived_s {
            return None;
        }
        let base = self.base();
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for point in self.points.range(begin..end) {
            (least, most) = (least.min(point.delay_s - base), most.max(point.delay_s - base));
        }
        Some(Span {
            sent,
            loss: (1.0 - received / sent).clamp(0.0, 1.0),
            arrivals_per_s: received / (last.arrived_s - first.arrived_s),
            passed_per_s: sent / (last.arrived_s - first.arrived_s),
            queue_least_s: least.max(0.0),
            queue_most_s: most,
            overload: (last.delay_s - first.delay_s) / (last.arrived_s - first.arrived_s),
        })
    }

    /// Datagrams which arrived per second in the last `seconds`.
    pub(super) fn rate_lately(&self, seconds: f64) -> f64 {
        let Some(last) = self.points.back() else { return 0.0 };
        let begin = self.points.partition_point(|point| last.arrived_s - point.arrived_s > seconds);
        let Some(first) = self.points.get(begin) else { return 0.0 };
        (last.received - first.received) / (last.arrived_s - first.arrived_s).max(1e-6)
    }

    /// The least queueing delay of what arrived in the last `seconds`.
    pub(super) fn queue_lately(&self, seconds: f64) -> f64 {
        let Some(last) = self.points.back() else { return 0.0 };
        let lately = self.points.iter().rev().take_while(|point| last.arrived_s - point.arrived_s <= seconds);
        let least = lately.fold(f64::INFINITY, |least, point| least.min(point.delay_s));
        (least - self.base()).max(0.0)
    }
}
