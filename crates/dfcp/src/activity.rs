//! Division of the socket's receive buffer among recently active peers.

use std::time::Duration;

use dfcp_proto::WindowedMax;
use dfcp_time::{Time, duration_ns};

/// Period over which active peers are counted. A maximum stays valid for one to two periods.
pub(crate) const PERIOD: Duration = Duration::from_millis(50);

/// The maximum of the numbers reported in the current period and the previous one.
#[derive(Debug, Default)]
pub(crate) struct RecentGreatest(WindowedMax<usize, 2>);

impl RecentGreatest {
    /// Adds `number`, reported at `at`, and returns the maximum.
    pub(crate) fn with(&mut self, at: Time, number: usize) -> usize {
        self.0.update(at.as_ns() / duration_ns(PERIOD), number);
        self.0.get().unwrap_or(number)
    }
}

/// Counts the peers that sent authentic datagrams, per period.
#[derive(Debug)]
pub(crate) struct Activity {
    queue_bytes: u64,
    period: u32,
    began: Time,
    /// Number of active peers in the current period.
    peers: usize,
    greatest: RecentGreatest,
}

impl Activity {
    /// Creates the counts for a socket whose receive buffer holds `queue_bytes`; 0 if the size is unknown.
    pub(crate) fn new(queue_bytes: u64) -> Self {
        Self { queue_bytes, period: 1, began: Time::ZERO, peers: 0, greatest: RecentGreatest::default() }
    }

    /// Replaces the buffer size, after a rebind to another socket.
    pub(crate) fn set_queue_bytes(&mut self, queue_bytes: u64) {
        self.queue_bytes = queue_bytes;
    }

    /// Records an authentic datagram of a peer. `heard_in` is the period of the peer's previous datagram, and is
    /// updated. Returns the peer's share of the socket's buffer, bytes.
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
