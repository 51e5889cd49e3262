//! Counts of messages that arrived on time and of late ones.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

/// Counts of messages at the receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) in_time: u64,
    pub(crate) late: u64,
}

/// Counter of completed messages. It uses the simulation's time, not the receiver's clock.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    within: Duration,
    in_time: u64,
    late: u64,
    /// Deadlines, ascending, of messages that arrived on time and whose deadline has not passed. They do not count in
    /// reports yet. Their number is limited like that of open messages.
    open: VecDeque<Time>,
}

impl Tally {
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, in_time: 0, late: 0, open: VecDeque::new() }
    }

    /// Counts a message that is complete for the first time.
    pub(crate) fn complete(&mut self, now: Time, handed_over_at: Time) {
        let over_at = handed_over_at + self.within;
        while self.open.front().is_some_and(|&at| at < now) {
            self.open.pop_front();
        }
        if now > over_at {
            self.late += 1;
            return;
        }
        self.in_time += 1;
        let place = self.open.partition_point(|&at| at <= over_at);
        self.open.insert(place, over_at);
    }

    /// Returns the counts at `now`. `not_delivered` is the number of late messages that were counted elsewhere.
    pub(crate) fn received(&self, now: Time, not_delivered: u64) -> Received {
        let open = self.open.len() - self.open.partition_point(|&at| at < now);
        Received { in_time: self.in_time - open as u64, late: self.late + not_delivered }
    }

    /// Returns the number of messages delivered on time, including those whose deadline has not passed.
    pub(crate) fn delivered(&self) -> u64 {
        self.in_time
    }
}
