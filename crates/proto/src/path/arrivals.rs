//! The receiver's record of which datagram numbers arrived: duplicates, loss, lateness, arrival rate.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_secure::ReplayWindow;
use dfcp_time::Time;

use crate::limits::{REORDER_DELAY_MAX, REORDER_MARKS_MAX};

/// The lateness seen is forgotten by half in about two seconds of reports.
const REORDER_DECAY: f64 = 0.995;

/// Times between marks, at least; together they must span the longest lateness waited for.
const MARK_SPACING_MIN: Duration = Duration::from_micros(200);

/// What one direction's datagrams looked like on arrival.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Highest number seen, and when.
    highest: Option<(u64, Time)>,
    /// Distinct datagrams.
    received: u64,
    bytes: u64,
    seen: ReplayWindow,
    /// When the highest number reached which value, oldest first.
    marks: VecDeque<(u64, Time)>,
    /// How late datagrams arrive: numbers younger than this are not reported yet.
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
            reorder_delay: Duration::ZERO,
            rate: RateMeter::default(),
        }
    }
}

impl Arrivals {
    /// Extends a 32-bit number to the 64-bit one nearest to the highest seen (\[data-1\]).
    pub(crate) fn expand(&self, number: u32) -> u64 {
        expand(number, self.highest.map_or(0, |(highest, _)| highest))
    }

    /// Whether `number` would be new. Numbers older than the window count as seen.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        self.seen.check(number)
    }

    /// Whether `number` is above all that were seen.
    pub(crate) fn is_newest(&self, number: u64) -> bool {
        self.highest.is_none_or(|(highest, _)| number > highest)
    }

    /// Takes in a datagram of `bytes` on the path; `false` if it was seen before or is too old to tell.
    pub(crate) fn observe(&mut self, now: Time, number: u64, bytes: usize) -> bool {
        if !self.seen.commit(number) {
            return false;
        }
        match self.highest {
            Some((highest, _)) if number <= highest => self.note_late(now, number),
            Some(_) | None => {
                self.highest = Some((number, now));
                self.mark(number, now);
            }
        }
        self.received += 1;
        self.bytes += bytes as u64;
        self.rate.observe(now, bytes as u64);
        true
    }

    fn mark(&mut self, number: u64, now: Time) {
        let spacing = MARK_SPACING_MIN.max(self.reorder_delay / 32);
        if self.marks.back().is_some_and(|&(_, at)| now.since(at) < spacing) {
            return;
        }
        if self.marks.len() == REORDER_MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back((number, now));
    }

    /// A datagram came after later ones: remember by how much.
    fn note_late(&mut self, now: Time, number: u64) {
        let passed_at = self.marks.iter().find(|&&(mark, _)| mark > number).map(|&(_, at)| at);
        let passed_at = passed_at.or_else(|| self.highest.map(|(_, at)| at)).unwrap_or(now);
        let late = now.since(passed_at) + MARK_SPACING_MIN;
        self.reorder_delay = self.reorder_delay.max(late).min(REORDER_DELAY_MAX);
    }

    /// The highest number whose predecessors have arrived or will not (\[report-6\]), and when it arrived. Without
    /// reordering this is the highest number seen.
    pub(crate) fn settled(&self, now: Time) -> Option<(u64, Time)> {
        let (highest, at) = self.highest?;
        if self.reorder_delay.is_zero() || now.since(at) >= self.reorder_delay {
            return Some((highest, at));
        }
        self.marks.iter().rev().find(|&&(_, at)| now.since(at) >= self.reorder_delay).copied()
    }

    /// When everything seen so far will have settled.
    pub(crate) fn settles_at(&self) -> Option<Time> {
        self.highest.map(|(_, at)| at + self.reorder_delay)
    }

    /// To be called with every report, so that an old disturbance is forgotten.
    pub(crate) fn decay(&mut self) {
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

    /// Numbers passed and never seen.
    pub(crate) fn missing(&self) -> u64 {
        self.highest.map_or(0, |(highest, _)| (highest + 1).saturating_sub(self.received))
    }

    pub(crate) fn rate_bps(&self, now: Time) -> u64 {
        self.rate.bps(now)
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

/// Bits per second over the last interval of at least 20 ms, smoothed over a few of them (\[report-8\]).
#[derive(Debug, Default)]
struct RateMeter {
    interval_start: Option<Time>,
    interval_bytes: u64,
    smoothed_bps: f64,
}

impl RateMeter {
    const INTERVAL: Duration = Duration::from_millis(20);

    fn observe(&mut self, now: Time, bytes: u64) {
        let start = *self.interval_start.get_or_insert(now);
        let elapsed = now.since(start);
        if elapsed >= Self::INTERVAL {
            let sample = self.interval_bytes as f64 * 8.0 / elapsed.as_secs_f64();
            self.smoothed_bps =
                if self.smoothed_bps == 0.0 { sample } else { self.smoothed_bps * 0.75 + sample * 0.25 };
            self.interval_start = Some(now);
            self.interval_bytes = 0;
        }
        self.interval_bytes += bytes;
    }

    fn bps(&self, now: Time) -> u64 {
        // A meter which hears nothing must not repeat an old rate for ever.
        let stale = self.interval_start.is_some_and(|start| now.since(start) > Self::INTERVAL * 50);
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

    #[test]
    fn numbers_expand_to_the_nearest() {
        assert_eq!(expand(7, 3), 7);
        assert_eq!(expand(u32::MAX, 3), u64::from(u32::MAX), "there is nothing below zero");
        assert_eq!(expand(2, u64::from(u32::MAX) - 1), (1 << 32) + 2);
        assert_eq!(expand(u32::MAX, (1 << 32) + 5), u64::from(u32::MAX));
    }
}
