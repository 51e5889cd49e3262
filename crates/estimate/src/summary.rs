//! Busy periods of a queue, and mean and confidence interval over all of them.

use std::time::Duration;

use dfcp_time::Time;

/// Period in which the queue was busy, and the bytes served in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPeriod {
    /// Arrival of its first test packet.
    pub start: Time,
    /// Arrival of its last test packet, after `start`.
    pub end: Time,
    /// Bytes that arrived after the first test packet, up to the last one and including it.
    pub bytes: u64,
    /// True if the period was cut at the longest duration of a model.
    pub is_cut: bool,
}

impl BusyPeriod {
    /// Duration from its first test packet to its last one.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Rate at which the queue was served, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> f64 {
        8e9 * self.bytes as f64 / self.end.as_ns().saturating_sub(self.start.as_ns()).max(1) as f64
    }
}

/// Mean, variance and sums over all busy periods so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    busy_periods: u64,
    mean_bps: f64,
    /// Sum of squared deviations (Welford's recurrence, which keeps precision at small variance).
    squares: f64,
    least_bps: f64,
    greatest_bps: f64,
    bytes: u64,
    busy: Duration,
}

/// A range of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end, bit/s; never below 0.
    pub low_bps: f64,
    /// Upper end, bit/s.
    pub high_bps: f64,
}

impl Summary {
    /// Adds a busy period.
    pub fn add(&mut self, period: &BusyPeriod) {
        let rate_bps = period.rate_bps();
        let before = self.busy_periods == 0;
        self.busy_periods += 1;
        let deviation = rate_bps - self.mean_bps;
        self.mean_bps += deviation / self.busy_periods as f64;
        self.squares += deviation * (rate_bps - self.mean_bps);
        self.least_bps = if before { rate_bps } else { self.least_bps.min(rate_bps) };
        self.greatest_bps = self.greatest_bps.max(rate_bps);
        self.bytes = self.bytes.saturating_add(period.bytes);
        self.busy = self.busy.saturating_add(period.duration());
    }

    /// Number of busy periods.
    #[must_use]
    pub fn busy_periods(&self) -> u64 {
        self.busy_periods
    }

    /// The estimate, bit/s of IP packets: the mean over busy periods, each with the same weight (line 20 of the algorithm).
    /// `None` without a busy period.
    #[must_use]
    pub fn mean_bps(&self) -> Option<f64> {
        (self.busy_periods > 0).then_some(self.mean_bps)
    }

    /// Bytes of all busy periods over their total time, bit/s: a mean weighted by duration, and so less sensitive to short periods, which a
    /// late test packet falsifies most. `None` without a busy period.
    #[must_use]
    pub fn weighted_bps(&self) -> Option<f64> {
        (self.busy_periods > 0).then(|| 8.0 * self.bytes as f64 / self.busy.as_secs_f64())
    }

    /// Standard deviation of the busy periods' rates, bit/s; `None` with fewer than two.
    #[must_use]
    pub fn deviation_bps(&self) -> Option<f64> {
        (self.busy_periods > 1).then(|| (self.squares / (self.busy_periods - 1) as f64).sqrt())
    }

    /// 95 % confidence interval of the mean by Student's distribution, assuming independent, identically distributed busy periods; `None`
    /// with fewer than two. A changing rate widens it like any other variance.
    #[must_use]
    pub fn confidence_95(&self) -> Option<Interval> {
        let deviation_bps = self.deviation_bps()?;
        let half = student_95(self.busy_periods - 1) * deviation_bps / (self.busy_periods as f64).sqrt();
        Some(Interval { low_bps: (self.mean_bps - half).max(0.0), high_bps: self.mean_bps + half })
    }

    /// Rates of the slowest and the fastest busy period; `None` without one.
    #[must_use]
    pub fn range(&self) -> Option<Interval> {
        (self.busy_periods > 0).then_some(Interval { low_bps: self.least_bps, high_bps: self.greatest_bps })
    }

    /// Total duration of the busy periods.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Total bytes of the busy periods.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// 97.5th percentile of Student's distribution with `freedom` degrees of freedom, at least 1. Between table entries the lower entry is
/// used, so that no interval is too narrow.
fn student_95(freedom: u64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0..=30 => TABLE[(freedom.max(1) - 1) as usize],
        31..60 => 2.042,
        60..120 => 2.000,
        _ => 1.980,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(bytes: u64, ms: u64) -> BusyPeriod {
        BusyPeriod { start: Time::from_ms(5), end: Time::from_ms(5 + ms), bytes, is_cut: false }
    }

    #[test]
    fn nothing_is_said_without_a_busy_period() {
        let summary = Summary::default();
        assert_eq!((summary.mean_bps(), summary.weighted_bps(), summary.range()), (None, None, None));
        assert_eq!((summary.deviation_bps(), summary.confidence_95()), (None, None));
    }

    #[test]
    fn one_busy_period_says_a_rate_and_not_how_sure() {
        let mut summary = Summary::default();
        summary.add(&period(1_000, 1));
        assert_eq!((summary.mean_bps(), summary.weighted_bps()), (Some(8e6), Some(8e6)));
        assert_eq!(summary.range(), Some(Interval { low_bps: 8e6, high_bps: 8e6 }));
        assert_eq!(summary.confidence_95(), None);
    }

    #[test]
    fn figures_are_those_of_a_textbook() {
        // 1, 2, 3, 4 and 5 Mbit/s: mean 3, deviation √2.5, and 2.776·√(2.5/5) = 1.963 on each side.
        let mut summary = Summary::default();
        for rate in 1..=5 {
            summary.add(&period(rate * 125_000, 1_000));
        }
        assert!((summary.mean_bps().unwrap() - 3e6).abs() < 1e-3);
        assert!((summary.deviation_bps().unwrap() - 1.581_138_8e6).abs() < 1.0);
        let interval = summary.confidence_95().unwrap();
        assert!((interval.low_bps - 1.037_07e6).abs() < 100.0 && (interval.high_bps - 4.962_93e6).abs() < 100.0);
        assert_eq!((summary.busy(), summary.bytes()), (Duration::from_secs(5), 15 * 125_000));
    }

    #[test]
    fn long_busy_periods_weigh_more_in_the_weighted_mean_alone() {
        let mut summary = Summary::default();
        summary.add(&period(3_000_000, 3_000));
        summary.add(&period(250_000, 1_000));
        assert_eq!((summary.mean_bps(), summary.weighted_bps()), (Some(5e6), Some(6.5e6)));
        assert_eq!(summary.confidence_95().unwrap().low_bps, 0.0, "no rate is below 0");
    }

    #[test]
    fn no_interval_is_narrower_with_less_freedom() {
        let values: Vec<f64> = (0..200).map(student_95).collect();
        assert!(values.windows(2).all(|pair| pair[0] >= pair[1]) && values[199] >= 1.96);
    }
}
