//! Schedule of calls to the peer of a lost session.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{CALL_INTERVAL, CALL_INTERVAL_LATER, CALLS_FREQUENT};

/// Schedule of calls: frequent at first and less frequent later, counted from the last progress.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Time of the first loss since the last progress.
    since: Option<Instant>,
    last_call: Option<Instant>,
}

impl Schedule {
    /// Starts an outage at `now`; `has_progressed` restarts the schedule.
    pub(super) fn begin(&mut self, now: Instant, has_progressed: bool) {
        if has_progressed || self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Returns the time of the next call; `now` if the call is overdue.
    pub(super) fn due(&self, now: Instant) -> Instant {
        self.last_call.map_or(now, |last| now.max(last + self.interval(last)))
    }

    /// Records the start of a call.
    pub(super) fn called(&mut self, now: Instant) {
        self.last_call = Some(now);
    }

    /// Returns true if the outage has lasted for `limit`.
    pub(super) fn is_over(&self, now: Instant, limit: Duration) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    fn interval(&self, last: Instant) -> Duration {
        let lasted = self.since.map_or(Duration::ZERO, |since| last.saturating_duration_since(since));
        if lasted < CALLS_FREQUENT { CALL_INTERVAL } else { CALL_INTERVAL_LATER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the call times, in seconds after the loss, for a caller that always calls when due.
    fn calls(schedule: &mut Schedule, lost: Instant, until: Duration) -> Vec<u64> {
        let mut made = Vec::new();
        let mut now = lost;
        while now < lost + until {
            now = schedule.due(now);
            schedule.called(now);
            made.push(now.saturating_duration_since(lost).as_secs());
            now += Duration::from_millis(1);
        }
        made
    }

    #[test]
    fn the_first_call_is_made_at_once_and_others_a_second_later_and_after_a_minute_two() {
        let mut schedule = Schedule::default();
        let lost = Instant::now();
        schedule.begin(lost, true);
        let made = calls(&mut schedule, lost, seconds(70));
        let expected: Vec<u64> = (0..=60).chain([62, 64, 66, 68, 70]).collect();
        assert_eq!(made, expected);
    }

    #[test]
    fn only_progress_begins_anew() {
        let mut schedule = Schedule::default();
        let lost = Instant::now();
        schedule.begin(lost, true);
        schedule.called(lost);
        // A session without progress causes no burst of calls, and does not extend the time limit.
        let again = lost + Duration::from_millis(10);
        schedule.begin(again, false);
        assert_eq!(schedule.due(again), lost + seconds(1));
        assert!(!schedule.is_over(lost + seconds(9), seconds(10)) && schedule.is_over(lost + seconds(10), seconds(10)));
        schedule.begin(lost + seconds(9), true);
        assert!(!schedule.is_over(lost + seconds(18), seconds(10)));
    }
}
