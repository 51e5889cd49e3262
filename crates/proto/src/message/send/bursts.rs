//! Share and burstiness of losses, and the length of bursts, from the correlation of the fates of successive datagrams, by the time
//! between them.

use std::time::Duration;

use crate::message::plan::chain::LossModel;

/// Times between two datagrams are told apart by powers of two from this on.
const GAP_MIN: Duration = Duration::from_micros(50);
const BUCKETS: usize = 12;
/// Losses after which what was seen counts half.
const REMEMBERED: f64 = 2_048.0;
/// Evidence which is believed: this number of losses, and a correlation of as many standard errors, between these bounds.
const LOSSES_MIN: f64 = 30.0;
const DOUBT: f64 = 3.0;
const CORRELATION_MIN: f64 = 0.1;
const CORRELATION_MAX: f64 = 0.99;
/// No burst that matters to a deadline is longer.
const MEMORY_MAX_S: f64 = 10.0;

/// Datagrams over which the share of losses forgets where losses are independent, and a second one which notices that the path has changed;
/// and the standard errors by which that must differ.
const SHARE_MEMORY: f64 = 4_096.0;
const RECENT_MEMORY: f64 = 256.0;
const RECENT_DOUBT: f64 = 2.5;
/// Before anything is known, and how many datagrams' worth of evidence that is.
const PRIOR_SHARE: f64 = 0.05;
const PRIOR_DATAGRAMS: f64 = 100.0;
/// Longer pauses between datagrams say nothing of how densely they are sent.
const GAP_MAX: Duration = Duration::from_millis(100);

/// Statistics of losses.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    buckets: [Bucket; BUCKETS],
    /// The found memory, seconds.
    memory_s: f64,
    long: Share,
    recent: Share,
    /// The mean time between datagrams, seconds.
    gap_s: f64,
}

/// A share of losses which forgets.
#[derive(Clone, Copy, Debug)]
struct Share {
    sent: f64,
    lost: f64,
}

impl Share {
    const PRIOR: Self = Self { sent: PRIOR_DATAGRAMS, lost: PRIOR_DATAGRAMS * PRIOR_SHARE };

    fn observe(&mut self, datagrams: f64, is_lost: bool) {
        let kept = 1.0 - 1.0 / datagrams;
        self.sent = self.sent * kept + 1.0;
        self.lost = self.lost * kept + if is_lost { 1.0 } else { 0.0 };
    }

    fn mean(self) -> f64 {
        (self.lost / self.sent).clamp(0.0, 1.0)
    }
}

impl Default for Bursts {
    fn default() -> Self {
        Self { buckets: Default::default(), memory_s: 0.0, long: Share::PRIOR, recent: Share::PRIOR, gap_s: 0.0 }
    }
}

/// Datagrams that followed a lost one within some time.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    followed: f64,
    lost: f64,
    gaps_s: f64,
}

impl Bursts {
    /// A datagram was lost, and so was the next one, `gap` later, or not.
    pub(super) fn on_loss(&mut self, gap: Duration, is_next_lost: bool) {
        let mut at = 0;
        let mut bound = GAP_MIN;
        while gap > bound && at + 1 < BUCKETS {
            bound *= 2;
            at += 1;
        }
        let bucket = &mut self.buckets[at];
        let kept = 1.0 - 1.0 / REMEMBERED;
        *bucket = Bucket {
            followed: bucket.followed * kept + 1.0,
            lost: bucket.lost * kept + if is_next_lost { 1.0 } else { 0.0 },
            gaps_s: bucket.gaps_s * kept + gap.as_secs_f64(),
        };
    }

    /// The fate of a datagram is known, which was sent `gap` after the one before.
    pub(super) fn on_fate(&mut self, gap: Duration, is_lost: bool) {
        if gap <= GAP_MAX {
            self.gap_s += (gap.as_secs_f64() - self.gap_s) / 64.0;
        }
        // Neighbours in a burst are one piece of evidence.
        let alike = self.alike();
        self.long.observe(SHARE_MEMORY * alike, is_lost);
        self.recent.observe(RECENT_MEMORY * alike, is_lost);
    }

    /// Number of datagrams that are worth one independent sample: in bursts, neighbours share their fate.
    fn alike(&self) -> f64 {
        if self.memory_s > 0.0 && self.gap_s > 0.0 { (1.0 + 2.0 * self.memory_s / self.gap_s).min(64.0) } else { 1.0 }
    }

    /// The share that is lost.
    pub(super) fn share(&self) -> f64 {
        let (long, recent) = (self.long.mean(), self.recent.mean());
        let spread = recent.max(long) * (1.0 - recent.min(long));
        let doubt = RECENT_DOUBT * (spread * self.alike() / (2.0 * self.recent.sent)).sqrt();
        long.clamp(recent - doubt, recent + doubt)
    }

    /// Estimates the memory of losses anew.
    pub(super) fn judge(&mut self) {
        let share = self.share();
        let (mut sum, mut weight) = (0.0, 0.0);
        for bucket in &self.buckets {
            if let Some(memory_s) = bucket.memory_s(share) {
                sum += memory_s * bucket.followed;
                weight += bucket.followed;
            }
        }
        self.memory_s = if weight > 0.0 { sum / weight } else { 0.0 };
    }

    pub(super) fn memory_s(&self) -> f64 {
        self.memory_s
    }

    pub(super) fn model(&self) -> LossModel {
        LossModel { share: self.share(), memory_s: self.memory_s }
    }
}

impl Bucket {
    /// The memory that would make neighbours so alike; `None` if that may be chance.
    fn memory_s(&self, share: f64) -> Option<f64> {
        if self.followed < LOSSES_MIN || share >= 1.0 {
            return None;
        }
        let rate = self.lost / self.followed;
        let correlation = (rate - share) / (1.0 - share);
        let error = (rate.max(share) * (1.0 - rate.min(share)) / self.followed).sqrt() / (1.0 - share);
        if correlation < CORRELATION_MIN || correlation < DOUBT * error {
            return None;
        }
        let (gap_s, correlation) = (self.gaps_s / self.followed, correlation.min(CORRELATION_MAX));
        let (mut low, mut high) = (0.0, MEMORY_MAX_S);
        for _ in 0..40 {
            let memory_s = 0.5 * (low + high);
            let model = LossModel { share, memory_s };
            if model.correlation(gap_s) < correlation {
                low = memory_s;
            } else {
                high = memory_s;
            }
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses of a path with this memory, by a chain whose states are drawn by a simple generator.
    fn seen(share: f64, memory_s: f64, gap: Duration, datagrams: usize) -> f64 {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1_u64 << 53) as f64
        };
        let model = LossModel { share, memory_s };
        let correlation = model.correlation(gap.as_secs_f64());
        let mut bursts = Bursts::default();
        let mut is_lost = random() < share;
        for _ in 0..datagrams {
            bursts.on_fate(gap, is_lost);
            let is_next_lost = random() < share * (1.0 - correlation) + if is_lost { correlation } else { 0.0 };
            if is_lost {
                bursts.on_loss(gap, is_next_lost);
            }
            is_lost = is_next_lost;
        }
        bursts.judge();
        bursts.memory_s()
    }

    #[test]
    fn independent_losses_are_no_bursts() {
        for share in [0.01, 0.05, 0.2, 0.5] {
            assert_eq!(seen(share, 0.0, Duration::from_millis(4), 50_000), 0.0, "{share}");
        }
    }

    #[test]
    fn the_length_of_bursts_is_found_from_neighbours() {
        for (memory_s, gap_ms) in [(0.019, 4.0), (0.019, 0.4), (0.0019, 0.4)] {
            let gap = Duration::from_secs_f64(gap_ms / 1e3);
            let found = seen(0.05, memory_s, gap, 100_000);
            assert!((found / memory_s - 1.0).abs() < 0.25, "{memory_s}, {gap_ms} ms: {found}");
        }
    }
}
