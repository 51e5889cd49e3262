//! Policer: a token bucket in front of a link, without a queue.

use std::num::NonZeroU64;

use dfcp_time::Time;

use crate::error::ConfigError;

const NS_PER_S: u128 = 1_000_000_000;

/// Rate and bucket of a policer. A packet passes immediately if the bucket has enough tokens, and is dropped otherwise:
/// the single-rate two-colour form of RFC 2697, with red packets dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Fill rate of the bucket, bit/s.
    pub rate_bps: u64,
    /// Capacity of the bucket, bytes. The bucket is full at the start; a packet larger than the capacity never passes.
    pub bucket_bytes: u32,
}

impl Policer {
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        NonZeroU64::new(self.rate_bps).map(drop).ok_or(ConfigError::ZeroRate)?;
        if self.bucket_bytes > 0 {
            return Ok(());
        }
        let (value, min, max) = (0, 1, u32::MAX.into());
        Err(ConfigError::OutOfRange { name: "a policer's bucket", value, min, max })
    }

    fn full(self) -> u128 {
        u128::from(self.bucket_bytes) * 8 * NS_PER_S
    }
}

/// State of a policer. Tokens are counted in units of bit·ns/s: at R bit/s, the bucket gains R tokens per nanosecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    policer: Policer,
    tokens: u128,
    /// Time of the last update of `tokens`.
    at: Time,
}

impl TokenBucket {
    pub(crate) fn new(policer: Policer) -> Self {
        Self { policer, tokens: policer.full(), at: Time::ZERO }
    }

    /// Takes the tokens for a packet at `now`. Returns false, and takes none, if there are too few.
    pub(crate) fn passes(&mut self, now: Time, size_bytes: u32) -> bool {
        let elapsed_ns = now.as_ns().saturating_sub(self.at.as_ns());
        self.at = self.at.max(now);
        let filled = self.tokens + u128::from(elapsed_ns) * u128::from(self.policer.rate_bps);
        self.tokens = filled.min(self.policer.full());
        let needed = u128::from(size_bytes) * 8 * NS_PER_S;
        let passes = needed <= self.tokens;
        if passes {
            self.tokens -= needed;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_bucket_passes_a_burst_and_then_the_rate() {
        // 8 Mbit/s is 1000 bytes per ms.
        let mut bucket = TokenBucket::new(Policer { rate_bps: 8_000_000, bucket_bytes: 3_000 });
        let mut passed_at = |ms: u64| bucket.passes(Time::from_ms(ms), 1_000);
        assert_eq!([0, 0, 0, 0].map(&mut passed_at), [true, true, true, false]);
        assert_eq!([1, 1, 2].map(&mut passed_at), [true, false, true]);
        // Idle time fills the bucket only up to its capacity.
        assert_eq!([100, 100, 100, 100].map(&mut passed_at), [true, true, true, false]);
    }

    #[test]
    fn in_the_long_run_the_rate_passes_whatever_comes() {
        let policer = Policer { rate_bps: 12_345_678, bucket_bytes: 15_000 };
        let mut bucket = TokenBucket::new(policer);
        let passed = (0..100_000_u64).filter(|step| bucket.passes(Time::from_us(step * 137), 1_500)).count();
        let rate_bps = passed as f64 * 12_000.0 / (100_000.0 * 137e-6);
        assert!((rate_bps / 12_345_678.0 - 1.0).abs() < 0.002, "{rate_bps}");
    }
}
