//! Retransmission of unanswered handshake and FIN segments.

use std::time::Duration;

use dfcp_time::Time;

/// Times at which copies of a segment are sent, and at which the sender gives up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RetransmitSchedule {
    /// Number of initial copies that are sent `early_wait` apart, the first copy included.
    early_copies: u32,
    early_wait: Duration,
    /// Wait after the last early copy. Each further wait is `growth.0 / growth.1` times as long.
    first_wait: Duration,
    growth: (u32, u32),
    wait_max: Duration,
    give_up: GiveUp,
}

#[derive(Debug, PartialEq, Eq)]
enum GiveUp {
    /// Gives up at the end of the wait after this number of copies.
    #[cfg(feature = "classic")]
    AfterCopies(u32),
    /// Gives up this long after the start, or after the last progress.
    AfterSilence(Duration),
    /// Never gives up; the owner stops the timer.
    Never,
}

impl RetransmitSchedule {
    /// Thesis §3.6 and §3.11: 1 s, doubled after each copy, given up after five repeats (`spec/protocol.md`
    /// \[open-20\]).
    #[cfg(feature = "classic")]
    pub(crate) const CLASSIC: Self = Self {
        early_copies: 1,
        early_wait: Duration::ZERO,
        first_wait: Duration::from_secs(1),
        growth: (2, 1),
        wait_max: Duration::MAX,
        give_up: GiveUp::AfterCopies(6),
    };

    /// `spec/protocol.md` \[open-10\]: three copies within 2 ms, so that one lost datagram costs no time.
    pub(crate) const MODERN: Self = Self {
        early_copies: 3,
        early_wait: Duration::from_millis(1),
        first_wait: Duration::from_millis(20),
        growth: (3, 2),
        wait_max: Duration::from_secs(1),
        give_up: GiveUp::AfterSilence(Duration::from_secs(30)),
    };

    /// Schedule of a receiver's request to stop a stream, until it is answered. The receiver does not know the RTT, and
    /// loses nothing by waiting.
    pub(crate) const STOP_SENDING: Self = Self {
        early_copies: 1,
        early_wait: Duration::ZERO,
        first_wait: Duration::from_millis(100),
        growth: (2, 1),
        wait_max: Duration::from_secs(10),
        give_up: GiveUp::Never,
    };
}

/// Timer of one segment's copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetransmitTimer {
    schedule: &'static RetransmitSchedule,
    started: Time,
    sent: u32,
    wait: Duration,
    next: Time,
}

impl RetransmitTimer {
    /// Starts the timer; the first copy is due now.
    pub(crate) fn start(now: Time, schedule: &'static RetransmitSchedule) -> Self {
        Self { schedule, started: now, sent: 0, wait: schedule.first_wait, next: now }
    }

    /// Returns the number of copies sent on schedule.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// Returns the time of the next copy, or of giving up.
    pub(crate) fn next_at(&self) -> Time {
        self.next
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next && !self.is_exhausted(now)
    }

    /// Returns true if it is time to give up.
    pub(crate) fn is_exhausted(&self, now: Time) -> bool {
        match self.schedule.give_up {
            #[cfg(feature = "classic")]
            GiveUp::AfterCopies(copies) => self.sent >= copies && now >= self.next,
            GiveUp::AfterSilence(silence) => now >= self.started + silence,
            GiveUp::Never => false,
        }
    }

    pub(crate) fn on_sent(&mut self, now: Time) {
        self.sent += 1;
        if self.sent < self.schedule.early_copies {
            self.next = now + self.schedule.early_wait;
            return;
        }
        self.next = now + self.wait;
        let (numerator, denominator) = self.schedule.growth;
        self.wait = (self.wait * numerator / denominator).min(self.schedule.wait_max);
    }

    /// Records progress of the peer: silence is counted from now.
    pub(crate) fn progress(&mut self, now: Time) {
        self.started = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(schedule: &'static RetransmitSchedule) -> Vec<u64> {
        let mut timer = RetransmitTimer::start(Time::ZERO, schedule);
        let mut times = Vec::new();
        loop {
            let now = timer.next_at();
            if !timer.is_due(now) {
                times.push(now.as_ns() / 1_000_000);
                return times;
            }
            times.push(now.as_ns() / 1_000_000);
            timer.on_sent(now);
        }
    }

    #[cfg(feature = "classic")]
    #[test]
    fn classic_doubles_from_one_second_and_gives_up_after_five_repeats() {
        assert_eq!(times(&RetransmitSchedule::CLASSIC), [0, 1000, 3000, 7000, 15000, 31000, 63000]);
    }

    #[test]
    fn modern_sends_three_copies_early_and_then_backs_off() {
        let times = times(&RetransmitSchedule::MODERN);
        assert_eq!(times[..6], [0, 1, 2, 22, 52, 97]);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 1000));
        assert!((30_000..31_001).contains(times.last().unwrap()));
    }
}
