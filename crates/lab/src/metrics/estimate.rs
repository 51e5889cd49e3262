//! Results of bandwidth estimators.

use serde::{Deserialize, Serialize};

use super::median;

/// Results of estimating a flow's bottleneck rate from busy periods of the queue, after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EstimateMeasured {
    /// Lengths of the busy periods, s, in chronological order.
    pub busy_s: Vec<f64>,
    /// Mean of the rates measured in the busy periods, bit/s of IP packets.
    pub estimate_bps: Option<f64>,
    /// Bytes of all busy periods divided by their total time, bit/s of IP packets.
    pub weighted_bps: Option<f64>,
    /// Mean capacity of the bottleneck, bit/s.
    pub link_bps: f64,
    /// Mean relative error |r − c| / c over busy periods, where r is the measured rate and c the capacity during the
    /// period.
    pub error_mean: Option<f64>,
    /// Largest relative error of any busy period.
    pub error_worst: Option<f64>,
    /// Rate of arriving test packets, bit/s of IP packets.
    pub probes_bps: f64,
}

/// Length below which the thesis calls a busy period short, s.
const SHORT_S: f64 = 1.0;

impl EstimateMeasured {
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        let percent = |share: f64| 100.0 * share;
        match name {
            "busy_periods" => Some(self.busy_s.len() as f64),
            "busy_s" => median(self.busy_s.clone()),
            "short_busy_percent" => {
                let short = self.busy_s.iter().filter(|&&s| s < SHORT_S).count();
                (!self.busy_s.is_empty()).then(|| percent(short as f64 / self.busy_s.len() as f64))
            }
            "estimate_mbps" => self.estimate_bps.map(|bps| bps / 1e6),
            "estimate_percent" => self.estimate_bps.map(|bps| percent(bps / self.link_bps)),
            "weighted_percent" => self.weighted_bps.map(|bps| percent(bps / self.link_bps)),
            "busy_error_percent" => self.error_mean.map(percent),
            "busy_error_worst_percent" => self.error_worst.map(percent),
            "probe_load_percent" => (self.link_bps > 0.0).then(|| percent(self.probes_bps / self.link_bps)),
            _ => None,
        }
    }
}
