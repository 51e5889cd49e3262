//! The receiver's record of arrived datagrams: duplicates, losses, lateness, and arrival rate.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_secure::ReplayWindow;
use dfcp_time::Time;
use dfcp_wire::MARKS_MAX;
use dfcp_wire::feedback::{LossRun, Mark};

use crate::limits::{REORDER_DELAY_MAX, REORDER_MARKS_MAX};

/// Factor by which each report reduces the measured lateness. It halves after 138 reports: about 1.4 s at the longest
/// report interval.
const REORDER_DECAY: f64 = 0.995;

/// Minimum time between two marks. All marks together must span the longest lateness that is tolerated.
const MARK_SPACING_MIN: Duration = Duration::from_micros(200);

/// A mark: the arrival counters at one time.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    highest: u64,
    received: u64,
    at: Time,
}

/// Arrivals of one direction.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Highest number seen, and its arrival time.
    highest: Option<(u64, Time)>,
    /// Number of distinct datagrams received.
    received: u64,
    bytes: u64,
    seen: ReplayWindow,
    /// Arrival counters at recent times (marks), oldest first.
    marks: VecDeque<Arrived>,
    /// Arrival time of the highest datagram in the last report.
    told_at: Time,
    /// Longest recent lateness of a datagram. Reports wait this long for numbers that may still arrive.
    reorder_delay: Duration,
    rate: RateMeter,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self {
            highest: None,
            received: 0,
            bytes: 0,
            seen: ReplayWindow::new(),
            marks: VecDeque::new(),
            told_at: Time::ZERO,
            reorder_delay: Duration::ZERO,
            rate: RateMeter::default(),
        }
    }
}

impl Arrivals {
    /// Extends a 32-bit number to the 64-bit number nearest to the highest one seen (\[data-1\]).
    pub(crate) fn expand(&self, number: u32) -> u64 {
        expand(number, self.highest.map_or(0, |(highest, _)| highest))
    }

    /// Returns true if `number` is new. Numbers older than the replay window count as seen.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        self.seen.check(number)
    }

    /// Returns true if `number` is above all numbers seen.
    pub(crate) fn is_newest(&self, number: u64) -> bool {
        self.highest.is_none_or(|(highest, _)| number > highest)
    }

    /// Records a datagram of `bytes` bytes on the path. Returns false if it is a duplicate, or too old to tell.
    pub(crate) fn observe(&mut self, now: Time, number: u64, bytes: usize) -> bool {
        if !self.seen.commit(number) {
            return false;
        }
        match self.highest {
            Some((highest, _)) if number <= highest => self.note_late(now, number),
            before => {
                if let Some(last) = before {
                    self.mark_end(last, now);
                }
                self.highest = Some((number, now));
                self.mark(number, now);
            }
        }
        self.received += 1;
        self.bytes += bytes as u64;
        self.rate.observe(now, bytes as u64);
        true
    }

    /// Returns true if the number before this one is missing.
    pub(crate) fn has_gap_before(&self, number: u64) -> bool {
        number.checked_sub(1).is_some_and(|before| self.seen.check(before))
    }

    /// Returns the runs of missing datagrams, from `highest` down.
    pub(crate) fn loss_runs(&self, highest: u64) -> impl Iterator<Item = LossRun> {
        let number = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.seen.runs_below(highest).map(move |(gap, length)| LossRun { gap: number(gap), length: number(length) })
    }

    fn mark_spacing(&self) -> Duration {
        MARK_SPACING_MIN.max(self.reorder_delay / 32)
    }

    /// Adds a mark for the datagram `highest`, which is not counted yet, if the last mark is old enough.
    fn mark(&mut self, highest: u64, now: Time) {
        if self.marks.back().is_none_or(|mark| now.since(mark.at) >= self.mark_spacing()) {
            self.add_mark(Arrived { highest, received: self.received + 1, at: now });
        }
    }

    /// Marks the end of a packet train: the last datagram before a gap. The sender computes a train's rate from its
    /// first and last mark.
    fn mark_end(&mut self, (highest, at): (u64, Time), now: Time) {
        let is_marked = self.marks.back().is_some_and(|mark| mark.at >= at);
        if !is_marked && now.since(at) >= self.mark_spacing() / 2 {
            self.add_mark(Arrived { highest, received: self.received, at });
        }
    }

    fn add_mark(&mut self, mark: Arrived) {
        if self.marks.len() == REORDER_MARKS_MAX {
            self.marks.pop_front();
        }
        if self.marks.capacity() == 0 {
            self.marks.reserve_exact(1);
        }
        self.marks.push_back(mark);
    }

    /// Updates the lateness from a datagram that arrived after higher numbers.
    fn note_late(&mut self, now: Time, number: u64) {
        let passed_at = self.marks.iter().find(|mark| mark.highest > number).map(|mark| mark.at);
        let passed_at = passed_at.or_else(|| self.highest.map(|(_, at)| at)).unwrap_or(now);
        let late = now.since(passed_at) + MARK_SPACING_MIN;
        self.reorder_delay = self.reorder_delay.max(late).min(REORDER_DELAY_MAX);
    }

    /// Returns the highest number whose predecessors have arrived or are lost (\[report-6\]), and its arrival time.
    /// Without reordering this is the highest number seen.
    pub(crate) fn settled(&self, now: Time) -> Option<(u64, Time)> {
        let (highest, at) = self.highest?;
        if self.reorder_delay.is_zero() || now.since(at) >= self.reorder_delay {
            return Some((highest, at));
        }
        let settled = self.marks.iter().rev().find(|mark| now.since(mark.at) >= self.reorder_delay);
        settled.map(|mark| (mark.highest, mark.at))
    }

    /// Returns the time at which all numbers seen so far are settled.
    pub(crate) fn settles_at(&self) -> Option<Time> {
        self.highest.map(|(_, at)| at + self.reorder_delay)
    }

    /// Returns the marks for a report that names datagram `highest`, arrived at `at`: the first mark since the last
    /// report, and some more spread evenly. They are sorted newest first. Numbers count back from `highest`, received
    /// datagrams from the current total.
    pub(crate) fn marks_for_report(&self, (highest, at): (u64, Time)) -> MarksForReport {
        let newer = self.marks.partition_point(|mark| mark.at <= self.told_at);
        let end = self.marks.partition_point(|mark| mark.at < at && mark.highest <= highest);
        let count = end.saturating_sub(newer);
        let mut chosen = MarksForReport::default();
        for place in (0..MARKS_MAX.min(count)).rev() {
            // Take all of a few marks; of many, the first one of each third.
            let Some(mark) = self.marks.get(newer + place * count / MARKS_MAX.min(count)) else { continue };
            let back_us = at.since(mark.at).as_micros();
            let mark = Mark {
                back_us: u32::try_from(back_us).unwrap_or(u32::MAX),
                numbers_back: u32::try_from(highest - mark.highest).unwrap_or(u32::MAX),
                received_back: u32::try_from(self.received - mark.received).unwrap_or(u32::MAX),
            };
            // A mark in the same microsecond as `at` carries no information.
            if mark.back_us > 0 {
                chosen.marks[chosen.count] = mark;
                chosen.count += 1;
            }
        }
        chosen
    }

    /// Must be called for every report, with the arrival time of the datagram that it names. Reduces the measured
    /// lateness.
    pub(crate) fn on_reported(&mut self, told_at: Time) {
        self.told_at = told_at;
        self.reorder_delay = self.reorder_delay.mul_f64(REORDER_DECAY);
        if self.reorder_delay < MARK_SPACING_MIN {
            self.reorder_delay = Duration::ZERO;
        }
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of skipped datagram numbers that have not arrived.
    pub(crate) fn missing(&self) -> u64 {
        self.highest.map_or(0, |(highest, _)| (highest + 1).saturating_sub(self.received))
    }

    pub(crate) fn rate_bps(&self, now: Time) -> u64 {
        self.rate.bps(now)
    }
}

/// Arrival counters at earlier times (marks), for a report.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MarksForReport {
    marks: [Mark; MARKS_MAX],
    count: usize,
}

impl MarksForReport {
    pub(crate) fn as_slice(&self) -> &[Mark] {
        &self.marks[..self.count]
    }
}

/// Extends a 32-bit counter to the 64-bit value nearest to `reference`.
pub(crate) fn expand(number: u32, reference: u64) -> u64 {
    let base = reference & !u64::from(u32::MAX);
    let candidate = base | u64::from(number);
    let half = 1 << 31;
    if candidate + half < reference {
        candidate + (1 << 32)
    } else if candidate > reference + half && candidate >= 1 << 32 {
        candidate - (1 << 32)
    } else {
        candidate
    }
}

/// Arrival rate over intervals of at least 20 ms, smoothed over a few of them, bit/s (\[report-8\]).
#[derive(Debug, Default)]
struct RateMeter {
    /// Start of the interval in which `interval_bytes` arrived.
    interval_start: Time,
    interval_bytes: u64,
    smoothed_bps: f64,
}

impl RateMeter {
    const INTERVAL: Duration = Duration::from_millis(20);

    fn observe(&mut self, now: Time, bytes: u64) {
        if self.interval_bytes == 0 {
            self.interval_start = now;
        }
        let elapsed = now.since(self.interval_start);
        if elapsed >= Self::INTERVAL {
            let sample = self.interval_bytes as f64 * 8.0 / elapsed.as_secs_f64();
            self.smoothed_bps =
                if self.smoothed_bps == 0.0 { sample } else { self.smoothed_bps * 0.75 + sample * 0.25 };
            self.interval_start = now;
            self.interval_bytes = 0;
        }
        self.interval_bytes += bytes;
    }

    fn bps(&self, now: Time) -> u64 {
        // Without arrivals an old rate must not be reported for ever.
        let stale = now.since(self.interval_start) > Self::INTERVAL * 50;
        if stale { 0 } else { self.smoothed_bps as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::REPLAY_WINDOW_DATAGRAMS;

    #[test]
    fn duplicates_are_told_from_late_datagrams() {
        let mut arrivals = Arrivals::default();
        let at = Time::from_ms;
        assert!(arrivals.observe(at(1), 0, 100));
        assert!(arrivals.observe(at(2), 5, 100));
        assert!(arrivals.observe(at(3), 3, 100), "late, but new");
        assert!(!arrivals.observe(at(4), 3, 100));
        assert!(!arrivals.observe(at(4), 5, 100));
        assert_eq!((arrivals.received(), arrivals.missing()), (3, 3));
        assert!(arrivals.observe(at(5), 5 + REPLAY_WINDOW_DATAGRAMS, 100));
        assert!(!arrivals.observe(at(5), 5, 100), "older than the window counts as seen");
        assert!(arrivals.observe(at(5), 6, 100));
    }

    #[test]
    fn after_reordering_young_numbers_wait_to_be_reported() {
        let mut arrivals = Arrivals::default();
        arrivals.observe(Time::from_ms(0), 0, 1);
        assert_eq!(arrivals.settled(Time::from_ms(0)), Some((0, Time::from_ms(0))));
        arrivals.observe(Time::from_ms(1), 2, 1);
        arrivals.observe(Time::from_ms(4), 1, 1);
        arrivals.observe(Time::from_ms(5), 3, 1);
        assert_eq!(arrivals.settled(Time::from_ms(5)).map(|s| s.0), Some(2), "3 may still be overtaken");
        assert_eq!(arrivals.settled(Time::from_ms(60)).map(|s| s.0), Some(3));
    }

    /// Returns the marks of a report at `us`, as (µs back, numbers back, datagrams received back).
    fn told(arrivals: &mut Arrivals, us: u64) -> Vec<(u32, u32, u32)> {
        let settled = arrivals.settled(Time::from_us(us)).unwrap();
        let marks = arrivals.marks_for_report(settled);
        arrivals.on_reported(settled.1);
        marks.as_slice().iter().map(|mark| (mark.back_us, mark.numbers_back, mark.received_back)).collect()
    }

    #[test]
    fn marks_are_spread_over_what_has_arrived_since_the_last_report() {
        let mut arrivals = Arrivals::default();
        // One datagram per 250 µs; number 5 is lost.
        let arrive = |arrivals: &mut Arrivals, numbers: std::ops::Range<u64>| {
            for number in numbers.filter(|&number| number != 5) {
                assert!(arrivals.observe(Time::from_us(1_000 + 250 * number), number, 100));
            }
        };
        arrive(&mut arrivals, 0..1);
        assert_eq!(told(&mut arrivals, 1_000), []);
        arrive(&mut arrivals, 1..4);
        assert_eq!(told(&mut arrivals, 1_750), [(250, 1, 1), (500, 2, 2)]);
        arrive(&mut arrivals, 4..15);
        // The first mark since the last report is number 4, the newest 14.
        assert_eq!(told(&mut arrivals, 4_500), [(750, 3, 3), (1_500, 6, 6), (2_500, 10, 9)]);
        assert_eq!(told(&mut arrivals, 5_000), [], "nothing since");
    }

    proptest::proptest! {
        /// Marks are valid in a report for any order of arrivals (`spec/wire-format.md` §9).
        #[test]
        fn marks_are_such_as_a_report_may_have(
            steps in proptest::collection::vec((0_u64..40, 0_u64..3_000, proptest::bool::weighted(0.2)), 1..300),
        ) {
            let (mut arrivals, mut us, mut highest) = (Arrivals::default(), 0, 0_u64);
            for (step, pause_us, is_reported) in steps {
                us += pause_us;
                let number = (highest + step).saturating_sub(8);
                arrivals.observe(Time::from_us(us), number, 100);
                highest = highest.max(number);
                let settled = arrivals.settled(Time::from_us(us)).filter(|_| is_reported);
                let Some(settled) = settled else { continue };
                let marks = arrivals.marks_for_report(settled);
                let report = dfcp_wire::feedback::Report::default();
                let mut out = [0; 256];
                let mut writer = dfcp_wire::feedback::ReportWriter::new(&mut out, &report).unwrap();
                proptest::prop_assert!(marks.as_slice().is_empty() || writer.marks(marks.as_slice()), "{marks:?}");
                arrivals.on_reported(settled.1);
                arrivals.marks_for_report(settled).as_slice().iter().for_each(|mark| assert!(mark.back_us > 0));
            }
        }
    }

    #[test]
    fn numbers_expand_to_the_nearest() {
        assert_eq!(expand(7, 3), 7);
        assert_eq!(expand(u32::MAX, 3), u64::from(u32::MAX), "there is nothing below zero");
        assert_eq!(expand(2, u64::from(u32::MAX) - 1), (1 << 32) + 2);
        assert_eq!(expand(u32::MAX, (1 << 32) + 5), u64::from(u32::MAX));
    }
}
