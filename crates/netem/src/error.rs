//! Configuration errors, and range checks shared by several modules.

use std::num::NonZeroU64;

use dfcp_time::Time;

/// Error in the configuration of a link or queue.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability is NaN, or outside 0 to 1.
    #[error("{name} is {value}, but a probability lies between 0 and 1")]
    Probability {
        /// Name of the probability.
        name: &'static str,
        /// Configured value.
        value: f64,
    },
    /// A rate is zero.
    #[error("a link's rate must be above 0 bit/s; a link that carries nothing is a blackout")]
    ZeroRate,
    /// A policer without its own rate was set on a link without a rate.
    #[error("a policer needs a rate; give it one, or the link")]
    NoPolicerRate,
    /// A loss trace is empty.
    #[error("a loss trace needs at least one entry")]
    EmptyTrace,
    /// The mean loss of a burst model is 1, which allows no end of a burst.
    #[error("a mean loss of 1 is one endless burst; use independent losses with probability 1")]
    EndlessBurst,
    /// The mean burst is too short for the mean loss: no loss process has both.
    #[error(
        "a mean loss of {mean_loss} needs bursts of at least {shortest} packets on average, not {mean_burst_packets}"
    )]
    BurstTooShort {
        /// Requested mean loss, as a share.
        mean_loss: f64,
        /// Requested mean burst length, packets.
        mean_burst_packets: f64,
        /// Shortest possible mean burst length, packets.
        shortest: f64,
    },
    /// A blackout is empty, overlaps the previous one, or is out of order.
    #[error("the blackout from {start} to {end} is empty or starts before the one in front of it ends")]
    Blackouts {
        /// Start of the invalid blackout.
        start: Time,
        /// End of the invalid blackout.
        end: Time,
    },
    /// A parameter is outside its range.
    #[error("{name} is {value}, but must be {min} to {max}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Configured value.
        value: u64,
        /// Smallest permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// RED has options for marking, but marking is off.
    #[error("RED drops what it cannot mark, or marks no more above its upper threshold, only where it marks; set ecn")]
    RedWithoutEcn,
    /// A duration is zero, although it is the period of an event.
    #[error("{name} must be above zero")]
    ZeroDuration {
        /// Name of the parameter.
        name: &'static str,
    },
    /// RED's lower threshold is not below its upper threshold.
    #[error("RED's lower threshold of {min} must be below its upper one of {max}")]
    RedThresholds {
        /// Lower threshold, in packets or bytes.
        min: u64,
        /// Upper threshold, in packets or bytes.
        max: u64,
    },
    /// RED's moving average has weight zero, so that it would never change.
    #[error("RED's weight must be above zero, or its average never follows the queue")]
    ZeroRedWeight,
}

pub(crate) fn checked_probability(name: &'static str, value: f64) -> Result<(), ConfigError> {
    // Written as a range test, which NaN fails.
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(ConfigError::Probability { name, value }) }
}

pub(crate) fn checked_rate(rate_bps: Option<u64>) -> Result<Option<NonZeroU64>, ConfigError> {
    match rate_bps {
        None => Ok(None),
        Some(rate_bps) => NonZeroU64::new(rate_bps).map(Some).ok_or(ConfigError::ZeroRate),
    }
}
