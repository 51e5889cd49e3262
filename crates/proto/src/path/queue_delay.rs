//! Queueing delay of datagrams: the excess of their one-way delay over the recent minimum.
//!
//! The unknown offset between the receiver's clock and ours cancels out (\[report-16\]). The clock is the peer's claim:
//! a false clock makes only this estimate wrong.

use std::time::Duration;

use dfcp_time::Time;

use crate::limits::QUEUE_DELAY_MAX;
use crate::path::least_delay::LeastDelay;

/// Queueing delay of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueDelay {
    delays: LeastDelay,
    latest: Option<Duration>,
}

impl QueueDelay {
    /// Takes in the (sending time, arrival time) pairs of one report. Arrival times are by the peer's clock, µs modulo
    /// 2³².
    pub(crate) fn on_report(&mut self, now: Time, arrivals: impl Iterator<Item = (Time, u32)>) {
        let mut least_of_report = None;
        for (sent_at, arrived_us) in arrivals {
            let above_us = self.delays.observe(now, arrived_us.wrapping_sub((sent_at.as_ns() / 1_000) as u32));
            least_of_report = Some(least_of_report.map_or(above_us, |least: i32| least.min(above_us)));
        }
        let Some(of_report) = least_of_report else { return };
        let waited = Duration::from_micros(self.delays.excess_us(of_report));
        if waited > QUEUE_DELAY_MAX {
            // No queue is that long: the peer's clock was set, or the peer lies.
            *self = Self::default();
            return;
        }
        self.latest = Some(waited);
    }

    /// Returns the minimum queueing delay of the datagrams in the newest report.
    pub(crate) fn latest(&self) -> Option<Duration> {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limits::QUEUE_MEMORY;

    fn waited_us(queue: &mut QueueDelay, now_ms: u64, pairs: &[(u64, u32)]) -> Option<u128> {
        let arrivals = pairs.iter().map(|&(sent_us, arrived_us)| (Time::from_us(sent_us), arrived_us));
        queue.on_report(Time::from_ms(now_ms), arrivals);
        queue.latest().map(|waited| waited.as_micros())
    }

    #[test]
    fn delays_above_the_least_are_a_queue_whatever_the_origin_of_clocks() {
        for origin in [0, 5_000_000, u32::MAX - 20_000, 1 << 31] {
            let at = |us: u32| origin.wrapping_add(us);
            let mut queue = QueueDelay::default();
            assert_eq!(waited_us(&mut queue, 0, &[]), None);
            assert_eq!(waited_us(&mut queue, 10, &[(1_000, at(11_000))]), Some(0));
            assert_eq!(waited_us(&mut queue, 20, &[(11_000, at(24_000))]), Some(3_000));
            assert_eq!(waited_us(&mut queue, 30, &[(21_000, at(36_000)), (20_000, at(32_000))]), Some(2_000));
            assert_eq!(waited_us(&mut queue, 40, &[(31_000, at(40_000))]), Some(0), "a new least");
            assert_eq!(waited_us(&mut queue, 50, &[(41_000, at(51_000))]), Some(1_000));
        }
    }

    #[test]
    fn a_longer_path_is_no_queue_once_the_shorter_one_is_forgotten() {
        let mut queue = QueueDelay::default();
        waited_us(&mut queue, 0, &[(0, 10_000)]);
        assert_eq!(waited_us(&mut queue, 1_000, &[(1_000_000, 1_060_000)]), Some(50_000));
        let later_ms = 1_000 + QUEUE_MEMORY.as_millis() as u64 * 2;
        assert_eq!(waited_us(&mut queue, later_ms, &[(later_ms * 1_000, later_ms as u32 * 1_000 + 60_000)]), Some(0));
    }

    #[test]
    fn clocks_that_drift_apart_by_100_ppm_show_little_queue() {
        let mut queue = QueueDelay::default();
        let seen = (0..100_000_u64).filter_map(|ms| {
            let arrived_us = (ms * 1_000 + 10_000 + ms / 10) as u32;
            waited_us(&mut queue, ms, &[(ms * 1_000, arrived_us)])
        });
        let most = seen.max().unwrap();
        assert!(most <= QUEUE_MEMORY.as_micros() * 2 / 10_000, "{most} µs");
    }

    proptest! {
        /// The peer's clock may have any value.
        #[test]
        fn no_clock_makes_a_queue_without_bound(pairs in prop::collection::vec((0_u64..1 << 40, any::<u32>()), 0..200)) {
            let mut queue = QueueDelay::default();
            for (index, &(sent_us, arrived_us)) in pairs.iter().enumerate() {
                waited_us(&mut queue, index as u64 * 7, &[(sent_us, arrived_us)]);
                prop_assert!(queue.latest().is_none_or(|waited| waited <= QUEUE_DELAY_MAX));
            }
        }
    }
}
