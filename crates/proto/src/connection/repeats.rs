//! When an unanswered handshake or FIN segment is sent again.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::Profile;

/// Classic (thesis §3.6, §3.11): 1 s, doubling, given up after five repeats.
const CLASSIC_FIRST: Duration = Duration::from_secs(1);
const CLASSIC_REPEATS: u32 = 5;

/// Modern: three copies within 3 ms, then 20 ms, ×1.5, at most 1 s, for 30 s.
const MODERN_EARLY: Duration = Duration::from_millis(1);
const MODERN_EARLY_COPIES: u32 = 3;
const MODERN_FIRST: Duration = Duration::from_millis(20);
const MODERN_MAX: Duration = Duration::from_secs(1);
const MODERN_FOR: Duration = Duration::from_secs(30);

/// The clock of one segment's repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats {
    profile: Profile,
    started: Time,
    sent: u32,
    wait: Duration,
    next: Time,
}

impl Repeats {
    pub(crate) fn start(now: Time, profile: Profile) -> Self {
        let wait = match profile {
            Profile::Classic => CLASSIC_FIRST,
            Profile::Modern => MODERN_FIRST,
        };
        Self { profile, started: now, sent: 0, wait, next: now }
    }

    /// Copies which have left at their time.
    pub(crate) fn sent(&self) -> u32 {
        self.sent
    }

    /// When the next copy, or giving up, is due.
    pub(crate) fn next_at(&self) -> Time {
        self.next
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        now >= self.next && !self.is_exhausted(now)
    }

    /// Whether it is time to give up.
    pub(crate) fn is_exhausted(&self, now: Time) -> bool {
        match self.profile {
            Profile::Classic => self.sent > CLASSIC_REPEATS && now >= self.next,
            Profile::Modern => now >= self.started + MODERN_FOR,
        }
    }

    pub(crate) fn on_sent(&mut self, now: Time) {
        self.sent += 1;
        match self.profile {
            Profile::Classic => {
                self.next = now + self.wait;
                self.wait *= 2;
            }
            Profile::Modern if self.sent < MODERN_EARLY_COPIES => self.next = now + MODERN_EARLY,
            Profile::Modern => {
                self.next = now + self.wait;
                self.wait = (self.wait * 3 / 2).min(MODERN_MAX);
            }
        }
    }

    /// The peer makes progress: the time to give up is counted from now.
    pub(crate) fn progress(&mut self, now: Time) {
        if self.profile == Profile::Modern {
            self.started = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(profile: Profile) -> Vec<u64> {
        let mut repeats = Repeats::start(Time::ZERO, profile);
        let mut times = Vec::new();
        loop {
            let now = repeats.next_at();
            if !repeats.is_due(now) {
                times.push(now.as_ns() / 1_000_000);
                return times;
            }
            times.push(now.as_ns() / 1_000_000);
            repeats.on_sent(now);
        }
    }

    #[test]
    fn classic_doubles_from_one_second_and_gives_up_after_five_repeats() {
        assert_eq!(times(Profile::Classic), [0, 1000, 3000, 7000, 15000, 31000, 63000]);
    }

    #[test]
    fn modern_sends_three_copies_early_and_then_backs_off() {
        let times = times(Profile::Modern);
        assert_eq!(times[..6], [0, 1, 2, 22, 52, 97]);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 1000));
        assert!((30_000..31_001).contains(times.last().unwrap()));
    }
}
