//! Resolved settings of a bottleneck estimator.

use std::time::Duration;

use dfcp_estimate::Config;
use dfcp_sim::messages::{MODEL_HEADER_BYTES, Messages, ModelConfig, Recovery};
use dfcp_sim::{FlowConfig, Transport};
use dfcp_time::duration_ns;
use serde::{Deserialize, Serialize};

use super::Scenario;
use super::quantity::{ns, positive};
use crate::plan::Flows;

/// IP packet size of test packets, bytes. As in the dissertation: 4.8 kbit/s at an interval of 100 ms.
const PROBE_BYTES: u32 = 60;
/// Arbitrary target share of messages in time, which models of test packets ignore.
const ANY_TARGET: f64 = 0.9;

/// Interval of test packets, and parameters of the estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimateSpec {
    /// Interval of test packets, ns.
    pub probe_every_ns: u64,
    /// Queueing delay at which a queue counts as busy, ns.
    pub threshold_ns: u64,
    /// Longest gap between test packets, ns. After a longer one, the estimator's model of the queue is reset.
    pub gap_ns: u64,
}

/// Resolves the estimator of the flows in `group`, which cross the bottlenecks `over` (first, last).
pub(super) fn estimate(
    scenario: &Scenario,
    group: &Flows,
    over: (usize, usize),
) -> Result<Option<EstimateSpec>, String> {
    let Some(table) = group.estimate else { return Ok(None) };
    if !scenario.nodes.is_empty() || over.0 != over.1 || group.is_back {
        return Err("[flows.estimate] is about one bottleneck in data's direction; let `over` name it".to_owned());
    }
    let policed = scenario.links.get(over.0).is_some_and(|link| link.impairments.has_no_queue());
    if policed {
        return Err("a policer has no queue to estimate anything by; remove [flows.estimate]".to_owned());
    }
    let time = |name, ms: f64| positive(name, ms, 1e6).map(|ms| Duration::from_nanos(ns(ms / 1e3)));
    let default = Config::default();
    let every = table.probe_every_ms.map_or(Ok(default.interval), |ms| time("probe_every_ms", ms))?;
    // Checked before any addition, to exclude overflow.
    if every > dfcp_estimate::limits::INTERVAL_MAX {
        let max = dfcp_estimate::limits::INTERVAL_MAX;
        return Err(format!("[flows.estimate]: probe_every_ms is {every:?}, but lies not above {max:?}"));
    }
    let mut config = Config::new(every);
    if let Some(ms) = table.threshold_ms {
        config = config.with_threshold(time("threshold_ms", ms)?);
    }
    if let Some(ms) = table.gap_ms {
        config = config.with_gap(time("gap_ms", ms)?);
    }
    config.validate().map_err(|error| format!("[flows.estimate]: {error}"))?;
    Ok(Some(EstimateSpec {
        probe_every_ns: duration_ns(config.interval),
        threshold_ns: duration_ns(config.threshold),
        gap_ns: duration_ns(config.gap),
    }))
}

impl EstimateSpec {
    /// Returns the configuration of the estimator.
    #[must_use]
    pub fn config(&self) -> Config {
        Config::new(Duration::from_nanos(self.probe_every_ns))
            .with_threshold(Duration::from_nanos(self.threshold_ns))
            .with_gap(Duration::from_nanos(self.gap_ns))
    }

    /// Returns the flow of test packets on the path of `flow`. Test packets are never retransmitted, because their loss
    /// is detected after the deadline.
    pub(super) fn probes(&self, flow: FlowConfig) -> FlowConfig {
        let every = Duration::from_nanos(self.probe_every_ns);
        let bytes = PROBE_BYTES - MODEL_HEADER_BYTES;
        let messages = Messages { bytes, every, deadline: every, target: ANY_TARGET, beside_stream: false };
        let transport = Transport::Model(ModelConfig { messages, recovery: Recovery::Arq });
        FlowConfig { bytes: None, transport, ..flow }
    }
}
