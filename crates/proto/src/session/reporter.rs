//! Schedule of the modern receiver's reports.

use std::ops::RangeInclusive;
use std::time::Duration;

use dfcp_time::Time;

use crate::limits::REPORT_SPACING_MIN;

/// Extra copies of the last report, which nothing else would repeat. Three copies in all survive a path with heavy
/// loss.
const REPEATS: u8 = 2;

/// Datagrams since the last report from which on the short report interval applies.
const MUCH: u32 = 160;

/// Gap lengths that count as pauses between the bursts of a slow stream, or of one of many streams that take turns.
/// With such pauses, reports are repeated only once the next burst is overdue. A longer gap ends the sequence of
/// pauses.
const PAUSE: RangeInclusive<Duration> = Duration::from_millis(4)..=Duration::from_millis(32);

/// Number of pauses in a row that identifies a stream of bursts. One or two may be a handshake, or a request and its
/// response.
const PAUSES_MIN: u8 = 8;

/// A burst that lasts longer than this many pauses is a continuous stream.
const SPURT_PAUSES_MAX: u32 = 4;

/// Decides when a report is due (`spec/protocol.md` \[report-3\], \[report-4\]): regularly while datagrams arrive,
/// immediately when a block is decoded and no other block is open, and a few more times after the last news.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    last: Option<Time>,
    /// Time of the first arrival since the last report.
    pending_since: Option<Time>,
    /// Datagrams since the last report.
    unreported: u32,
    /// A report is wanted as soon as the minimum spacing allows.
    urgent: bool,
    repeats: u8,
    /// Time of the latest arrival.
    arrived: Option<Time>,
    /// Length of the last pause.
    pause: Duration,
    /// Time when the last pause ended.
    paused_at: Time,
    /// Number of pauses in a row.
    pauses: u8,
    /// Time of another report, about arrivals that the last one could not yet describe.
    again_at: Option<Time>,
}

impl Reporter {
    /// Records a datagram that requires a report (\[report-1\]).
    pub(crate) fn on_arrival(&mut self, now: Time) {
        self.note_pause(now, self.arrived.map_or(Duration::ZERO, |before| now.since(before)));
        self.arrived = Some(now);
        self.unreported = self.unreported.saturating_add(1);
        self.have_news(now);
    }

    fn note_pause(&mut self, now: Time, gap: Duration) {
        if PAUSE.contains(&gap) {
            (self.pause, self.paused_at, self.pauses) = (gap, now, self.pauses.saturating_add(1));
        } else if self.pauses > 0 && (gap > *PAUSE.end() || now.since(self.paused_at) > self.pause * SPURT_PAUSES_MAX) {
            self.pauses = 0;
        }
    }

    /// Records a datagram whose report the peer is waiting for.
    pub(crate) fn on_urgent(&mut self, now: Time) {
        self.on_arrival(now);
        self.urgent = true;
    }

    /// Requests an immediate report, without which the peer cannot go on sending.
    pub(crate) fn on_own_news(&mut self, now: Time) {
        self.pauses = 0;
        self.have_news(now);
        self.urgent = true;
    }

    fn have_news(&mut self, now: Time) {
        self.pending_since.get_or_insert(now);
        self.repeats = REPEATS;
    }

    /// Requests another report, since the last one had no room for all news, or news must be repeated.
    pub(crate) fn owe_another(&mut self) {
        self.repeats = self.repeats.max(1);
    }

    /// Requests another report at time `at`, about arrivals that the last report could not yet describe.
    pub(crate) fn again_at(&mut self, at: Time) {
        self.again_at = Some(at);
    }

    /// Returns the time for reporting news that arises at `at`. `None` if an urgent report is already pending.
    pub(crate) fn due_for(&self, at: Time) -> Option<Time> {
        (!self.urgent).then(|| at.max(self.last.map_or(Time::ZERO, |last| last + REPORT_SPACING_MIN)))
    }

    /// Returns the time of the next report. The regular interval is `interval`, or `of_much` after many arrivals.
    pub(crate) fn due_at(&self, interval: Duration, of_much: Duration) -> Option<Time> {
        let earliest = self.last.map_or(Time::ZERO, |last| last + REPORT_SPACING_MIN);
        let regular = if self.urgent {
            Some(earliest)
        } else if self.pending_since.is_some() {
            let interval = if self.unreported >= MUCH { of_much } else { interval };
            Some(self.last.map_or(Time::ZERO, |last| last + interval))
        } else if self.repeats > 0 {
            self.last.map(|last| last + if self.pauses >= PAUSES_MIN { self.pause * 2 } else { REPORT_SPACING_MIN })
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
        self.unreported = 0;
        self.urgent = false;
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(5);
    const OF_MUCH: Duration = Duration::from_millis(2);

    #[test]
    fn reports_come_at_the_interval_and_the_last_news_three_times() {
        let mut reporter = Reporter::default();
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), None);
        reporter.on_arrival(Time::from_ms(10));
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(Time::ZERO), "the first one is not waited for");
        reporter.on_sent(Time::from_ms(10));
        reporter.on_arrival(Time::from_ms(11));
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(Time::from_ms(15)));
        reporter.on_sent(Time::from_ms(15));
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(Time::from_ms(16)));
        reporter.on_sent(Time::from_ms(16));
        reporter.on_sent(Time::from_ms(17));
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), None);
    }

    #[test]
    fn much_is_reported_sooner() {
        let mut reporter = Reporter::default();
        reporter.on_arrival(Time::from_ms(10));
        reporter.on_sent(Time::from_ms(10));
        for _ in 0..3 {
            (1..MUCH).for_each(|_| reporter.on_arrival(Time::from_ms(11)));
            assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(Time::from_ms(15)));
            reporter.on_arrival(Time::from_ms(11));
            assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(Time::from_ms(12)));
            reporter.on_sent(Time::from_ms(10));
        }
    }

    /// Returns a reporter and the time after `pauses` pauses of `pause_ms` ms. The bursts between them last 2 ms and
    /// cause two reports each.
    fn after(pauses: u64, pause_ms: u64) -> (Reporter, Time) {
        let mut reporter = Reporter::default();
        let mut now = Time::from_ms(100);
        for spurt in 0..=pauses {
            now += Duration::from_millis(if spurt == 0 { 0 } else { pause_ms });
            reporter.on_arrival(now);
            reporter.on_sent(now);
            now += Duration::from_millis(2);
            reporter.on_arrival(now);
            reporter.on_arrival(now);
            reporter.on_sent(now);
        }
        (reporter, now)
    }

    fn repeat_after_ms((reporter, last): (Reporter, Time)) -> u128 {
        reporter.due_at(INTERVAL, OF_MUCH).unwrap().since(last).as_millis()
    }

    #[test]
    fn where_spurts_are_far_apart_news_are_repeated_when_the_next_is_overdue() {
        assert_eq!([1, 3, 4, 12, 32, 33, 1_000].map(|pause| repeat_after_ms(after(8, pause))), [1, 1, 8, 24, 64, 1, 1]);
        assert_eq!(repeat_after_ms(after(7, 12)), 1, "a handshake, or questions and answers");
        let (mut reporter, last) = after(20, 12);
        let later = last + Duration::from_millis(40);
        reporter.on_arrival(later);
        reporter.on_sent(later);
        assert_eq!(repeat_after_ms((reporter, later)), 1, "something else");
        let (mut reporter, last) = after(20, 12);
        (1..60).for_each(|ms| reporter.on_arrival(last + Duration::from_millis(ms)));
        let later = last + Duration::from_millis(60);
        reporter.on_sent(later);
        assert_eq!(repeat_after_ms((reporter, later)), 1, "it has become fast");
    }

    #[test]
    fn what_the_peer_waits_for_is_repeated_at_once() {
        let (mut reporter, last) = after(20, 12);
        let now = last + Duration::from_millis(10);
        reporter.on_own_news(now);
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(last + Duration::from_millis(1)));
        reporter.on_sent(now);
        assert_eq!(repeat_after_ms((reporter, now)), 1);
    }

    #[test]
    fn urgent_news_wait_for_the_spacing_only() {
        let mut reporter = Reporter::default();
        reporter.on_arrival(Time::from_ms(10));
        reporter.on_sent(Time::from_ms(10));
        reporter.on_urgent(Time::from_ms(10));
        assert_eq!(reporter.due_at(INTERVAL, OF_MUCH), Some(Time::from_ms(11)));
    }
}
