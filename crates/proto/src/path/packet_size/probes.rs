//! Probes of one packet size.

use std::time::Duration;

use dfcp_time::Time;

/// Most probes of one size. A verdict is reached by then.
pub(super) const PROBES_MAX: u32 = 128;

/// Counts of sent and answered probes of one size. A connection that sends little keeps one, so it is small.
#[derive(Debug)]
pub(super) struct Probes {
    bytes: u16,
    /// Datagram numbers of unanswered probes.
    numbers: Vec<u64>,
    sent: u8,
    answered: u8,
    last_number: u64,
    newest_answered: u64,
    last_sent: Time,
    next_at: Time,
}

impl Probes {
    pub(super) fn new(now: Time, bytes: u16) -> Self {
        Self {
            bytes,
            numbers: Vec::new(),
            sent: 0,
            answered: 0,
            last_number: 0,
            newest_answered: 0,
            last_sent: now,
            next_at: now,
        }
    }

    pub(super) fn bytes(&self) -> u16 {
        self.bytes
    }

    pub(super) fn sent(&self) -> u32 {
        self.sent.into()
    }

    pub(super) fn answered(&self) -> u32 {
        self.answered.into()
    }

    pub(super) fn next_at(&self) -> Time {
        self.next_at
    }

    pub(super) fn last_sent(&self) -> Time {
        self.last_sent
    }

    pub(super) fn last_number(&self) -> Option<u64> {
        (self.sent > 0).then_some(self.last_number)
    }

    /// Returns the highest answered datagram number; 0 before an answer.
    pub(super) fn newest_answered(&self) -> u64 {
        self.newest_answered
    }

    /// Returns the number of unanswered probes that left before datagram `number`.
    pub(super) fn unanswered_before(&self, number: u64) -> u32 {
        self.numbers.iter().filter(|&&sent| sent < number).count() as u32
    }

    pub(super) fn on_sent(&mut self, now: Time, number: u64, next_after: Duration) {
        (self.last_sent, self.next_at) = (now, now + next_after);
        if self.sent() < PROBES_MAX {
            self.numbers.reserve_exact(usize::from(self.numbers.is_empty()));
            self.numbers.push(number);
            (self.sent, self.last_number) = (self.sent + 1, number);
        }
    }

    /// Takes in an answer. Returns true if `echo` is the number of an unanswered probe, truncated to 32 bits.
    pub(super) fn on_answer(&mut self, echo: u32) -> bool {
        let Some(index) = self.numbers.iter().position(|&number| number as u32 == echo) else { return false };
        self.newest_answered = self.newest_answered.max(self.numbers.swap_remove(index));
        self.answered += 1;
        true
    }
}
