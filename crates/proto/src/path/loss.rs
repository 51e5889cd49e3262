//! Estimate p̂ of the loss rate: the share of sent datagrams that do not arrive.

/// Memory of the estimate, datagrams. A longer memory reduces the estimation error: with 4096 the standard error at p =
/// 20 % is 0.4 % (`spec/protocol.md` \[loss-1\]).
const MEMORY_DATAGRAMS: f64 = 4096.0;

/// Memory of the second, faster estimate, datagrams. It detects changes of the path (`spec/protocol.md` \[loss-2\]).
const RECENT_DATAGRAMS: f64 = 256.0;

/// Standard errors by which the fast estimate must differ to count. On a constant path this is rare.
const RECENT_DOUBT: f64 = 2.0;

/// Loss rate assumed before the first report.
const PRIOR_LOSS: f64 = 0.05;
/// Weight of this assumption, datagrams.
const PRIOR_DATAGRAMS: f64 = 100.0;

/// Exponentially weighted average of the loss rate.
#[derive(Clone, Copy, Debug)]
struct Memory {
    sent: f64,
    lost: f64,
}

impl Memory {
    const PRIOR: Self = Self { sent: PRIOR_DATAGRAMS, lost: PRIOR_DATAGRAMS * PRIOR_LOSS };

    /// Takes in `sent` datagrams, of which `arrived` arrived. The memory `datagrams` is an argument instead of a field,
    /// because every idle connection holds these fields.
    fn observe(&mut self, datagrams: f64, sent: f64, arrived: f64) {
        let kept = (-sent / datagrams).exp();
        self.sent = self.sent * kept + sent;
        self.lost = self.lost * kept + sent - arrived;
    }

    fn mean(&self) -> f64 {
        if self.sent <= 0.0 { 0.0 } else { (self.lost / self.sent).clamp(0.0, 1.0) }
    }

    /// Returns the standard error of the mean for independent losses. An exponential average over n datagrams equals a
    /// plain average over 2n.
    fn standard_error(&self) -> f64 {
        let p = self.mean();
        (p * (1.0 - p) / (2.0 * self.sent.max(1.0))).sqrt()
    }
}

/// Loss estimates of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossEstimator {
    long: Memory,
    recent: Memory,
    /// Lower bound, cached: read for every datagram, changed only by reports.
    low: f64,
    /// Upper bound, cached.
    high: f64,
}

impl Default for LossEstimator {
    fn default() -> Self {
        Self { long: Memory::PRIOR, recent: Memory::PRIOR, low: PRIOR_LOSS, high: PRIOR_LOSS }
    }
}

impl LossEstimator {
    /// Takes in `sent` further datagrams, of which `arrived` arrived. Late datagrams can make `arrived` exceed `sent`.
    pub(crate) fn observe(&mut self, sent: u64, arrived: u64) {
        let (sent, arrived) = (sent as f64, arrived as f64);
        self.long.observe(MEMORY_DATAGRAMS, sent, arrived);
        self.recent.observe(RECENT_DATAGRAMS, sent, arrived);
        let (long, recent, doubt) = (self.long.mean(), self.recent.mean(), RECENT_DOUBT * self.recent.standard_error());
        self.low = long.min(recent + doubt);
        self.high = long.max(recent - doubt);
    }

    /// Returns p̂, 0 to 1.
    pub(crate) fn estimate(&self) -> f64 {
        self.long.mean()
    }

    /// Returns the lower bound of p̂, for decisions where overestimates cost more: they waste symbols, while an
    /// underestimate costs another round. It falls at once when the path improves, and rises slowly.
    pub(crate) fn low(&self) -> f64 {
        self.low
    }

    /// Returns the upper bound of p̂, for decisions where underestimates cost more: they lose a round trip. It rises at
    /// once, and falls slowly.
    pub(crate) fn high(&self) -> f64 {
        self.high
    }

    /// Returns p̂ for decisions where both errors cost the same. It rises and falls at once.
    pub(crate) fn now(&self) -> f64 {
        if self.low < self.long.mean() { self.low } else { self.high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_five_per_cent_and_follows_the_path() {
        let mut loss = LossEstimator::default();
        assert!((loss.estimate() - 0.05).abs() < 1e-12);
        for _ in 0..400 {
            loss.observe(100, 80);
        }
        assert!((loss.estimate() - 0.2).abs() < 1e-3);
        for _ in 0..400 {
            loss.observe(100, 100);
        }
        assert!(loss.estimate() < 1e-3);
    }

    #[test]
    fn a_changed_path_is_noticed_before_the_long_memory_has_forgotten() {
        let after = |losses: [u64; 2]| {
            let mut loss = LossEstimator::default();
            let feed = |loss: &mut LossEstimator, times, lost| (0..times).for_each(|_| loss.observe(20, 20 - lost));
            feed(&mut loss, 1_000, losses[0]);
            feed(&mut loss, 50, losses[1]);
            loss
        };
        let better = after([16, 1]);
        assert!(better.estimate() > 0.4 && better.low() < 0.15 && better.high() == better.estimate());
        assert_eq!(better.now(), better.low());
        let worse = after([1, 16]);
        assert!(worse.estimate() < 0.3 && worse.high() > 0.7 && worse.low() == worse.estimate());
        assert_eq!(worse.now(), worse.high());
    }

    #[test]
    fn on_an_unchanging_path_the_second_opinion_is_seldom_heard() {
        let mut random = 1_u64;
        let mut loss = LossEstimator::default();
        let mut heard = 0;
        for i in 0..100_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            loss.observe(1, u64::from(random >> 33 > (1 << 31) / 5));
            heard += u32::from(i > 20_000 && loss.low() < loss.estimate());
        }
        assert!(heard < 8_000, "{heard} of 80 000");
    }

    #[test]
    fn late_arrivals_cancel_what_they_were_counted_for() {
        let mut loss = LossEstimator::default();
        loss.observe(100, 90);
        let before = loss.estimate();
        loss.observe(100, 110);
        assert!(loss.estimate() < before);
        loss.observe(0, 1000);
        assert!((0.0..=1.0).contains(&loss.estimate()));
    }
}
