//! Estimate as text and as JSON.

use std::time::Duration;

use dfcp_estimate::{BusyPeriod, Config, Counts, Estimator, Summary};
use dfcp_time::Time;
use serde_json::{Value, json};

use crate::limits::BUSY_PERIODS_KEPT_MAX;
use crate::units::{human_duration, human_rate};

/// Busy periods in order of their ends, up to a limit.
#[derive(Debug, Default)]
pub(super) struct Periods {
    kept: Vec<BusyPeriod>,
    left_out: u64,
}

impl Periods {
    pub(super) fn add(&mut self, period: BusyPeriod) {
        if self.kept.len() < BUSY_PERIODS_KEPT_MAX {
            self.kept.push(period);
        } else {
            self.left_out += 1;
        }
    }

    /// Returns this quantile of the durations of the kept periods.
    fn duration(&self, quantile: f64) -> Duration {
        let mut durations: Vec<_> = self.kept.iter().map(BusyPeriod::duration).collect();
        durations.sort_unstable();
        let rank = (quantile * durations.len() as f64).ceil() as usize;
        durations.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Results of a capture or a live measurement.
#[derive(Debug)]
pub(super) struct Figures {
    config: Config,
    summary: Summary,
    counts: Counts,
    periods: Periods,
    /// Time of the first test packet.
    began: Time,
    span: Duration,
}

impl Figures {
    pub(super) fn new(estimator: &Estimator, periods: Periods, began: Time, ended: Time) -> Self {
        Self {
            config: *estimator.config(),
            summary: *estimator.summary(),
            counts: *estimator.counts(),
            periods,
            began,
            span: ended.since(began),
        }
    }

    /// Fails with advice if there is no estimate.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.summary.busy_periods() > 0 {
            return Ok(());
        }
        let (span, threshold) = (seconds(self.span), human_duration(self.config.threshold));
        let longest = human_duration(Duration::from_millis(self.counts.longest_queue.as_millis() as u64));
        anyhow::bail!(
            "no estimate: in {span} no two test packets in a row waited {threshold} or longer, and the longest wait was {longest}; use the path so that its queue fills, such as by loading pages, or give a smaller --threshold"
        )
    }

    /// Returns lines for display, with one fact each.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(mean_bps) = self.summary.mean_bps() {
            lines.push(format!("estimate      {}, {}", human_rate(mean_bps), self.describe_confidence()));
            lines.push(format!("busy periods  {}", self.describe_periods()));
        }
        let Counts { probes, missing, .. } = self.counts;
        let share = 100.0 * missing as f64 / (probes + missing).max(1) as f64;
        let interval = human_duration(self.config.interval);
        let span = seconds(self.span);
        lines.push(format!("test packets  {probes} in {span}, one every {interval}; {missing} missing ({share:.1} %)"));
        lines
    }

    fn describe_confidence(&self) -> String {
        match (self.summary.confidence_95(), self.summary.range()) {
            (Some(within), Some(range)) => format!(
                "between {} and {} with 95 % confidence; single busy periods {} to {}",
                human_rate(within.low_bps),
                human_rate(within.high_bps),
                human_rate(range.low_bps),
                human_rate(range.high_bps)
            ),
            _ => "of a single busy period, which cannot say how sure it is: measure for longer".to_owned(),
        }
    }

    fn describe_periods(&self) -> String {
        let count = self.summary.busy_periods();
        let busy = self.summary.busy();
        let share = 100.0 * busy.as_secs_f64() / self.span.as_secs_f64().max(f64::MIN_POSITIVE);
        let all = format!("{} altogether, {share:.0} % of the time", seconds(busy));
        if count == 1 {
            return format!("1, of {all}");
        }
        let (half, most) = (self.periods.duration(0.5), self.periods.duration(0.9));
        format!("{count}; half last {} at most, nine tenths {}; {all}", seconds(half), seconds(most))
    }

    /// Returns the JSON output. Times are in seconds since the first test packet.
    pub(super) fn to_json(&self) -> Value {
        let (summary, counts, config) = (&self.summary, &self.counts, &self.config);
        let (within, range) = (summary.confidence_95(), summary.range());
        let periods = self.periods.kept.iter().map(|period| {
            json!({
                "start_s": period.start.since(self.began).as_secs_f64(), "seconds": period.duration().as_secs_f64(),
                "bytes": period.bytes, "rate_bps": period.rate_bps(), "is_cut": period.is_cut,
            })
        });
        let periods = periods.collect::<Vec<_>>();
        json!({
            "estimate_bps": summary.mean_bps(), "low_bps": within.map(|within| within.low_bps), "high_bps": within.map(|within| within.high_bps),
            "deviation_bps": summary.deviation_bps(), "slowest_bps": range.map(|range| range.low_bps),
            "fastest_bps": range.map(|range| range.high_bps), "weighted_bps": summary.weighted_bps(),
            "busy_periods": summary.busy_periods(), "busy_seconds": summary.busy().as_secs_f64(), "busy_bytes": summary.bytes(),
            "seconds": self.span.as_secs_f64(),
            "probes": { "arrived": counts.probes, "missing": counts.missing, "late": counts.late },
            "model": {
                "interval_ms": ms(config.interval), "threshold_ms": ms(config.threshold), "gap_ms": ms(config.gap),
                "tolerance_ms": ms(config.tolerance), "begun": counts.models, "broken_by_gaps": counts.gaps, "single": counts.single,
                "longest_wait_ms": ms(counts.longest_queue),
            },
            "periods": periods, "periods_left_out": self.periods.left_out,
        })
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(ms: u64) -> BusyPeriod {
        BusyPeriod { start: Time::ZERO, end: Time::from_ms(ms), bytes: 1, is_cut: false }
    }

    #[test]
    fn quantiles_are_durations_that_there_were() {
        let mut periods = Periods::default();
        assert_eq!(periods.duration(0.5), Duration::ZERO);
        (1..=10).rev().for_each(|ms| periods.add(period(ms)));
        let ms = |quantile| periods.duration(quantile).as_millis();
        assert_eq!((ms(0.0), ms(0.5), ms(0.9), ms(1.0)), (1, 5, 9, 10));
    }

    #[test]
    fn no_more_are_kept_than_fit() {
        let mut periods = Periods::default();
        (0..BUSY_PERIODS_KEPT_MAX + 3).for_each(|_| periods.add(period(1)));
        assert_eq!((periods.kept.len(), periods.left_out), (BUSY_PERIODS_KEPT_MAX, 3));
    }
}
