//! Arrivals as reported, and what became of consecutive datagrams.

use std::collections::VecDeque;

use super::params::P;
use crate::config::controller::Mark;
use crate::limits::RATE_MARKS_MAX;

/// A mark in the arithmetic of the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Datagrams sent up to this one, and arrived.
    pub(super) sent: f64,
    pub(super) received: f64,
    /// Departure by our clock, and arrival by the peer's, seconds.
    pub(super) sent_s: f64,
    pub(super) arrived_s: f64,
    /// Silence of the sender so far, seconds.
    pub(super) paused_s: f64,
    /// One-way delay from a constant origin, seconds, without the drift of clocks.
    pub(super) delay_s: f64,
}

/// Consecutive datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    /// Datagrams sent, and lost.
    pub(super) sent: f64,
    pub(super) lost: f64,
    /// Time of their departures, and of their arrivals, seconds.
    pub(super) sent_s: f64,
    pub(super) arrived_s: f64,
    /// The least of their delays, a low quantile, and the greatest, seconds.
    pub(super) least_s: f64,
    pub(super) low_s: f64,
    pub(super) top_s: f64,
}

impl Span {
    pub(super) fn loss(&self) -> f64 {
        (self.lost / self.sent.max(1.0)).clamp(0.0, 1.0)
    }

    pub(super) fn sent_per_s(&self) -> f64 {
        self.sent / self.sent_s.max(1e-6)
    }

    pub(super) fn arrives_per_s(&self) -> f64 {
        (self.sent - self.lost) / self.arrived_s.max(1e-6)
    }

    /// Datagrams per second that the bottleneck passed, if all losses happened behind it.
    pub(super) fn passes_per_s(&self) -> f64 {
        self.sent / self.arrived_s.max(1e-6)
    }

    /// Adds a newer span, whose delays are taken over; this one keeps the weight `kept`.
    pub(super) fn pool(&mut self, newer: &Self, kept: f64) {
        self.sent = self.sent * kept + newer.sent;
        self.lost = self.lost * kept + newer.lost;
        self.sent_s = self.sent_s * kept + newer.sent_s;
        self.arrived_s = self.arrived_s * kept + newer.arrived_s;
        (self.least_s, self.low_s, self.top_s) = (newer.least_s, newer.low_s, newer.top_s);
    }
}

/// The newest marks, oldest first.
#[derive(Debug, Default)]
pub(super) struct Marks {
    points: VecDeque<Point>,
    /// First arrival by the peer's clock, and the newest after it, µs.
    origin_us: Option<u32>,
    newest_us: i64,
}

impl Marks {
    /// Converts a mark; `drift_s` is the shift of the peer's clock since the beginning.
    pub(super) fn point(&mut self, mark: &Mark, drift_s: f64) -> Point {
        let arrived_us = self.arrived_us(mark);
        self.newest_us = self.newest_us.max(arrived_us);
        let (arrived_s, sent_s) = (arrived_us as f64 / 1e6, mark.sent_at.as_ns() as f64 / 1e9);
        let (sent, received) = (mark.sent as f64, mark.received as f64);
        let paused_s = self.last().map_or(0.0, |last| last.paused_s);
        Point { sent, received, sent_s, arrived_s, paused_s, delay_s: arrived_s - sent_s - drift_s }
    }

    /// Arrival after the first one, µs. The clock's numbers wrap; each is the nearest to the newest.
    fn arrived_us(&mut self, mark: &Mark) -> i64 {
        let origin_us = *self.origin_us.get_or_insert(mark.arrived_us);
        let newest_us = (self.newest_us as u32).wrapping_add(origin_us);
        self.newest_us + i64::from(mark.arrived_us.wrapping_sub(newest_us).cast_signed())
    }

    /// One-way delay as the clocks show it, seconds.
    pub(super) fn raw_delay_s(&mut self, mark: &Mark) -> f64 {
        self.arrived_us(mark) as f64 / 1e6 - mark.sent_at.as_ns() as f64 / 1e9
    }

    /// True if the point continues the newest one.
    pub(super) fn continues(&self, point: &Point) -> bool {
        self.points.back().is_none_or(|last| {
            point.sent > last.sent && point.received >= last.received && point.arrived_s >= last.arrived_s
        })
    }

    pub(super) fn push(&mut self, point: Point) {
        if self.points.len() == RATE_MARKS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    pub(super) fn last(&self) -> Option<Point> {
        self.points.back().copied()
    }

    /// Datagrams behind number `from` up to `until`, from the end of one clump of arrivals, `clump_s` long, to the
    /// end of another.
    pub(super) fn span(&self, from: f64, until: f64, clump_s: f64) -> Option<Span> {
        let mut begin = self.points.partition_point(|point| point.sent <= from);
        let end = self.points.partition_point(|point| point.sent <= until);
        let last = *self.points.get(end.checked_sub(1)?)?;
        while begin + 1 < end && self.points[begin + 1].arrived_s - self.points[begin].arrived_s < clump_s {
            begin += 1;
        }
        let first = *self.points.get(begin)?;
        if last.sent <= first.sent || last.arrived_s <= first.arrived_s {
            return None;
        }
        let mut delays: Vec<f64> = self.points.range(begin..end).map(|point| point.delay_s).collect();
        delays.sort_unstable_by(f64::total_cmp);
        let sent = last.sent - first.sent;
        Some(Span {
            sent,
            lost: (sent - (last.received - first.received)).max(0.0),
            sent_s: last.sent_s - first.sent_s,
            arrived_s: last.arrived_s - first.arrived_s,
            least_s: delays[0],
            low_s: quantile(&delays),
            top_s: delays[delays.len() - 1],
        })
    }

    /// Rate at which datagrams behind number `from` up to `until` arrived, where none was lost in between, datagrams per
    /// second: neither a full queue nor a loss behind the bottleneck changes it. `None` if fewer than `least` tell.
    pub(super) fn clean_per_s(&self, from: f64, until: f64, least: f64) -> Option<f64> {
        let begin = self.points.partition_point(|point| point.sent <= from);
        let end = self.points.partition_point(|point| point.sent <= until);
        let points = self.points.range(begin..end.max(begin));
        let pairs = points.clone().zip(points.skip(1));
        let clean = pairs.filter(|(first, next)| next.received - first.received >= next.sent - first.sent);
        let (sent, time_s) = clean.fold((0.0, 0.0), |(sent, time_s), (first, next)| {
            (sent + next.sent - first.sent, time_s + next.arrived_s - first.arrived_s)
        });
        (sent >= least && time_s > 0.0).then(|| sent / time_s)
    }

    /// Datagrams from the last mark before number `from` to the first one behind `until`: those sent, those lost, and
    /// their longest delay, seconds.
    pub(super) fn around(&self, from: f64, until: f64) -> Option<(f64, f64, f64)> {
        let begin = self.points.partition_point(|point| point.sent <= from).checked_sub(1)?;
        let end = self.points.partition_point(|point| point.sent < until);
        let (first, last) = (self.points.get(begin)?, self.points.get(end)?);
        let sent = last.sent - first.sent;
        let top_s = self.points.range(begin + 1..=end).map(|point| point.delay_s).reduce(f64::max)?;
        Some((sent, sent - (last.received - first.received), top_s))
    }

    /// Datagrams that arrived per second up to the newest mark, over `least_s` and `arrivals` at least, or over all
    /// marks. Silence of the sender does not count.
    pub(super) fn delivery(&self, least_s: f64, arrivals: f64) -> Option<f64> {
        let last = self.points.back()?;
        let time_s = |point: &Point| last.arrived_s - point.arrived_s - (last.paused_s - point.paused_s);
        let is_enough = |point: &&Point| time_s(point) >= least_s && last.received - point.received >= arrivals;
        let first = self.points.iter().rev().find(is_enough).or_else(|| self.points.front())?;
        let time_s = time_s(first);
        (time_s > 0.0).then(|| (last.received - first.received) / time_s)
    }

    /// Low quantile of the delays in the last `seconds` of arrivals.
    pub(super) fn low_delay_s(&self, seconds: f64) -> Option<f64> {
        let last = self.points.back()?;
        let lately = self.points.iter().rev().take_while(|point| last.arrived_s - point.arrived_s <= seconds);
        let mut delays: Vec<f64> = lately.map(|point| point.delay_s).collect();
        delays.sort_unstable_by(f64::total_cmp);
        Some(quantile(&delays))
    }
}

fn quantile(sorted: &[f64]) -> f64 {
    sorted.get((sorted.len() as f64 * P.low_quantile) as usize).copied().unwrap_or_default()
}
