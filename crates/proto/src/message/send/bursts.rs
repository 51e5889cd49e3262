//! Loss rate and burst length of a path, from the correlation between the losses of successive datagrams at different
//! time gaps.

use std::time::Duration;

use crate::message::plan::chain::LossModel;

/// Upper bound of the first gap bucket. Each further bucket doubles the bound.
const GAP_MIN: Duration = Duration::from_micros(50);
const BUCKETS: usize = 12;
/// Memory of a bucket, in losses: older samples have a weight below 1/e.
const REMEMBERED: f64 = 2_048.0;
/// Fewest losses in a bucket before its correlation is trusted.
const LOSSES_MIN: f64 = 30.0;
/// Least correlation that is trusted, in standard errors.
const DOUBT: f64 = 3.0;
/// Least correlation that is trusted.
const CORRELATION_MIN: f64 = 0.1;
/// Higher correlations are clamped to this.
const CORRELATION_MAX: f64 = 0.99;
/// Longest burst that is estimated, seconds. Longer bursts exceed every deadline that matters.
const MEMORY_MAX_S: f64 = 10.0;

/// Memory of the long-term loss rate, in datagrams, for independent losses.
const SHARE_MEMORY: f64 = 4_096.0;
/// Memory of the recent loss rate, in datagrams. It detects changes of the path.
const RECENT_MEMORY: f64 = 256.0;
/// Half width of the recent rate's confidence interval, in standard errors.
const RECENT_DOUBT: f64 = 2.5;
/// Loss rate assumed before the first report.
const PRIOR_SHARE: f64 = 0.05;
/// Weight of this assumption, in datagrams.
const PRIOR_DATAGRAMS: f64 = 100.0;
/// Longer pauses between datagrams are excluded from the mean gap.
const GAP_MAX: Duration = Duration::from_millis(100);

/// Loss statistics of a path.
#[derive(Clone, Debug)]
pub(super) struct Bursts {
    buckets: [Bucket; BUCKETS],
    /// Estimated correlation time of losses, seconds; 0 if losses are independent.
    memory_s: f64,
    long: Share,
    recent: Share,
    /// Mean time between datagrams, seconds.
    gap_s: f64,
}

/// Loss rate with exponential forgetting.
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

/// Datagrams sent after a lost one, if the time between the two lies in one range.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Number of datagrams that followed a lost one, with decay.
    followed: f64,
    lost: f64,
    /// Sum of the gaps before these datagrams, seconds, with decay.
    gaps_s: f64,
}

impl Bursts {
    /// Records the fate of the datagram that was sent `gap` after a lost one.
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

    /// Records the fate of a datagram that was sent `gap` after the previous one.
    pub(super) fn on_fate(&mut self, gap: Duration, is_lost: bool) {
        if gap <= GAP_MAX {
            self.gap_s += (gap.as_secs_f64() - self.gap_s) / 64.0;
        }
        // Neighbours in a burst are one piece of evidence, so that the memory is counted in independent samples.
        let alike = self.alike();
        self.long.observe(SHARE_MEMORY * alike, is_lost);
        self.recent.observe(RECENT_MEMORY * alike, is_lost);
    }

    /// Returns the number of datagrams that are worth one independent sample. It exceeds 1 with bursts, because
    /// neighbours share their fate.
    fn alike(&self) -> f64 {
        if self.memory_s > 0.0 && self.gap_s > 0.0 { (1.0 + 2.0 * self.memory_s / self.gap_s).min(64.0) } else { 1.0 }
    }

    /// Returns the estimated loss rate: the long-term rate, limited to the confidence interval of the recent rate.
    pub(super) fn share(&self) -> f64 {
        let (long, recent) = (self.long.mean(), self.recent.mean());
        let spread = recent.max(long) * (1.0 - recent.min(long));
        let doubt = RECENT_DOUBT * (spread * self.alike() / (2.0 * self.recent.sent)).sqrt();
        long.clamp(recent - doubt, recent + doubt)
    }

    /// Recomputes the correlation time of losses from all buckets.
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
    /// Returns the correlation time that explains this bucket's losses, seconds. `None` if they may be independent.
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

    /// Returns the correlation time estimated for a simulated path with this loss rate and correlation time.
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
