//! Limit on the time that a session spends reading its peer's reports.

use dfcp_time::Time;

use crate::limits::{REPORT_PER_ITEM, REPORT_READING, REPORTS_AT_ONCE, REPORTS_SHARE};
use crate::shared::bucket::Bucket;

/// Time budget for the peer's reports. Each report visits all blocks in flight, so their number alone is no limit
/// (`spec/protocol.md` \[report-15\]).
#[derive(Debug, Default)]
pub(super) struct ReadingTime {
    bucket: Bucket,
}

impl ReadingTime {
    /// Charges the time for reading a report, with `items` blocks in flight and waiting streams. Returns false if the
    /// budget is used up.
    pub(super) fn take(&mut self, now: Time, items: usize) -> bool {
        // Permit a debt of one report, so that even the longest report can be read.
        if !self.bucket.is_full(now + REPORTS_AT_ONCE * REPORTS_SHARE) {
            return false;
        }
        let items = u32::try_from(items).unwrap_or(u32::MAX);
        self.bucket.take(now, (REPORT_READING + REPORT_PER_ITEM * items) * REPORTS_SHARE);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Number of reports read in one second, if one arrives every `interval`.
    fn read_in_a_second(interval: Duration, items: usize) -> u32 {
        let mut reading = ReadingTime::default();
        let steps = (0..).map(|step| interval * step).take_while(|&at| at < Duration::from_secs(1));
        steps.filter(|&at| reading.take(Time::from_s(9) + at, items)).count() as u32
    }

    #[test]
    fn an_honest_peer_is_read_wholly_and_a_storm_in_part() {
        let (honest, storm) = (Duration::from_millis(1), Duration::from_micros(5));
        assert_eq!(read_in_a_second(honest, 0), 1_000);
        assert_eq!(read_in_a_second(honest, 4_000), 1_000);
        let all = Duration::from_secs(1) / REPORTS_SHARE + REPORTS_AT_ONCE;
        for items in [0, 100, 4_096, 16_384, 32_768] {
            let one = REPORT_READING + REPORT_PER_ITEM * items as u32;
            let read = read_in_a_second(storm, items);
            assert!(one * read <= all + one, "{items}: {read}");
            assert!(one * (read + 1) >= all || read == 200_000, "{items}: {read}");
        }
    }

    #[test]
    fn what_waited_in_a_queue_for_a_second_is_read_at_once() {
        let mut reading = ReadingTime::default();
        assert!((0..1_000).all(|_| reading.take(Time::from_s(9), 100)));
    }
}
