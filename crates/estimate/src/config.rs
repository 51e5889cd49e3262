//! Parameters of the estimator.

use std::time::Duration;

use crate::limits::{
    DRIFT_PPM_MAX, INTERVAL_MAX, INTERVAL_MIN, MODEL_INTERVALS_MIN, MODEL_MAX, THRESHOLD_MAX, THRESHOLD_MIN,
};

/// Default interval of test packets: the dissertation's 100 ms, 4.8 kbit/s with packets of 60 bytes.
pub const INTERVAL_DEFAULT: Duration = Duration::from_millis(100);

/// Default tolerance of spacings: the dissertation's mobile network had a jitter of a few milliseconds without other traffic.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_millis(3);

/// Default threshold of queueing delay, unless the interval is shorter: the smallest with which rates of busy periods are right within 2 %
/// in `examples/web.rs`. A larger one finds fewer busy periods, biased to times when the link is slow.
pub const THRESHOLD_DEFAULT: Duration = Duration::from_millis(20);

/// Default minimum of the gap: 500 kB that join the queue at once delay a test packet this long at 4 Mbit/s.
const GAP_MIN_DEFAULT: Duration = Duration::from_secs(1);

/// Queue model (thesis group 5: `d`, `th` and `gap` of its algorithm, and parameters that it leaves open).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// `d`: interval of test packets at the sender.
    pub interval: Duration,
    /// `th`: queueing delay from which the queue counts as busy.
    ///
    /// From `th` = `d` on, a busy period has no idle instant: a test packet that waits `d` is still queued when the next one joins. Below,
    /// the queue may have been empty between two test packets, and the rate is then slightly too low. A higher `th` finds fewer busy
    /// periods (thesis 5.2), biased to times when the link is slow.
    pub threshold: Duration,
    /// `gap`: longest time between test packets that the model survives. Data joining the queue within one interval
    /// must be served within `gap` less the interval; a radio outage must last longer than `gap`.
    pub gap: Duration,
    /// Largest difference of two spacings that count as equal. The algorithm requires equality, which real clocks never give.
    pub tolerance: Duration,
    /// Longest duration of a model, and of a busy period: clock drift adds to the modelled queue.
    pub restart_after: Duration,
}

impl Default for Config {
    /// Default: [`Config::new`] with [`INTERVAL_DEFAULT`].
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

    /// Configuration for test packets without numbers: `gap` = 1.9·`d`. A lost test packet looks like a queue that grew
    /// by `d`, so a loss must end the model: `gap` lies between `d` and 2·`d`. A burst that takes more than 0.9·`d`
    /// ends the model, too.
    #[must_use]
    pub fn unnumbered(interval: Duration) -> Self {
        Self::new(interval).with_gap(interval + interval / 10 * 9)
    }

    /// Sets the threshold, and with it the time after which a model of the queue is discarded. Within twice that time,
    /// clocks that differ by [`DRIFT_PPM_MAX`] drift apart by at most the threshold.
    #[must_use]
    pub fn with_threshold(mut self, threshold: Duration) -> Self {
        self.threshold = threshold;
        let permitted_ns = threshold.as_nanos().saturating_mul(1_000_000 / (2 * u128::from(DRIFT_PPM_MAX)));
        let permitted = Duration::from_nanos(u64::try_from(permitted_ns).unwrap_or(u64::MAX)).min(MODEL_MAX);
        self.restart_after = permitted.max(self.interval.saturating_mul(MODEL_INTERVALS_MIN));
        self
    }

    /// Sets the longest time between test packets that a model survives.
    #[must_use]
    pub fn with_gap(mut self, gap: Duration) -> Self {
        self.gap = gap;
        self
    }

    /// Sets the largest difference of spacings that count as equal.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Checks every field, as [`Estimator::new`](crate::Estimator::new) does.
    ///
    /// # Errors
    /// Returns the first invalid field.
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

/// Parameter outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {name} is {value:?}, but must be from {min:?} to {max:?}")]
pub struct ConfigError {
    /// Name of the parameter.
    pub name: &'static str,
    /// Value given.
    pub value: Duration,
    /// Smallest permitted value.
    pub min: Duration,
    /// Largest permitted value.
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
