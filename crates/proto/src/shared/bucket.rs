//! A token bucket that stores a single instant.

use std::time::Duration;

use dfcp_time::Time;

/// A token bucket, stored as the instant at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    full_at: Time,
}

impl Bucket {
    /// Returns true if a token is available, for a bucket of size `burst` that gains one token per `interval`.
    pub(crate) fn has_token(&self, now: Time, interval: Duration, burst: u32) -> bool {
        self.full_at <= now + interval * burst.saturating_sub(1)
    }

    /// Returns the time from which a token is available, for a bucket like that of [`has_token`](Self::has_token).
    pub(crate) fn token_at(&self, interval: Duration, burst: u32) -> Time {
        self.full_at - interval * burst.saturating_sub(1)
    }

    /// Takes a token. The bucket is full again one `interval` later than before.
    pub(crate) fn take(&mut self, now: Time, interval: Duration) {
        self.full_at = self.full_at.max(now) + interval;
    }

    /// Returns true if no token is missing.
    pub(crate) fn is_full(&self, now: Time) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_per_interval() {
        let (mut bucket, interval) = (Bucket::default(), Duration::from_millis(5));
        let mut taken = 0;
        for step in 0..10_000 {
            let now = Time::from_s(9) + Duration::from_micros(100) * step;
            if bucket.has_token(now, interval, 32) {
                bucket.take(now, interval);
                taken += 1;
            }
        }
        assert_eq!(taken, 32 + 199);
        assert!(bucket.has_token(Time::from_s(20), interval, 32) && bucket.is_full(Time::from_s(20)));
        (0..32).for_each(|_| bucket.take(Time::from_s(20), interval));
        assert!(!bucket.has_token(Time::from_s(20), interval, 32), "no more than the burst is saved up");
        assert!(!bucket.is_full(Time::from_s(20)));
    }
}
