//! Links that cannot exist, and the checks which several of their parts share.

use std::num::NonZeroU64;

use dfcp_time::Time;

/// A link that cannot exist.
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
    /// No process has this mean loss and burst length.
    #[error(
        "a mean loss of {mean_loss} needs bursts of at least {shortest} packets on average, not {mean_burst_packets}"
    )]
    BurstTooShort {
        /// The mean loss asked for.
        mean_loss: f64,
        /// The mean burst length asked for.
        mean_burst_packets: f64,
        /// The least which is possible.
        shortest: f64,
    },
    /// Blackouts which end before they start, overlap, or are out of order.
    #[error("the blackout from {start} to {end} is empty or starts before the one in front of it ends")]
    Blackouts {
        /// Start of the one at fault.
        start: Time,
        /// End of the one at fault.
        end: Time,
    },
    /// A parameter of a queue discipline outside its range.
    #[error("{name} is {value}, but must be {min} to {max}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Value given.
        value: u64,
        /// The least that is possible.
        min: u64,
        /// The most that is possible.
        max: u64,
    },
    /// RED's flags about marks on a RED that does not mark.
    #[error("RED drops what it cannot mark, or marks no more above its upper threshold, only where it marks; set ecn")]
    RedWithoutEcn,
    /// A time of zero where something would happen without end.
    #[error("{name} must be above zero")]
    ZeroDuration {
        /// Name of the parameter.
        name: &'static str,
    },
    /// RED's thresholds are equal or the wrong way round.
    #[error("RED's lower threshold of {min} must be below its upper one of {max}")]
    RedThresholds {
        /// The lower one.
        min: u64,
        /// The upper one.
        max: u64,
    },
    /// A moving average that never moves.
    #[error("RED's weight must be above zero, or its average never follows the queue")]
    ZeroRedWeight,
}

pub(crate) fn checked_probability(name: &'static str, value: f64) -> Result<(), ConfigError> {
    // Written so that NaN is refused.
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ConfigError::Probability { name, value }) }
}

pub(crate) fn checked_rate(rate_bps: Option<u64>) -> Result<Option<NonZeroU64>, ConfigError> {
    match rate_bps {
        None => Ok(None),
        Some(rate_bps) => NonZeroU64::new(rate_bps).map(Some).ok_or(ConfigError::ZeroRate),
    }
}
