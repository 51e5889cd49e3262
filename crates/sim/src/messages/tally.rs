//! Counts of messages on time and late.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

/// Receiver's counts of the sender's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) in_time: u64,
    pub(crate) late: u64,
}

/// Counter of completed messages, by the simulation's global clock.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    within: Duration,
    in_time: u64,
    late: u64,
    /// Deadlines of messages on time that have not passed and so do not count yet, ascending. Bounded by the open messages.
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

    /// Counts of a receiver, with `not_delivered` late messages from another counter.
    pub(crate) fn received(&self, now: Time, not_delivered: u64) -> Received {
        let open = self.open.len() - self.open.partition_point(|&at| at < now);
        Received { in_time: self.in_time - open as u64, late: self.late + not_delivered }
    }

    /// Messages delivered on time, including those whose deadline has not passed.
    pub(crate) fn delivered(&self) -> u64 {
        self.in_time
    }
}
