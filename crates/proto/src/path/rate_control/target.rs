//! The queueing delay that a window goes by (\[auto-3\]): short where the path is ours, longer for those with a smaller share of it. All
//! flows in a queue see the same delay, so they come to the same share.

use super::history::History;
use crate::config::Policy;

/// The least target: a part of the round trip, seconds, and times that a datagram takes.
const ROUND_TRIP_PART: f64 = 0.02;
const TARGET_MIN_S: f64 = 0.001;
const DATAGRAMS: f64 = 1.5;
/// The price of a share: seconds, and a part of the round trip at most. An absolute time makes flows with unlike round trips equal.
const PRICE_S: f64 = 0.008;
const PRICE_ROUND_TRIP_PART: f64 = 0.15;
/// A window at its target uses this part of the capacity.
const SHARE_OF_ALL: f64 = 0.95;
const SHARE_MIN: f64 = 0.01;
/// Jitter is no queue. A few times its estimate: links that keep the order of packets hide most of it from what a report spans.
const JITTERS: f64 = 4.0;
/// After an overflow the least target is half of the longest recent queue, which all flows in it have measured alike, and the price of a
/// share is at most a part of that. The limit stays for this number of round trips and grows by this part in each later one.
const LIMIT_PART: f64 = 0.5;
const LIMIT_MIN_S: f64 = 0.0003;
const LIMIT_MAX_S: f64 = 1.0;
const LIMIT_ROUND_TRIPS: f64 = 100.0;
const LIMIT_GROWTH: f64 = 0.022;
const LIMIT_GROWTH_MAX: f64 = 0.5;
const PRICE_LIMIT_PART: f64 = 0.2;
/// Price of the low policy, as a part of the other policies' price: it leaves most of the path to them.
const LOW_PRICE_PART: f64 = 0.1;
/// The number of flows that the high policy counts as.
const HIGH_FLOWS: f64 = 2.0;

/// Target of the queue, with the limit that overflows have taught.
#[derive(Debug)]
pub(super) struct Target {
    limit_s: f64,
    price_part: f64,
    /// The number of flows that this one counts as.
    flows: f64,
    /// Round trips until the limit begins to grow.
    kept_round_trips: f64,
}

impl Default for Target {
    fn default() -> Self {
        Self { limit_s: LIMIT_MAX_S, price_part: 1.0, flows: 1.0, kept_round_trips: 0.0 }
    }
}

impl Target {
    /// Seconds, for a window of `per_s` on a path which carries `capacity_per_s` datagrams per second, or 0 if that is unknown.
    pub(super) fn delay_s(&self, history: &History, capacity_per_s: f64, per_s: f64) -> f64 {
        let rtt_s = history.rtt();
        let datagrams_s = if capacity_per_s > 0.0 { DATAGRAMS / capacity_per_s } else { 1.0 / per_s.max(1.0) };
        let least_s = (ROUND_TRIP_PART * rtt_s).max(TARGET_MIN_S).max(datagrams_s);
        let price_s = PRICE_S.min(PRICE_ROUND_TRIP_PART * rtt_s).min(PRICE_LIMIT_PART * self.limit_s);
        let share = share(capacity_per_s, per_s) / (SHARE_OF_ALL * self.flows);
        let price_s = self.price_part * price_s * price(share);
        least_s.min(self.limit_s) + price_s + JITTERS * history.jitter_s()
    }

    pub(super) fn set_policy(&mut self, policy: Policy) {
        self.price_part = if policy == Policy::Low { LOW_PRICE_PART } else { 1.0 };
        self.flows = if policy == Policy::High { HIGH_FLOWS } else { 1.0 };
    }

    /// `round_trips` have passed.
    pub(super) fn relax(&mut self, round_trips: f64) {
        let left = round_trips - self.kept_round_trips;
        self.kept_round_trips = (-left).max(0.0);
        let growth = 1.0 + (LIMIT_GROWTH * left).clamp(0.0, LIMIT_GROWTH_MAX);
        self.limit_s = (self.limit_s * growth).min(LIMIT_MAX_S);
    }

    /// The buffer was full; the longest queueing delay lately is `top_s`, which all flows in it have seen alike.
    pub(super) fn on_overflow(&mut self, top_s: f64) {
        self.limit_s = (LIMIT_PART * top_s).max(LIMIT_MIN_S);
        self.kept_round_trips = LIMIT_ROUND_TRIPS;
    }
}

/// The part of the path's capacity that a window of `per_s` uses.
pub(super) fn share(capacity_per_s: f64, per_s: f64) -> f64 {
    if capacity_per_s <= 0.0 { 1.0 } else { (per_s / capacity_per_s).clamp(SHARE_MIN, 1.0) }
}

/// Extra queue that a smaller share waits for: 0 for all of the path, 0.6 for half of it, 2.3 for a tenth. Close to the
/// logarithm, which machines compute differently.
fn price(share: f64) -> f64 {
    3.0 * (1.0 / share.clamp(SHARE_MIN, 1.0).sqrt().sqrt() - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_share_waits_for_more_queue() {
        let prices = [1.0, 0.5, 0.25, 0.1, 0.03].map(price);
        assert!(prices[0].abs() < 1e-12 && prices.is_sorted(), "{prices:?}");
        for (share, price) in [0.5_f64, 0.25, 0.1].into_iter().zip(&prices[1..]) {
            assert!((price / -share.ln() - 1.0).abs() < 0.25, "{share}: {price}");
        }
    }

    #[test]
    fn an_overflow_lowers_it_and_is_forgotten() {
        let history = History::default();
        let mut target = Target::default();
        let before_s = target.delay_s(&history, 1_000.0, 100.0);
        target.on_overflow(0.002);
        let after_s = target.delay_s(&history, 1_000.0, 100.0);
        assert!(after_s < 0.7 * before_s, "{after_s} of {before_s}");
        (0..1_000).for_each(|_| target.relax(0.5));
        assert!((target.delay_s(&history, 1_000.0, 100.0) - before_s).abs() < 1e-9);
    }
}
