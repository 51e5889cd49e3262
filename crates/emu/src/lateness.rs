//! Lateness of packets.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::limits::LATENESS_MAX;

/// Statistics of lateness: the time from a packet's departure on its emulated link to its write to the kernel. Never
/// negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Number of measured packets.
    pub packets: u64,
    /// Median, in ms.
    pub p50_ms: f64,
    /// 90th percentile, in ms.
    pub p90_ms: f64,
    /// 99th percentile, in ms.
    pub p99_ms: f64,
    /// Maximum, in ms.
    pub max_ms: f64,
}

/// Histogram of lateness, precise to 1 %.
#[derive(Clone, Debug)]
pub(crate) struct LatenessCounter(Histogram<u64>);

impl LatenessCounter {
    pub(crate) fn new() -> Self {
        let counter = Histogram::new_with_bounds(1, LATENESS_MAX.as_nanos() as u64, 2);
        // The constructor refuses only contradictory bounds; a resizing histogram has no bounds.
        Self(counter.unwrap_or_else(|_| Histogram::new(2).unwrap_or_else(|_| unreachable!("2 digits are possible"))))
    }

    pub(crate) fn add(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn summary(&self) -> Lateness {
        let ms = |ns: u64| ns as f64 / 1e6;
        let at = |quantile| ms(self.0.value_at_quantile(quantile));
        let max_ms = ms(self.0.max());
        Lateness {
            packets: self.0.len(),
            // The histogram returns the upper end of a bucket, which may exceed the maximum.
            p50_ms: at(0.5).min(max_ms),
            p90_ms: at(0.9).min(max_ms),
            p99_ms: at(0.99).min(max_ms),
            max_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_values() {
        let mut counter = LatenessCounter::new();
        assert_eq!(counter.summary(), Lateness::default());
        for us in 1..=1000 {
            counter.add(Duration::from_micros(us));
        }
        counter.add(Duration::from_secs(1000));
        let summary = counter.summary();
        assert_eq!(summary.packets, 1001);
        for (got, expected) in [(summary.p50_ms, 0.5), (summary.p90_ms, 0.9), (summary.p99_ms, 0.99)] {
            assert!((got / expected - 1.0).abs() < 0.01, "{summary:?}");
        }
        assert!(summary.max_ms >= 60_000.0, "{summary:?}");
    }
}
