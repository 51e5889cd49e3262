//! Submission times of an application's periodic messages.

use dfcp_time::Time;

use super::Messages;

/// Counts of messages at the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) handed_over: u64,
    pub(crate) due: u64,
    pub(crate) datagrams: u64,
}

/// Schedule of an application's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    messages: Messages,
    began: Option<Time>,
    handed_over: u64,
}

impl Schedule {
    pub(crate) fn new(messages: Messages) -> Self {
        Self { messages, began: None, handed_over: 0 }
    }

    /// Starts the schedule at `now`, unless it has started already. Returns the submission time of message 0.
    pub(crate) fn begin(&mut self, now: Time) -> Time {
        *self.began.get_or_insert(now)
    }

    pub(crate) fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Returns the time of the next submission; `None` before the start.
    pub(crate) fn next_at(&self) -> Option<Time> {
        Some(self.messages.handed_over_at(self.began?, self.handed_over))
    }

    /// Returns the number of the next message if it is due at `now`, and counts it as submitted.
    pub(crate) fn take(&mut self, now: Time) -> Option<u64> {
        self.next_at().filter(|&at| at <= now)?;
        self.handed_over += 1;
        Some(self.handed_over - 1)
    }

    /// Returns true if message `number` was submitted and its deadline has not passed.
    pub(crate) fn is_open(&self, number: u64, now: Time) -> bool {
        let handed_over = self.began.filter(|_| number < self.handed_over);
        handed_over.is_some_and(|began| now <= self.messages.handed_over_at(began, number) + self.messages.deadline)
    }

    pub(crate) fn sent(&self, now: Time, datagrams: u64) -> Sent {
        let deadline_ns = self.messages.deadline.as_nanos() as u64;
        let before = Time::from_ns(now.as_ns().saturating_sub(deadline_ns));
        let due = self.began.map_or(0, |began| self.messages.handed_over_before(began, before));
        Sent { handed_over: self.handed_over, due: due.min(self.handed_over), datagrams }
    }
}
