//! Retransmission of unanswered handshake and FIN segments.

use std::time::Duration;

use dfcp_time::Time;

/// Times at which copies of a segment leave, and at which its sender gives up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RetransmitSchedule {
    /// Number of copies, the first among them, that leave `early_wait` apart.
    early_copies: u32,
    early_wait: Duration,
    /// The wait after the last of them; each further wait is `growth.0 / growth.1` times as long.
    first_wait: Duration,
    growth: (u32, u32),
    wait_max: Duration,
    give_up: GiveUp,
}

#[derive(Debug, PartialEq, Eq)]
enum GiveUp {
    /// At the end of the wait after this number of copies.
    #[cfg(feature = "classic")]
    AfterCopies(u32),
    /// So long after the start, or after the last progress.
    AfterSilence(Duration),
    /// The owner ends it.
    Never,
}

impl RetransmitSchedule {
    /// Thesis §3.6 and §3.11: 1 s, doubling, given up after five repeats (`spec/protocol.md` \[open-20\]).
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

    /// For a receiver's request to stop a stream, until it is answered: the receiver knows no round-trip time, and loses
    /// nothing by waiting.
    pub(crate) const STOP_SENDING: Self = Self {
        early_copies: 1,
        early_wait: Duration::ZERO,
        first_wait: Duration::from_millis(100),
        growth: (2, 1),
        wait_max: Duration::from_secs(10),
        give_up: GiveUp::Never,
    };
}

/// The timer of one segment's copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetransmitTimer {
    schedule: &'static RetransmitSchedule,
    started: Time,
    sent: u32,
    wait: Duration,
    next: Time,
}

impl RetransmitTimer {
    /// The first copy is due now.
    pub(crate) fn start(now: Time, schedule: &'static RetransmitSchedule) -> Self {
        Self { schedule, started: now, sent: 0, wait: schedule.first_wait, next: now }
    }

    /// Copies sent on schedule.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// Time of the next copy, or of giving up.
    pub(crate) fn next_at(&self) -> Time {
        self.next
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next && !self.is_exhausted(now)
    }

    /// True if it is time to give up.
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

    /// The peer makes progress: silence is counted from now.
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
