//! Loss models of a link.

use std::sync::Arc;

use crate::error::{ConfigError, checked_probability};
use crate::random::{Random, Stream};

/// Loss model, evaluated for every packet that leaves the bottleneck.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// No loss.
    #[default]
    None,
    /// Independent losses with constant probability.
    Bernoulli {
        /// Probability of loss, 0 to 1.
        p: f64,
    },
    /// Bursts of losses by a chain of two states with different loss probabilities (Gilbert 1960, Elliott 1963). The
    /// present state's probability decides the fate of a packet; then the state may change. The chain starts in its
    /// stationary distribution. [`Loss::bursts`] computes the four probabilities.
    GilbertElliott {
        /// Probability of a transition from good to bad after a packet.
        p_good_to_bad: f64,
        /// Probability of a transition from bad to good after a packet.
        p_bad_to_good: f64,
        /// Probability of loss in the good state.
        loss_good: f64,
        /// Probability of loss in the bad state.
        loss_bad: f64,
    },
    /// Recorded pattern with an entry per packet, true for a lost packet. It repeats after its end.
    Trace(Arc<[bool]>),
}

impl Loss {
    /// Creates independent losses with probability `p`.
    #[must_use]
    pub const fn bernoulli(p: f64) -> Self {
        Self::Bernoulli { p }
    }

    /// Creates losses in bursts: a share `mean_loss` of all packets is lost, in runs of `mean_burst_packets` on
    /// average. This is a Gilbert model, in which the good state loses no packet and the bad state loses all. A mean
    /// burst of 1 / (1 − `mean_loss`) gives independent losses.
    ///
    /// # Errors
    /// Fails unless 0 ≤ `mean_loss` < 1. Fails if no such process exists: the mean burst is shorter than one packet, or
    /// than `mean_loss` / (1 − `mean_loss`), the burst length if every gap is a single packet.
    pub fn bursts(mean_loss: f64, mean_burst_packets: f64) -> Result<Self, ConfigError> {
        checked_probability("mean loss", mean_loss)?;
        if mean_loss >= 1.0 {
            return Err(ConfigError::EndlessBurst);
        }
        let shortest = (mean_loss / (1.0 - mean_loss)).max(1.0);
        // Division rounds: without the tolerance, a loss of 0.9 with bursts of 9 packets could be refused.
        if !mean_burst_packets.is_finite() || mean_burst_packets < shortest * (1.0 - 1e-9) {
            return Err(ConfigError::BurstTooShort { mean_loss, mean_burst_packets, shortest });
        }
        let p_bad_to_good = (1.0 / mean_burst_packets).min(1.0);
        let p_good_to_bad = (p_bad_to_good * mean_loss / (1.0 - mean_loss)).min(1.0);
        Ok(Self::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good: 0.0, loss_bad: 1.0 })
    }

    /// Returns the long-term share of lost packets.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Bernoulli { p } => *p,
            Self::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                let bad = stationary_bad(*p_good_to_bad, *p_bad_to_good);
                bad * loss_bad + (1.0 - bad) * loss_good
            }
            Self::Trace(lost) => lost.iter().filter(|&&lost| lost).count() as f64 / lost.len().max(1) as f64,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::None => Ok(()),
            Self::Bernoulli { p } => checked_probability("loss", *p),
            Self::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                checked_probability("p_good_to_bad", *p_good_to_bad)?;
                checked_probability("p_bad_to_good", *p_bad_to_good)?;
                checked_probability("loss_good", *loss_good)?;
                checked_probability("loss_bad", *loss_bad)
            }
            Self::Trace(lost) if lost.is_empty() => Err(ConfigError::EmptyTrace),
            Self::Trace(_) => Ok(()),
        }
    }
}

/// Returns the share of time in the bad state. A chain without transitions stays in the good state.
fn stationary_bad(p_good_to_bad: f64, p_bad_to_good: f64) -> f64 {
    let sum = p_good_to_bad + p_bad_to_good;
    if sum > 0.0 { p_good_to_bad / sum } else { 0.0 }
}

/// State of a loss model during operation.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    loss: Loss,
    random: Random,
    /// True in the bad state of the Gilbert-Elliott model.
    bad: bool,
    /// Index of the next entry of a recorded pattern.
    position: usize,
}

impl LossProcess {
    pub(crate) fn new(loss: Loss, seed: u64) -> Self {
        let mut process = Self { loss: Loss::None, random: Random::new(seed, Stream::Loss), bad: false, position: 0 };
        process.set(loss);
        process
    }

    /// Changes the model. The random sequence continues instead of starting again.
    pub(crate) fn set(&mut self, loss: Loss) {
        self.position = 0;
        self.bad = match &loss {
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, .. } => {
                self.random.chance(stationary_bad(*p_good_to_bad, *p_bad_to_good))
            }
            Loss::None | Loss::Bernoulli { .. } | Loss::Trace(_) => false,
        };
        self.loss = loss;
    }

    /// Decides whether the next packet is lost.
    pub(crate) fn loses_next(&mut self) -> bool {
        match &self.loss {
            Loss::None => false,
            Loss::Bernoulli { p } => self.random.chance(*p),
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                let (p_loss, p_change) =
                    if self.bad { (*loss_bad, *p_bad_to_good) } else { (*loss_good, *p_good_to_bad) };
                let lost = self.random.chance(p_loss);
                self.bad ^= self.random.chance(p_change);
                lost
            }
            Loss::Trace(pattern) => {
                let lost = pattern[self.position];
                self.position = (self.position + 1) % pattern.len();
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(loss: Loss, seed: u64, packets: usize) -> Vec<bool> {
        let mut process = LossProcess::new(loss, seed);
        (0..packets).map(|_| process.loses_next()).collect()
    }

    fn mean(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    /// Returns the mean length of bursts of losses.
    fn mean_run(lost: &[bool]) -> f64 {
        let runs = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
        lost.iter().filter(|&&lost| lost).count() as f64 / runs as f64
    }

    #[test]
    fn bernoulli_loses_its_share() {
        for (seed, p) in [(1, 0.0), (2, 0.01), (3, 0.1), (4, 0.5), (5, 1.0)] {
            let n = 200_000;
            let five_sigma = 5.0 * (p * (1.0 - p) / n as f64).sqrt();
            let measured = mean(&draw(Loss::bernoulli(p), seed, n));
            assert!((measured - p).abs() <= five_sigma, "seed {seed}, p {p}: {measured}");
        }
    }

    #[test]
    fn bursts_have_the_mean_loss_and_length_asked_for() {
        for (seed, p, burst) in [(1, 0.01, 4.0), (2, 0.1, 10.0), (3, 0.5, 3.0), (4, 0.6, 1.5)] {
            let loss = Loss::bursts(p, burst).unwrap();
            assert!((loss.mean() - p).abs() < 1e-12);
            let lost = draw(loss, seed, 1_000_000);
            // The variance is about 2·burst times the variance of independent losses.
            let five_sigma = 5.0 * (p * (1.0 - p) * 2.0 * burst / 1e6f64).sqrt();
            assert!((mean(&lost) - p).abs() < five_sigma, "seed {seed}: {}", mean(&lost));
            assert!((mean_run(&lost) / burst - 1.0).abs() < 0.05, "seed {seed}: {}", mean_run(&lost));
        }
    }

    #[test]
    fn a_general_gilbert_elliott_chain_has_its_stationary_mean() {
        let loss = Loss::GilbertElliott { p_good_to_bad: 0.02, p_bad_to_good: 0.2, loss_good: 0.01, loss_bad: 0.6 };
        // The chain is in the bad state for 1/11 of the time.
        let expected = (0.6 + 10.0 * 0.01) / 11.0;
        assert!((loss.mean() - expected).abs() < 1e-12);
        let measured = mean(&draw(loss, 6, 1_000_000));
        assert!((measured / expected - 1.0).abs() < 0.05, "{measured} instead of {expected}");
    }

    #[test]
    fn impossible_bursts_are_refused() {
        assert_eq!(Loss::bursts(1.0, 5.0), Err(ConfigError::EndlessBurst));
        assert!(matches!(Loss::bursts(0.1, 0.5), Err(ConfigError::BurstTooShort { .. })));
        assert!(matches!(Loss::bursts(0.9, 8.9), Err(ConfigError::BurstTooShort { .. })));
        assert!(Loss::bursts(0.9, 9.0).is_ok());
        assert!(Loss::bursts(0.1, f64::NAN).is_err() && Loss::bursts(0.1, f64::INFINITY).is_err());
        assert_eq!(Loss::bursts(0.0, 3.0).map(|loss| loss.mean()), Ok(0.0));
    }

    #[test]
    fn a_trace_repeats() {
        let trace = Loss::Trace([true, false, false].into());
        assert_eq!(draw(trace, 0, 7), [true, false, false, true, false, false, true]);
    }

    #[test]
    fn a_new_model_takes_over_at_once() {
        let mut process = LossProcess::new(Loss::bernoulli(1.0), 1);
        assert!(process.loses_next());
        process.set(Loss::Trace([false, true].into()));
        assert!(!process.loses_next() && process.loses_next());
    }
}
