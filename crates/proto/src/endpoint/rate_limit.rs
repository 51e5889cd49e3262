//! A limit on the cost that strangers may cause to an endpoint, in total and per address: failed handshake computations
//! (`spec/protocol.md`, [open-38] and [open-39]), and repeated or stateless RSTs.

use std::collections::BTreeMap;
use std::time::Duration;

use dfcp_secure::AddressPrefix;
use dfcp_time::Time;

use crate::limits;
use crate::shared::bucket::Bucket;

/// A token bucket for all addresses together, and one for each recently charged address, with an address's share of
/// rate and burst. Checking takes no token; the caller charges the events that count.
#[derive(Debug)]
pub(super) struct RateLimit {
    /// Interval between two tokens of the common bucket.
    interval: Duration,
    burst: u32,
    all: Bucket,
    addresses: BTreeMap<AddressPrefix, Bucket>,
}

/// Returns one address's share of `places`, at least 1.
pub(super) fn share_of(places: usize) -> usize {
    (places / limits::ADDRESS_SHARE).max(1)
}

impl RateLimit {
    pub(super) fn new(per_s: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / per_s;
        Self { interval, burst, all: Bucket::default(), addresses: BTreeMap::new() }
    }

    /// One address's token interval and burst.
    fn address_share(&self) -> (Duration, u32) {
        const SHARE: u32 = limits::ADDRESS_SHARE as u32;
        (self.interval * SHARE, self.burst / SHARE)
    }

    /// Returns true if both buckets have a token for this address.
    pub(super) fn permits(&self, now: Time, prefix: AddressPrefix) -> bool {
        let own = self.addresses.get(&prefix).copied().unwrap_or_default();
        let (interval, burst) = self.address_share();
        self.all.has_token(now, self.interval, self.burst) && own.has_token(now, interval, burst)
    }

    /// Charges an event to the address and to the common bucket. Full buckets of addresses are removed. Few remain, as
    /// the common bucket limits the charges.
    pub(super) fn charge(&mut self, now: Time, prefix: AddressPrefix) {
        let (interval, _) = self.address_share();
        self.all.take(now, self.interval);
        self.addresses.retain(|_, bucket| !bucket.is_full(now));
        self.addresses.entry(prefix).or_default().take(now, interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_addresses_are_remembered() {
        const BURST: u32 = 32;
        let mut limit = RateLimit::new(200, BURST);
        let mut failed = 0;
        for step in 0..50_000_u32 {
            let now = Time::from_s(9) + Duration::from_micros(100) * step;
            let prefix = AddressPrefix::from(std::net::SocketAddr::from((step.to_be_bytes(), 1)));
            if limit.permits(now, prefix) {
                limit.charge(now, prefix);
                failed += 1;
            }
            assert!(limit.addresses.len() <= 2 * BURST as usize, "{}", limit.addresses.len());
        }
        assert_eq!(failed, 32 + 999);
    }
}
