//! Among how many peers the socket's buffer is divided.

use std::time::Duration;

use dfcp_proto::WindowedMax;
use dfcp_time::{Time, duration_ns};

/// The greatest number counts for this long, and at most for twice as long.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// The greatest of some numbers in the present period and in the one before.
#[derive(Debug, Default)]
pub(crate) struct RecentGreatest(WindowedMax<usize, 2>);

impl RecentGreatest {
    /// The greatest, `number` at `at` included.
    pub(crate) fn with(&mut self, at: Time, number: usize) -> usize {
        self.0.update(at.as_ns() / duration_ns(PERIOD), number);
        self.0.get().unwrap_or(number)
    }
}

/// Counts the peers from which something comes in each period.
#[derive(Debug)]
pub(crate) struct Activity {
    queue_bytes: u64,
    period: u32,
    began: Time,
    /// In the present period.
    peers: usize,
    greatest: RecentGreatest,
}

impl Activity {
    /// The socket's buffer holds `queue_bytes`; 0 if that is unknown.
    pub(crate) fn new(queue_bytes: u64) -> Self {
        Self { queue_bytes, period: 1, began: Time::ZERO, peers: 0, greatest: RecentGreatest::default() }
    }

    /// Another socket's buffer holds so much.
    pub(crate) fn set_queue_bytes(&mut self, queue_bytes: u64) {
        self.queue_bytes = queue_bytes;
    }

    /// Something authentic comes from a peer from which something came last in period `heard_in`, which it changes. Returns the
    /// peer's share of the socket's buffer.
    pub(crate) fn on_received(&mut self, at: Time, heard_in: &mut u32) -> u64 {
        if at.since(self.began) >= PERIOD {
            (self.period, self.began, self.peers) = (self.period.wrapping_add(1), at, 0);
        }
        let is_another = std::mem::replace(heard_in, self.period) != self.period;
        self.peers += usize::from(is_another);
        self.queue_bytes / self.greatest.with(at, self.peers).max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_divided_among_those_from_whom_something_came_lately() {
        let mut activity = Activity::new(1_200);
        let (mut first, mut second) = (0, 0);
        let mut shares = Vec::new();
        for at_ms in (1_000..1_200).step_by(10) {
            shares.push(activity.on_received(Time::from_ms(at_ms), &mut first));
            if at_ms < 1_100 {
                activity.on_received(Time::from_ms(at_ms), &mut second);
            }
        }
        assert_eq!(shares[0], 1_200);
        assert_eq!(shares[1..15], [600; 14], "the second one fell silent at 100 ms, and counts for the next period");
        assert_eq!(shares[15..], [1_200; 5]);
        assert_eq!(activity.on_received(Time::from_ms(9_000), &mut second), 1_200, "after a long silence of all");
    }
}
