//! Counts of messages in time and late.

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;

/// A receiver's record of the sender's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) in_time: u64,
    pub(crate) late: u64,
}

/// Counts messages which are complete, by the simulation's one clock.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    within: Duration,
    in_time: u64,
    late: u64,
    /// Deadlines of those which came in time, as far as they are not over: these do not count yet, in order of time. Not more than
    /// messages can be open.
    open: VecDeque<Time>,
}

impl Tally {
    pub(crate) fn new(within: Duration) -> Self {
        Self { within, in_time: 0, late: 0, open: VecDeque::new() }
    }

    /// A message which was handed over then is complete now, for the first time.
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

    /// Another receiver's count of those which were late, and not delivered.
    pub(crate) fn received(&self, now: Time, not_delivered: u64) -> Received {
        let open = self.open.len() - self.open.partition_point(|&at| at < now);
        Received { in_time: self.in_time - open as u64, late: self.late + not_delivered }
    }

    /// Messages delivered in time, whether their deadlines are over or not.
    pub(crate) fn delivered(&self) -> u64 {
        self.in_time
    }
}
