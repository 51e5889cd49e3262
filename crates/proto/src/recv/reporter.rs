//! When the modern receiver reports.

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_time::Time;

/// Reports are never closer together than this.
const SPACING_MIN: Duration = Duration::from_millis(1);

/// How often news that nothing would repeat by itself is repeated: three copies survive a path that loses many.
const REPEATS: u8 = 2;

/// Where so much time lies between arrivals, they are a slow stream, or one of many which take turns: news are repeated only
/// when the next ones are overdue. After a longer time it is something else that arrives.
const GAPS: RangeInclusive<Duration> = Duration::from_millis(4)..=Duration::from_millis(32);

/// Decides when a report is due: regularly while datagrams arrive, at once when a block is done and nothing else is
/// open, and some times more after the last news.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    last: Option<Time>,
    /// Something has arrived since the last report.
    pending_since: Option<Time>,
    /// A report is wanted as soon as the spacing allows.
    urgent: bool,
    repeats: u8,
    /// When something arrived last, and how long nothing had arrived before the first since the last report.
    arrived: Option<Time>,
    gap: Duration,
    /// Nothing is asked of us before a settling instant has passed.
    again_at: Option<Time>,
}

impl Reporter {
    /// A datagram which the peer wants to hear about has arrived.
    pub(crate) fn on_arrival(&mut self, now: Time) {
        if self.pending_since.is_none() {
            self.pending_since = Some(now);
            self.gap = self.arrived.map_or(Duration::ZERO, |before| now.since(before));
        }
        self.arrived = Some(now);
        self.repeats = REPEATS;
    }

    /// The peer waits for this report.
    pub(crate) fn on_urgent(&mut self, now: Time) {
        self.on_arrival(now);
        self.urgent = true;
    }

    /// The last report could not yet speak of all that arrived; at `at` it can.
    pub(crate) fn again_at(&mut self, at: Time) {
        self.again_at = Some(at);
    }

    /// When the next report is due.
    pub(crate) fn due_at(&self, interval: Duration) -> Option<Time> {
        let earliest = self.last.map_or(Time::ZERO, |last| last + SPACING_MIN);
        let regular = if self.urgent {
            Some(earliest)
        } else if self.pending_since.is_some() {
            Some(self.last.map_or(Time::ZERO, |last| last + interval))
        } else if self.repeats > 0 {
            self.last.map(|last| last + if GAPS.contains(&self.gap) { self.gap * 2 } else { SPACING_MIN })
        } else {
            None
        };
        let again = self.again_at.map(|at| at.max(earliest));
        regular.into_iter().chain(again).min()
    }

    pub(crate) fn on_sent(&mut self, now: Time) {
        if self.pending_since.is_none() {
            self.repeats = self.repeats.saturating_sub(1);
        }
        if self.again_at.is_some_and(|at| at <= now) {
            self.again_at = None;
        }
        self.pending_since = None;
        self.urgent = false;
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(5);

    #[test]
    fn reports_come_at_the_interval_and_the_last_news_three_times() {
        let mut reporter = Reporter::default();
        assert_eq!(reporter.due_at(INTERVAL), None);
        reporter.on_arrival(Time::from_ms(10));
        assert_eq!(reporter.due_at(INTERVAL), Some(Time::ZERO), "the first one is not waited for");
        reporter.on_sent(Time::from_ms(10));
        reporter.on_arrival(Time::from_ms(11));
        assert_eq!(reporter.due_at(INTERVAL), Some(Time::from_ms(15)));
        reporter.on_sent(Time::from_ms(15));
        assert_eq!(reporter.due_at(INTERVAL), Some(Time::from_ms(16)));
        reporter.on_sent(Time::from_ms(16));
        reporter.on_sent(Time::from_ms(17));
        assert_eq!(reporter.due_at(INTERVAL), None);
    }

    #[test]
    fn where_arrivals_are_far_apart_news_are_repeated_when_the_next_are_overdue() {
        let repeat_after_ms = |gap_ms: u64| {
            let mut reporter = Reporter::default();
            for at_ms in [100, 100 + gap_ms] {
                reporter.on_arrival(Time::from_ms(at_ms));
                reporter.on_arrival(Time::from_ms(at_ms));
                reporter.on_sent(Time::from_ms(at_ms));
            }
            reporter.due_at(INTERVAL).unwrap().since(Time::from_ms(100 + gap_ms)).as_millis()
        };
        assert_eq!([1, 3, 4, 12, 32, 33, 1_000].map(repeat_after_ms), [1, 1, 8, 24, 64, 1, 1]);
    }

    #[test]
    fn urgent_news_wait_for_the_spacing_only() {
        let mut reporter = Reporter::default();
        reporter.on_arrival(Time::from_ms(10));
        reporter.on_sent(Time::from_ms(10));
        reporter.on_urgent(Time::from_ms(10));
        assert_eq!(reporter.due_at(INTERVAL), Some(Time::from_ms(11)));
    }
}
