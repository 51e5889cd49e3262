//! Measurements of a run, and the metrics computed from them.

mod estimate;
mod names;

use serde::{Deserialize, Serialize};

pub use self::estimate::EstimateMeasured;
pub use self::names::METRICS;
use crate::lateness::Lateness;

/// All measurements of a run. On the simulator, the same scenario and seed give identical bits, except `cpu_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Flows, in the scenario's order.
    pub flows: Vec<FlowMeasured>,
    /// Links, in the scenario's order.
    pub links: Vec<LinkMeasured>,
    /// Greatest total goodput that the first bottleneck can carry at its nominal rate, bit/s.
    pub ceiling_bps: f64,
    /// Greatest total goodput that the first bottleneck could deliver after the warm-up, bit/s. Computed from its mean
    /// capacity in that time, less random losses.
    pub possible_bps: f64,
    /// Time from the first data sent until the first bottleneck delivers 90 % of its capacity over a round trip, ms.
    pub start_ms: Option<f64>,
    /// Drop rate of the first bottleneck's queue during the start phase, as a share. The phase ends one round trip
    /// after the first window in which 90 % of the capacity is delivered.
    pub start_dropped: Option<f64>,
    /// Longest time after a change of the first bottleneck's rate or delay until it delivered 90 % of its capacity
    /// again, ms.
    pub recovery_ms: Option<f64>,
    /// Ideal fair goodput of each flow in every bin, bit/s; see [`fair_bps`](crate::dynamics::fair_bps). Empty if
    /// unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fair_bps: Vec<f64>,
    /// Width of the bins, s; 0 if the plan has no bins.
    pub bin_s: f64,
    /// Packets sent by endpoints, and packets delivered by links.
    pub packets_and_hops: (u64, u64),
    /// Packets dropped by the bottlenecks' loss models while goodput was measured, over all flows. `None` without
    /// random loss.
    pub random_losses: Option<u64>,
    /// True if random losses ignored the seed: the netem of older kernels, such as 6.1, cannot be seeded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unseeded: bool,
    /// Timing errors of the run on a real-time platform; `None` on other platforms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// CPU time of the run, s. The only value that varies between identical runs; `None` if the system does not report
    /// it.
    pub cpu_s: Option<f64>,
}

/// Measurements of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowMeasured {
    /// Goodput after the warm-up: application data delivered in order, bit/s.
    pub goodput_bps: f64,
    /// Rate after the warm-up of IP packets that reached the receiver, bit/s.
    pub wire_bps: f64,
    /// Longest time without a delivery after the warm-up, ms; `None` for a flow with a fixed number of bytes.
    pub longest_gap_ms: Option<f64>,
    /// Median of the sender's smoothed round-trip time after the warm-up, ms. `None` if it is unknown, on other
    /// platforms than the simulator, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Application bytes delivered in the whole run, including the warm-up.
    pub delivered_bytes: u64,
    /// Time at which the connection was opened, s.
    pub started_s: f64,
    /// Time at which the flow's hosts were switched off, s; `None` if they ran to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_s: Option<f64>,
    /// True for a flow in the reverse direction; sums over flows exclude it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_back: bool,
    /// Time from the first data packet sent to the last byte delivered, s.
    pub fct_s: Option<f64>,
    /// Time from opening the connection to the last byte delivered, s.
    pub fct_connect_s: Option<f64>,
    /// Time from opening the connection until the sender received the confirmation of delivery, s.
    pub fct_confirmed_s: Option<f64>,
    /// Time from the first data packet received to the last byte delivered, s.
    pub fct_receive_s: Option<f64>,
    /// True if the run ended before the flow did. Completion times are then extrapolated from the goodput.
    pub is_extrapolated: bool,
    /// Share of received data packets that did not help decoding; DFCP only.
    pub waste: Option<f64>,
    /// Retransmitted segments; TCP only.
    pub retransmissions: Option<u64>,
    /// Retransmission timeouts; TCP only.
    pub timeouts: Option<u64>,
    /// Goodput in each bin, from time 0, bit/s.
    pub bins_bps: Vec<f64>,
    /// Results of messages; `None` for a flow that sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesMeasured>,
    /// Bottleneck estimates; `None` unless the plan configures an estimator for the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateMeasured>,
    /// Error that ended the flow early; `None` on success.
    pub failure: Option<String>,
}

/// Results of a flow's messages after the warm-up, or their computed theoretical bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesMeasured {
    /// Number of messages whose deadline had passed; 0 for the computed bound.
    pub due: u64,
    /// Share of messages delivered in time.
    pub in_time: f64,
    /// Share of messages completed after their deadline; messages neither in time nor late were lost.
    pub late: Option<f64>,
    /// Datagrams sent per message; `None` if the bound is unreachable.
    pub datagrams_each: Option<f64>,
    /// Bytes of IP packets sent by both ends, per message.
    pub ip_bytes_each: Option<f64>,
}

/// Measurements of a bottleneck in the forward direction, after the warm-up unless stated otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkMeasured {
    /// Mean queue length, packets.
    pub queue_mean_packets: f64,
    /// Standard deviation of the queue length, packets.
    pub queue_sd_packets: f64,
    /// Greatest minus least queue length, packets; `None` in older records.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_range_packets: Option<usize>,
    /// Mean queueing delay, ms, computed for full-sized packets.
    pub queue_mean_ms: f64,
    /// 95th percentile of the queueing delay, ms, computed for full-sized packets.
    pub queue_p95_ms: f64,
    /// Limit of the queue length, packets.
    pub queue_limit_packets: usize,
    /// Transmitted bytes as a share of the capacity.
    pub utilisation: f64,
    /// Share of the rate needed for the delivered application data, including headers and the least redundancy of the
    /// code. `None` unless all bottlenecks are in a row, and in older records.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub useful: Option<f64>,
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets marked by the queue instead of dropped (CE, RFC 3168).
    #[serde(skip_serializing_if = "is_none_counted", default)]
    pub marks: u64,
    /// Packets dropped by the loss model.
    pub lost: u64,
    /// Packets that arrived at the queue.
    pub offered: u64,
    /// Index of dispersion: variance divided by mean of the number of packets that arrive per 1 ms.
    pub dispersion: Option<f64>,
    /// Time of the queue's first drop, s from the start of the run.
    pub first_drop_s: Option<f64>,
    /// Queue length over time, packets, from time 0.
    pub queue_trace: Vec<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_none_counted(count: &u64) -> bool {
    *count == 0
}

/// Metrics with a separate value for each flow.
const OF_FLOWS: [&str; 29] = [
    "goodput_mbps",
    "error_percent",
    "wire_mbps",
    "share_percent",
    "goodput_cov",
    "longest_gap_ms",
    "rtt_ms",
    "fct_s",
    "fct_connect_s",
    "fct_confirmed_s",
    "fct_receive_s",
    "waste_percent",
    "timeouts",
    "retransmissions",
    "in_time_percent",
    "missed_percent",
    "late_percent",
    "datagrams_per_message",
    "overhead_percent",
    "ip_bytes_per_message",
    "busy_periods",
    "busy_s",
    "short_busy_percent",
    "estimate_mbps",
    "estimate_percent",
    "weighted_percent",
    "busy_error_percent",
    "busy_error_worst_percent",
    "probe_load_percent",
];

/// Returns true if a metric has this name.
#[must_use]
pub fn is_metric(name: &str) -> bool {
    METRICS.iter().any(|(metric, _)| *metric == name)
}

/// Returns the label and the unit of a metric. The metric's description ends with the unit, after a comma; plain
/// numbers have an empty unit.
#[must_use]
pub fn label_and_unit(metric: &str) -> (String, String) {
    let text = METRICS.iter().find(|(name, _)| *name == metric).map_or(metric, |(_, text)| text);
    let text = text.split(';').next().unwrap_or(text);
    for unit in ["Mbit/s", "%", "ms", "s", "packets"] {
        if let Some(label) = text.strip_suffix(unit).and_then(|label| label.strip_suffix(", ")) {
            return (label.to_owned(), unit.to_owned());
        }
    }
    (text.to_owned(), String::new())
}

/// Returns true if each flow has its own value of the metric.
#[must_use]
pub fn is_of_flows(name: &str) -> bool {
    OF_FLOWS.contains(&name)
}

/// Returns Jain's fairness index; 0 if no flow delivered anything.
#[must_use]
pub fn jain(goodputs: &[f64]) -> f64 {
    let (sum, squares) = goodputs.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 0.0 } else { sum * sum / (goodputs.len() as f64 * squares) }
}

/// Returns the mean and the population standard deviation; `None` without values.
#[must_use]
pub fn mean_and_sd(values: &[f64]) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    Some((mean, variance.sqrt()))
}

/// Returns the median; `None` without values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

impl LinkMeasured {
    /// Returns the range of the queue length, % of the buffer.
    fn range_percent(&self) -> Option<f64> {
        self.queue_range_packets.map(|packets| 100.0 * packets as f64 / self.queue_limit_packets.max(1) as f64)
    }
}

impl MessagesMeasured {
    fn value(&self, name: &str) -> Option<f64> {
        match name {
            "in_time_percent" => Some(100.0 * self.in_time),
            "missed_percent" => Some(100.0 * (1.0 - self.in_time)),
            "late_percent" => self.late.map(|share| 100.0 * share),
            "datagrams_per_message" => self.datagrams_each,
            "overhead_percent" => self.datagrams_each.map(|each| 100.0 * (each - 1.0)),
            "ip_bytes_per_message" => self.ip_bytes_each,
            _ => None,
        }
    }
}

impl Measured {
    /// Returns true if all measurements except the CPU time are equal.
    #[must_use]
    pub fn went_as(&self, other: &Self) -> bool {
        let without_cost = |run: &Self| Self { cpu_s: None, ..run.clone() };
        without_cost(self) == without_cost(other)
    }

    /// Returns metric `name` of the flow with index `flow`, or the mean over all flows. `None` if the metric is
    /// undefined.
    #[must_use]
    pub fn value(&self, name: &str, flow: Option<usize>, warm_up_s: f64) -> Option<f64> {
        if is_of_flows(name) {
            if let Some(flow) = flow {
                return self.of_flow(self.flows.get(flow)?, name, warm_up_s);
            }
            let values: Option<Vec<f64>> = self.flows.iter().map(|flow| self.of_flow(flow, name, warm_up_s)).collect();
            return mean_and_sd(&values?).map(|(mean, _)| mean);
        }
        let goodputs: Vec<f64> = self.flows.iter().filter(|flow| !flow.is_back).map(|flow| flow.goodput_bps).collect();
        let total_bps: f64 = goodputs.iter().sum();
        let links = |of: fn(&LinkMeasured) -> f64| {
            mean_and_sd(&self.links.iter().map(of).collect::<Vec<_>>()).map(|(mean, _)| mean)
        };
        let bins = |of: fn((f64, f64)) -> f64| mean_and_sd(&self.jain_of_bins(warm_up_s)).map(of);
        match name {
            // [`Table::values`](crate::Table::values) divides `relative_percent` by the value of a reference cell
            // later.
            "aggregate_mbps" | "relative_percent" => Some(total_bps / 1e6),
            "normalised_percent" => Some(100.0 * total_bps / self.ceiling_bps),
            "possible_percent" => (self.possible_bps > 0.0).then(|| 100.0 * total_bps / self.possible_bps),
            "start_ms" => self.start_ms,
            "start_dropped_percent" => self.start_dropped.map(|share| 100.0 * share),
            "recovery_ms" => self.recovery_ms,
            "jain" => Some(jain(&goodputs)),
            "jain_bins_mean" => bins(|(mean, _)| mean),
            "jain_bins_sd" => bins(|(_, sd)| sd),
            "error_sd_percent" => self.adaptation_errors(warm_up_s).map(|(_, sd)| 100.0 * sd),
            "aggregate_error_percent" => self.aggregate_error(warm_up_s).map(|(mean, _)| 100.0 * mean),
            "aggregate_error_sd_percent" => self.aggregate_error(warm_up_s).map(|(_, sd)| 100.0 * sd),
            "aggregate_close_percent" => self.aggregate_close(warm_up_s).map(|share| 100.0 * share),
            "spread_mbps" => self.spread_bps(warm_up_s).map(|(mean_bps, _)| mean_bps / 1e6),
            "spread_max_mbps" => self.spread_bps(warm_up_s).map(|(_, most_bps)| most_bps / 1e6),
            "ratio_sd" => self.ratio_sd(warm_up_s),
            "goodput_ratio" => {
                let [first, second, ..] = &self.flows[..] else { return None };
                (first.goodput_bps > 0.0).then(|| second.goodput_bps / first.goodput_bps)
            }
            "convergence_10_s" => self.convergence_s(0.1),
            "convergence_30_s" => self.convergence_s(0.3),
            "convergence_50_s" => self.convergence_s(0.5),
            "occupancy_percent" => {
                links(|link| 100.0 * link.queue_mean_packets / link.queue_limit_packets.max(1) as f64)
            }
            "queue_sd_percent" => links(|link| 100.0 * link.queue_sd_packets / link.queue_limit_packets.max(1) as f64),
            "queue_range_percent" => self.mean_of_links(LinkMeasured::range_percent),
            "queue_packets" => links(|link| link.queue_mean_packets),
            "queue_ms" => links(|link| link.queue_mean_ms),
            "queue_p95_ms" => links(|link| link.queue_p95_ms),
            "useful_percent" => self.mean_of_links(|link| link.useful.map(|useful| 100.0 * useful)),
            "utilisation_percent" => links(|link| 100.0 * link.utilisation),
            "drops" => Some(self.links.iter().map(|link| link.queue_drops as f64).sum()),
            "dropped_percent" => self.percent_of_offered(|link| link.queue_drops),
            "marks" => Some(self.links.iter().map(|link| link.marks as f64).sum()),
            "marked_percent" => self.percent_of_offered(|link| link.marks),
            "random_losses" => self.random_losses.map(|losses| losses as f64),
            "dispersion" => self.links.first()?.dispersion,
            "first_drop_s" => self.links.first()?.first_drop_s,
            "late_p99_ms" => self.lateness.map(|lateness| lateness.p99_ms),
            "ends_ran_percent" => self.lateness.map(|lateness| 100.0 * lateness.ends_ran),
            "cpu_s_per_gb" => {
                let bytes: u64 = self.flows.iter().map(|flow| flow.delivered_bytes).sum();
                self.cpu_s.filter(|_| bytes > 0).map(|cpu_s| cpu_s / (bytes as f64 / 1e9))
            }
            _ => None,
        }
    }

    /// Returns all samples of a metric that has many per run: the durations of busy periods. `None` for other metrics.
    #[must_use]
    pub fn samples(&self, name: &str) -> Option<Vec<f64>> {
        let estimates = self.flows.iter().filter_map(|flow| flow.estimate.as_ref());
        (name == "busy_s").then(|| estimates.flat_map(|estimate| estimate.busy_s.iter().copied()).collect())
    }

    /// Returns a counter summed over all bottlenecks, % of the packets offered to them.
    fn percent_of_offered(&self, of: fn(&LinkMeasured) -> u64) -> Option<f64> {
        let sums = self.links.iter().fold((0, 0), |(count, offered), link| (count + of(link), offered + link.offered));
        (sums.1 > 0).then(|| 100.0 * sums.0 as f64 / sums.1 as f64)
    }

    /// Returns the mean of a value over all bottlenecks; `None` if any bottleneck lacks it.
    fn mean_of_links(&self, of: fn(&LinkMeasured) -> Option<f64>) -> Option<f64> {
        let all: Option<Vec<f64>> = self.links.iter().map(of).collect();
        mean_and_sd(&all?).map(|(mean, _)| mean)
    }

    /// Returns true for a late run of a real-time platform; see [`Lateness::is_late`].
    pub(crate) fn is_late(&self) -> bool {
        self.lateness.is_some_and(|lateness| lateness.is_late)
    }

    fn of_flow(&self, flow: &FlowMeasured, name: &str, warm_up_s: f64) -> Option<f64> {
        match name {
            "goodput_mbps" => Some(flow.goodput_bps / 1e6),
            "wire_mbps" => Some(flow.wire_bps / 1e6),
            "share_percent" => Some(100.0 * flow.goodput_bps / self.ceiling_bps),
            "error_percent" => self.adaptation_error(flow, warm_up_s).map(|(mean, _)| 100.0 * mean),
            "goodput_cov" => mean_and_sd(self.bins_after(flow, warm_up_s)).map(|(mean, sd)| sd / mean.max(1.0)),
            "longest_gap_ms" => flow.longest_gap_ms,
            "rtt_ms" => flow.rtt_ms,
            "fct_s" => flow.fct_s,
            "fct_connect_s" => flow.fct_connect_s,
            "fct_confirmed_s" => flow.fct_confirmed_s,
            "fct_receive_s" => flow.fct_receive_s,
            "waste_percent" => flow.waste.map(|waste| 100.0 * waste),
            "timeouts" => flow.timeouts.map(|timeouts| timeouts as f64),
            "retransmissions" => flow.retransmissions.map(|segments| segments as f64),
            _ => {
                let of_messages = flow.messages.as_ref().and_then(|messages| messages.value(name));
                of_messages.or_else(|| flow.estimate.as_ref()?.value(name))
            }
        }
    }

    fn bins_after<'flow>(&self, flow: &'flow FlowMeasured, warm_up_s: f64) -> &'flow [f64] {
        if self.bin_s == 0.0 {
            return &[];
        }
        let first = (warm_up_s / self.bin_s).ceil() as usize;
        flow.bins_bps.get(first..).unwrap_or_default()
    }

    /// Returns Jain's index of every bin after the warm-up, over the flows present during the whole bin.
    #[must_use]
    pub fn jain_of_bins(&self, warm_up_s: f64) -> Vec<f64> {
        let flows = self.flows.iter().filter(|flow| !flow.is_back);
        let bins: Vec<_> = flows.map(|flow| (flow, self.bins_after(flow, warm_up_s))).collect();
        let count = bins.iter().map(|(_, bins)| bins.len()).min().unwrap_or(0);
        let first = if self.bin_s > 0.0 { (warm_up_s / self.bin_s).ceil() } else { 0.0 };
        let index = |bin: usize| {
            let (from_s, to_s) = ((first + bin as f64) * self.bin_s, (first + bin as f64 + 1.0) * self.bin_s);
            let is_there =
                |flow: &FlowMeasured| flow.started_s <= from_s && flow.stopped_s.is_none_or(|stop_s| stop_s >= to_s);
            jain(&bins.iter().filter(|(flow, _)| is_there(flow)).map(|(_, flow)| flow[bin]).collect::<Vec<_>>())
        };
        (0..count).map(index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_of_known_vectors() {
        assert_eq!(jain(&[1.0, 1.0, 1.0, 1.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[0.0, 0.0]), 0.0);
        assert!((jain(&[3.0, 1.0]) - 0.8).abs() < 1e-12);
    }

    #[test]
    fn the_median_is_between_both_halves() {
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![9.0, 1.0]), Some(5.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    }

    fn measured_link() -> LinkMeasured {
        LinkMeasured {
            dispersion: Some(1.0),
            first_drop_s: Some(2.0),
            offered: 8,
            marks: 2,
            useful: Some(0.5),
            queue_range_packets: Some(3),
            queue_limit_packets: 4,
            ..LinkMeasured::default()
        }
    }

    #[test]
    fn every_metric_that_is_named_has_a_value_where_it_has_a_meaning() {
        let flow = FlowMeasured {
            goodput_bps: 5e6,
            delivered_bytes: 1,
            fct_s: Some(1.0),
            fct_connect_s: Some(2.0),
            fct_confirmed_s: Some(3.0),
            fct_receive_s: Some(4.0),
            waste: Some(0.5),
            retransmissions: Some(1),
            timeouts: Some(2),
            bins_bps: vec![1e6, 4e6, 6e6],
            longest_gap_ms: Some(3.0),
            rtt_ms: Some(4.0),
            messages: Some(MessagesMeasured {
                due: 1_000,
                in_time: 0.995,
                late: Some(0.001),
                datagrams_each: Some(1.25),
                ip_bytes_each: Some(1_500.0),
            }),
            estimate: Some(EstimateMeasured {
                busy_s: vec![0.5, 1.0, 3.0],
                estimate_bps: Some(2e6),
                weighted_bps: Some(2.25e6),
                link_bps: 2.5e6,
                error_mean: Some(0.01),
                error_worst: Some(0.02),
                probes_bps: 4_800.0,
            }),
            ..FlowMeasured::default()
        };
        let measured = Measured {
            flows: vec![flow.clone(), flow],
            links: vec![measured_link()],
            ceiling_bps: 2e7,
            possible_bps: 1.25e7,
            start_ms: Some(1.0),
            start_dropped: Some(0.25),
            recovery_ms: Some(2.0),
            bin_s: 1.0,
            fair_bps: vec![2e6; 3],
            cpu_s: Some(1.0),
            random_losses: Some(1),
            lateness: Some(Lateness::default()),
            ..Measured::default()
        };
        for (name, _) in METRICS {
            assert!(measured.value(name, None, 1.0).is_some(), "{name}");
            assert_eq!(is_of_flows(name), measured.value(name, Some(7), 1.0).is_none(), "{name}");
        }
        assert_eq!(measured.value("goodput_cov", Some(0), 1.0), Some(0.2));
        assert_eq!(measured.value("normalised_percent", None, 0.0), Some(50.0));
        assert_eq!(measured.value("possible_percent", None, 0.0), Some(80.0));
        assert_eq!(measured.value("queue_range_percent", None, 0.0), Some(75.0));
        assert_eq!(measured.value("marked_percent", None, 0.0), Some(25.0));
        assert_eq!(measured.value("start_dropped_percent", None, 0.0), Some(25.0));
        assert_eq!(measured.value("in_time_percent", Some(0), 0.0), Some(99.5));
        assert_eq!(measured.value("overhead_percent", Some(1), 0.0), Some(25.0));
        assert_eq!(measured.value("estimate_percent", Some(0), 0.0), Some(80.0));
        assert_eq!(measured.value("weighted_percent", Some(0), 0.0), Some(90.0));
        assert_eq!(measured.value("busy_s", None, 0.0), Some(1.0));
        assert_eq!(measured.value("short_busy_percent", None, 0.0).map(f64::round), Some(33.0));
        assert_eq!(measured.samples("busy_s").map(|all| all.len()), Some(6));
        assert_eq!(measured.samples("busy_periods"), None);
        assert_eq!(measured.value("nonsense", None, 0.0), None);
    }

    #[test]
    fn a_record_says_that_a_run_was_late() {
        let lateness = Lateness { p99_ms: 0.7, ..Lateness::default() }.judged();
        let late = Measured { lateness: Some(lateness), ..Measured::default() };
        let json = serde_json::to_value(late).unwrap_or_default();
        assert_eq!(json["lateness"]["is_late"], true);
        assert_eq!(json["lateness"]["p99_ms"], 0.7);
        assert!(serde_json::to_value(Measured::default()).is_ok_and(|json| json.get("lateness").is_none()));
    }
}
