//! The thesis's rate limiter (§3.12.2).

use std::time::Duration;

use dfcp_time::Time;

use crate::config::ClassicSettings;

/// The rate limiter of thesis §3.12.2. One token is one encoded byte. Tokens are added once per `inttokens` ticks of 4
/// ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// Capacity of the bucket.
    pub(crate) maxtokens: u32,
    /// Tokens now in the bucket.
    pub(crate) numtokens: u32,
    /// Tokens added per interval; 0 switches the limiter off.
    pub(crate) inctokens: u32,
    /// Ticks per interval; the thesis's default is 1.
    pub(crate) inttokens: u32,
    next_increment: Option<Time>,
}

impl TokenBucket {
    /// The kernel's timer tick: 250 per second.
    pub(crate) const TICK: Duration = Duration::from_millis(4);

    pub(crate) fn new(settings: &ClassicSettings) -> Self {
        let ClassicSettings { maxtokens, numtokens, inctokens, inttokens, .. } = *settings;
        Self { maxtokens, numtokens, inctokens, inttokens, next_increment: None }
    }

    /// Returns true if increment and capacity are set. Otherwise sending is not limited.
    pub(crate) fn is_on(&self) -> bool {
        self.inctokens > 0 && self.maxtokens > 0
    }

    fn interval(&self) -> Duration {
        Self::TICK * self.inttokens.max(1)
    }

    /// Adds the tokens of all intervals up to `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        if !self.is_on() {
            return;
        }
        let interval = self.interval();
        let due = *self.next_increment.get_or_insert(now + interval);
        if now < due {
            return;
        }
        let ticks = 1 + now.since(due).as_nanos() / interval.as_nanos();
        let added = ticks.saturating_mul(u128::from(self.inctokens));
        let tokens = added.saturating_add(u128::from(self.numtokens)).min(u128::from(self.maxtokens));
        self.numtokens = u32::try_from(tokens).unwrap_or(self.maxtokens);
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        self.next_increment = Some(due + interval.saturating_mul(ticks));
    }

    /// Returns the time of the next increment if fewer than `bytes` tokens are there. `None` if there are enough, or if
    /// the limiter is off.
    pub(crate) fn wait_for(&self, bytes: u32) -> Option<Time> {
        if !self.is_on() || self.numtokens >= bytes {
            return None;
        }
        self.next_increment
    }

    pub(crate) fn take(&mut self, bytes: u32) {
        if self.is_on() {
            self.numtokens = self.numtokens.saturating_sub(bytes);
        }
    }
}

/// Returns the *inctokens* of a rate, in the thesis's Mbit of 2²⁰ bits of encoded bytes (formula 3.3). Headers are not
/// counted.
#[must_use]
pub fn inctokens(bandwidth_mbit: u32) -> u32 {
    let tokens = u64::from(bandwidth_mbit) * 1024 * 1024 / (8 * 250);
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_formula() {
        assert_eq!(inctokens(100), 52_428);
        assert_eq!(inctokens(1), 524);
    }

    #[test]
    fn tokens_come_once_per_interval_and_stop_at_the_capacity() {
        let mut bucket = TokenBucket::new(&ClassicSettings {
            maxtokens: 3000,
            inctokens: 1420,
            inttokens: 10,
            ..ClassicSettings::default()
        });
        bucket.advance(Time::ZERO);
        assert_eq!(bucket.wait_for(1420), Some(Time::from_ms(40)));
        bucket.advance(Time::from_ms(39));
        assert_eq!(bucket.numtokens, 0);
        bucket.advance(Time::from_ms(40));
        assert_eq!((bucket.numtokens, bucket.wait_for(1420)), (1420, None));
        bucket.take(1420);
        bucket.advance(Time::from_s(10));
        assert_eq!(bucket.numtokens, 3000);
    }
}
