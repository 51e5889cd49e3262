//! What retries of proofs cost the acceptor: all of them together, and one address's (`spec/protocol.md`, [open-32] and
//! [open-38]).

use std::collections::BTreeMap;
use std::time::Duration;

use dfcp_time::Time;

use crate::endpoint::address::Prefix;
use crate::limits;

/// A token bucket, kept as the one instant at which it is full again.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Time,
}

impl Bucket {
    /// Whether there is a token, in a bucket for `burst` which gets one every `interval`.
    fn has_token(&self, now: Time, interval: Duration, burst: u32) -> bool {
        self.full_at <= now + interval * burst.saturating_sub(1)
    }

    fn take(&mut self, now: Time, interval: Duration) {
        self.full_at = self.full_at.max(now) + interval;
    }
}

/// Retries: of all, and of each address which has had one of late.
#[derive(Debug, Default)]
pub(super) struct Retries {
    all: Bucket,
    addresses: BTreeMap<Prefix, Bucket>,
}

/// Between two retries: of all, and of one address.
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / limits::PROOF_RETRIES_PER_S as u64);
const ADDRESS_INTERVAL: Duration = Duration::from_nanos(INTERVAL.as_nanos() as u64 * limits::ADDRESS_SHARE as u64);
const ADDRESS_BURST: u32 = limits::PROOF_RETRIES_BURST / limits::ADDRESS_SHARE as u32;

/// One address's share of `places`.
pub(super) fn share_of(places: usize) -> usize {
    (places / limits::ADDRESS_SHARE).max(1)
}

impl Retries {
    /// Whether one more proof of a connection which has had a false one may be looked at.
    pub(super) fn is_one_left(&self, now: Time, prefix: Prefix) -> bool {
        let own = self.addresses.get(&prefix).copied().unwrap_or_default();
        self.all.has_token(now, INTERVAL, limits::PROOF_RETRIES_BURST)
            && own.has_token(now, ADDRESS_INTERVAL, ADDRESS_BURST)
    }

    /// That proof was false, too. A bucket which is full again is forgotten; since all of them together are bounded, few
    /// are not.
    pub(super) fn on_failed(&mut self, now: Time, prefix: Prefix) {
        self.all.take(now, INTERVAL);
        self.addresses.retain(|_, bucket| bucket.full_at > now);
        self.addresses.entry(prefix).or_default().take(now, ADDRESS_INTERVAL);
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
        assert!(bucket.has_token(Time::from_s(20), interval, 32));
        (0..32).for_each(|_| bucket.take(Time::from_s(20), interval));
        assert!(!bucket.has_token(Time::from_s(20), interval, 32), "no more than the burst is saved up");
    }

    #[test]
    fn few_addresses_are_remembered() {
        let mut retries = Retries::default();
        let mut failed = 0;
        for step in 0..50_000_u32 {
            let now = Time::from_s(9) + Duration::from_micros(100) * step;
            let prefix = Prefix::from(std::net::SocketAddr::from((step.to_be_bytes(), 1)));
            if retries.is_one_left(now, prefix) {
                retries.on_failed(now, prefix);
                failed += 1;
            }
            assert!(retries.addresses.len() <= 2 * limits::PROOF_RETRIES_BURST as usize, "{}", retries.addresses.len());
        }
        assert_eq!(failed, 32 + 999);
    }
}
