//! Configuration errors, and checks that several parts share.

use std::num::NonZeroU64;

use dfcp_time::Time;

/// Reason why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability outside 0 to 1, or not a number.
    #[error("{name} is {value}, but a probability lies between 0 and 1")]
    Probability {
        /// Name of the probability.
        name: &'static str,
        /// Value given.
        value: f64,
    },
    /// A rate of zero.
    #[error("a link's rate must be above 0 bit/s; a link that carries nothing is a blackout")]
    ZeroRate,
    /// A policer without a rate on a link without one.
    #[error("a policer needs a rate; give it one, or the link")]
    NoPolicerRate,
    /// A loss trace without entries.
    #[error("a loss trace needs at least one entry")]
    EmptyTrace,
    /// Bursts with a mean loss of 1.
    #[error("a mean loss of 1 is one endless burst; use independent losses with probability 1")]
    EndlessBurst,
    /// No loss process has this mean loss and burst length.
    #[error(
        "a mean loss of {mean_loss} needs bursts of at least {shortest} packets on average, not {mean_burst_packets}"
    )]
    BurstTooShort {
        /// Requested mean loss.
        mean_loss: f64,
        /// Requested mean burst length.
        mean_burst_packets: f64,
        /// Shortest possible mean burst length.
        shortest: f64,
    },
    /// A blackout ends before it starts, overlaps another, or is out of order.
    #[error("the blackout from {start} to {end} is empty or starts before the one in front of it ends")]
    Blackouts {
        /// Start of the faulty blackout.
        start: Time,
        /// End of the faulty blackout.
        end: Time,
    },
    /// A parameter of a queue discipline outside its range.
    #[error("{name} is {value}, but must be {min} to {max}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Value given.
        value: u64,
        /// Smallest permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// RED has options for marks, but marking is off.
    #[error("RED drops what it cannot mark, or marks no more above its upper threshold, only where it marks; set ecn")]
    RedWithoutEcn,
    /// A zero duration would repeat an event without end.
    #[error("{name} must be above zero")]
    ZeroDuration {
        /// Name of the parameter.
        name: &'static str,
    },
    /// RED's thresholds are equal or in the wrong order.
    #[error("RED's lower threshold of {min} must be below its upper one of {max}")]
    RedThresholds {
        /// Lower threshold.
        min: u64,
        /// Upper threshold.
        max: u64,
    },
    /// RED's moving average has zero weight, and so never moves.
    #[error("RED's weight must be above zero, or its average never follows the queue")]
    ZeroRedWeight,
}

pub(crate) fn checked_probability(name: &'static str, value: f64) -> Result<(), ConfigError> {
    // This form refuses NaN.
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ConfigError::Probability { name, value }) }
}

pub(crate) fn checked_rate(rate_bps: Option<u64>) -> Result<Option<NonZeroU64>, ConfigError> {
    match rate_bps {
        None => Ok(None),
        Some(rate_bps) => NonZeroU64::new(rate_bps).map(Some).ok_or(ConfigError::ZeroRate),
    }
}
