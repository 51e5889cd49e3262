//! The parameters of the algorithm.

use std::time::Duration;

use crate::limits::{
    DRIFT_PPM_MAX, INTERVAL_MAX, INTERVAL_MIN, MODEL_INTERVALS_MIN, MODEL_MAX, THRESHOLD_MAX, THRESHOLD_MIN,
};

/// Interval of test packets by default: the dissertation's 100 ms, 4.8 kbit/s with packets of 60 bytes.
pub const INTERVAL_DEFAULT: Duration = Duration::from_millis(100);

/// A spacing this close to the one sent counts as equal unless told otherwise: the dissertation's mobile network had a jitter
/// of a few milliseconds without other traffic.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_millis(3);

/// The queueing delay from which the queue counts as busy unless told otherwise, if the interval is not shorter: in `examples/web.rs` the
/// least with which the rates of busy periods are right within 2 %. More finds fewer busy periods, and those at times when the link is slow.
pub const THRESHOLD_DEFAULT: Duration = Duration::from_millis(20);

/// The shortest gap unless told otherwise: 500 kB that join the queue at once keep a test packet for so long at 4 Mbit/s.
const GAP_MIN_DEFAULT: Duration = Duration::from_secs(1);

/// Model of the queue (thesis group 5: `d`, `th` and `gap` of its algorithm, and parameters that it leaves open).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// `d`: from one test packet to the next when they are sent.
    pub interval: Duration,
    /// `th`: the queueing delay from which the queue counts as busy.
    ///
    /// From `th` = `d` on a busy period has no idle instant: a test packet that waits `d` is still in the queue when the next
    /// one joins it. Below, the queue may have been empty between two test packets, and the busy period's rate is then too low, but by
    /// little. The higher it is, the fewer busy periods are found (thesis 5.2), and the more of them at times when the link is slow.
    pub threshold: Duration,
    /// `gap`: the longest time from one test packet to the next that the model survives. Data that joins the queue within one interval
    /// may not take longer than this, less the interval; a hole in the radio link, in which nothing is served, must.
    pub gap: Duration,
    /// Greatest difference of two spacings that count as equal. The algorithm compares them exactly, which no real clock satisfies.
    pub tolerance: Duration,
    /// A model and a busy period each hold for this long at the most, since the drift of two clocks adds to the modelled
    /// queue.
    pub restart_after: Duration,
}

impl Default for Config {
    /// [`Config::new`] with [`INTERVAL_DEFAULT`].
    fn default() -> Self {
        Self::new(INTERVAL_DEFAULT)
    }
}

impl Config {
    /// Configuration for numbered test packets, one every `interval`: `th` = 20 ms or `d` if that is less, and `gap` = 10·`d` or 1 s if that is
    /// more, so that neither losses nor bursts end the model.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        let config = Self {
            interval,
            threshold: Duration::ZERO,
            gap: interval.saturating_mul(10).clamp(GAP_MIN_DEFAULT, THRESHOLD_MAX),
            tolerance: TOLERANCE_DEFAULT.min(interval / 4),
            restart_after: Duration::ZERO,
        };
        config.with_threshold(THRESHOLD_DEFAULT.min(interval))
    }

    /// Configuration for test packets without numbers: `gap` = 1.9·`d`. A lost one looks like a queue that grew by `d`, so it has to end
    /// the model, and `gap` lies between `d` and 2·`d`; a burst that takes more than 0.9·`d` ends it, too.
    #[must_use]
    pub fn unnumbered(interval: Duration) -> Self {
        Self::new(interval).with_gap(interval + interval / 10 * 9)
    }

    /// Sets the threshold, and how long a model holds: during twice that time clocks which differ by
    /// [`DRIFT_PPM_MAX`] millionths drift apart by no more than the threshold.
    #[must_use]
    pub fn with_threshold(mut self, threshold: Duration) -> Self {
        self.threshold = threshold;
        let permitted_ns = threshold.as_nanos().saturating_mul(1_000_000 / (2 * u128::from(DRIFT_PPM_MAX)));
        let permitted = Duration::from_nanos(u64::try_from(permitted_ns).unwrap_or(u64::MAX)).min(MODEL_MAX);
        self.restart_after = permitted.max(self.interval.saturating_mul(MODEL_INTERVALS_MIN));
        self
    }

    /// Sets the longest time between test packets that the model survives.
    #[must_use]
    pub fn with_gap(mut self, gap: Duration) -> Self {
        self.gap = gap;
        self
    }

    /// Sets how far two spacings may be apart and still count as equal.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Checks every field, as [`Estimator::new`](crate::Estimator::new) does.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |name, value, min, max| {
            if (min..=max).contains(&value) { Ok(()) } else { Err(ConfigError { name, value, min, max }) }
        };
        within("interval", self.interval, INTERVAL_MIN, INTERVAL_MAX)?;
        within("threshold", self.threshold, THRESHOLD_MIN, THRESHOLD_MAX)?;
        within("tolerance", self.tolerance, Duration::ZERO, self.interval)?;
        within("gap", self.gap, self.interval + self.tolerance, THRESHOLD_MAX)?;
        within("restart_after", self.restart_after, self.interval, MODEL_MAX.max(self.interval * MODEL_INTERVALS_MIN))
    }
}

/// A parameter outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {name} is {value:?}, but must be from {min:?} to {max:?}")]
pub struct ConfigError {
    /// Name of the parameter.
    pub name: &'static str,
    /// Value given.
    pub value: Duration,
    /// The least that is possible.
    pub min: Duration,
    /// The most that is possible.
    pub max: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_for_every_interval() {
        for interval_ms in [1, 2, 10, 100, 999, 10_000] {
            let interval = Duration::from_millis(interval_ms);
            assert_eq!(Config::new(interval).validate(), Ok(()), "{interval:?}");
            let unnumbered = Config::unnumbered(interval);
            assert_eq!(unnumbered.validate(), Ok(()), "{interval:?}");
            assert!(unnumbered.gap > interval && unnumbered.gap < 2 * interval);
        }
        assert_eq!(Config::default().threshold, THRESHOLD_DEFAULT);
        assert_eq!(Config::new(Duration::from_millis(7)).threshold, Duration::from_millis(7));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let good = Config::default();
        for (bad, name) in [
            (Config { interval: Duration::ZERO, ..good }, "interval"),
            (Config { interval: Duration::MAX, ..good }, "interval"),
            (good.with_threshold(Duration::ZERO), "threshold"),
            (good.with_threshold(Duration::MAX), "threshold"),
            (good.with_tolerance(Duration::from_millis(101)), "tolerance"),
            (good.with_gap(good.interval), "gap"),
            (good.with_gap(Duration::MAX), "gap"),
            (Config { restart_after: Duration::ZERO, ..good }, "restart_after"),
            (Config { restart_after: Duration::MAX, ..good }, "restart_after"),
        ] {
            assert_eq!(bad.validate().unwrap_err().name, name);
        }
    }

    #[test]
    fn drift_during_two_models_stays_below_the_threshold() {
        for threshold_ms in [1, 5, 20, 100, 60_000] {
            let config = Config::default().with_threshold(Duration::from_millis(threshold_ms));
            let drift = config.restart_after * 2 * DRIFT_PPM_MAX as u32 / 1_000_000;
            let shortest = config.interval * MODEL_INTERVALS_MIN;
            assert!(drift <= config.threshold || config.restart_after == shortest, "{config:?}");
        }
    }
}
