//! Measurements of a run, and the metrics with names among them.

mod estimate;
mod names;

use serde::{Deserialize, Serialize};

pub use self::estimate::EstimateMeasured;
pub use self::names::METRICS;
use crate::lateness::Lateness;

/// Everything measured in a run. The same scenario and seed give the same, to the last bit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Flows, in the scenario's order.
    pub flows: Vec<FlowMeasured>,
    /// Links, in the scenario's order.
    pub links: Vec<LinkMeasured>,
    /// The largest goodput of all flows together that the first bottleneck can carry, bit/s.
    pub ceiling_bps: f64,
    /// The largest goodput which the first bottleneck could have delivered after the warm-up, bit/s: at the rates which it had
    /// then, less the share of packets which it lost at random.
    pub possible_bps: f64,
    /// Time from the first data sent until the first bottleneck delivers 90 % of its rate, ms; see [`Settling`](crate::course).
    pub start_ms: Option<f64>,
    /// Share of the packets offered to the first bottleneck until a round trip after that which its queue dropped.
    pub start_dropped: Option<f64>,
    /// The longest time that it took to deliver 90 % again after a change of its rate or delay, ms.
    pub recovery_ms: Option<f64>,
    /// The ideal goodput of each flow in every bin, bit/s ([`fair_bps`](crate::dynamics::fair_bps)); empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fair_bps: Vec<f64>,
    /// Width of the bins, s; 0 for none.
    pub bin_s: f64,
    /// Packets which ends sent, and how often a link delivered one.
    pub packets_and_hops: (u64, u64),
    /// Packets of all flows which the bottlenecks' loss models took while goodput counted. `None` where nothing can be lost
    /// at random.
    pub random_losses: Option<u64>,
    /// Losses did not follow the seed: those of kernels whose netem takes none, as 6.1.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unseeded: bool,
    /// Lateness of a platform in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// CPU time which the run took, s, where the system tells: the one figure which is another each time.
    pub cpu_s: Option<f64>,
}

/// A flow's share of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowMeasured {
    /// Application bytes per second delivered in order after the warm-up, in bits.
    pub goodput_bps: f64,
    /// IP packets' bytes per second which reached the receiver after the warm-up, in bits.
    pub wire_bps: f64,
    /// The longest time without a byte delivered after the warm-up, ms; `None` of a flow which has an end.
    pub longest_gap_ms: Option<f64>,
    /// Application bytes delivered, the warm-up included.
    pub delivered_bytes: u64,
    /// Time at which the connection was opened, s.
    pub started_s: f64,
    /// Time at which its hosts were switched off, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_s: Option<f64>,
    /// It goes the other way: it does not count in the flows' sums.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_back: bool,
    /// Time from the first packet of data sent to the last byte delivered, s.
    pub fct_s: Option<f64>,
    /// Time from opening the connection to the last byte delivered, s.
    pub fct_connect_s: Option<f64>,
    /// Time from opening the connection to the sender's confirmation, s.
    pub fct_confirmed_s: Option<f64>,
    /// Time from the first packet of data received to the last byte delivered, s.
    pub fct_receive_s: Option<f64>,
    /// The times are extrapolated from the goodput, because the run ended before the flow.
    pub is_extrapolated: bool,
    /// Share of data packets which arrived in vain; DFCP alone.
    pub waste: Option<f64>,
    /// TCP alone.
    pub retransmissions: Option<u64>,
    /// TCP alone.
    pub timeouts: Option<u64>,
    /// Goodput in bins from time 0, bit/s.
    pub bins_bps: Vec<f64>,
    /// Results of its messages, if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<MessagesMeasured>,
    /// Estimates of its bottleneck, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateMeasured>,
    /// Error that ended it early.
    pub failure: Option<String>,
}

/// Messages of a flow after the warm-up, or what the bound says of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MessagesMeasured {
    /// Messages that the shares are of: those whose deadline was over; none of the bound.
    pub due: u64,
    /// The share which came in time.
    pub in_time: f64,
    /// The share which was complete too late; what is neither was lost.
    pub late: Option<f64>,
    /// Datagrams sent for each; `None` of a bound which cannot be met.
    pub datagrams_each: Option<f64>,
    /// Bytes of IP packets which both ends sent for each.
    pub ip_bytes_each: Option<f64>,
}

/// A bottleneck's share of it, in data's direction and after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkMeasured {
    /// Mean packets waiting.
    pub queue_mean_packets: f64,
    /// Their standard deviation.
    pub queue_sd_packets: f64,
    /// The most packets waiting less the least; `None` in records of before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_range_packets: Option<usize>,
    /// Mean time that what waits takes to be sent, ms, counted by full packets.
    pub queue_mean_ms: f64,
    /// Upper limit for 95 % of the time, ms.
    pub queue_p95_ms: f64,
    /// Packets which may wait.
    pub queue_limit_packets: usize,
    /// Share of the rate which was used.
    pub utilisation: f64,
    /// Share of the rate which carried what applications got, headers and the least redundancy of a code included; `None` where flows do
    /// not have bottlenecks in a row, and in records of before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub useful: Option<f64>,
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets which the queue marked for congestion instead (CE of RFC 3168).
    #[serde(skip_serializing_if = "is_none_counted", default)]
    pub marks: u64,
    /// Packets lost by the loss model.
    pub lost: u64,
    /// Packets offered.
    pub offered: u64,
    /// Variance of the packets offered in 1 ms, over their mean.
    pub dispersion: Option<f64>,
    /// Time at which the queue first dropped one, s.
    pub first_drop_s: Option<f64>,
    /// Packets waiting, from time 0.
    pub queue_trace: Vec<usize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_none_counted(count: &u64) -> bool {
    *count == 0
}

/// Metrics of a single flow.
const OF_FLOWS: [&str; 28] = [
    "goodput_mbps",
    "error_percent",
    "wire_mbps",
    "share_percent",
    "goodput_cov",
    "longest_gap_ms",
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

/// True if there is a metric of this name.
#[must_use]
pub fn is_metric(name: &str) -> bool {
    METRICS.iter().any(|(metric, _)| *metric == name)
}

/// A metric's label and unit: its description ends with the unit, behind a comma.
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

/// True if every flow has its own.
#[must_use]
pub fn is_of_flows(name: &str) -> bool {
    OF_FLOWS.contains(&name)
}

/// Jain's index of fairness; 0 for flows without anything, which share nothing.
#[must_use]
pub fn jain(goodputs: &[f64]) -> f64 {
    let (sum, squares) = goodputs.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares == 0.0 { 0.0 } else { sum * sum / (goodputs.len() as f64 * squares) }
}

/// Mean and standard deviation; `None` of nothing.
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

/// The median; `None` of nothing.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

impl LinkMeasured {
    /// Range of the queue, in percent of the buffer.
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
    /// True if both runs went the same way, packet for packet as far as this tells.
    #[must_use]
    pub fn went_as(&self, other: &Self) -> bool {
        let without_cost = |run: &Self| Self { cpu_s: None, ..run.clone() };
        without_cost(self) == without_cost(other)
    }

    /// The metric `name`: of the flow with the index `flow`, or the mean over all flows. `None` where it has no meaning.
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
            // `relative_percent` is this, before it is divided by another run's.
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

    /// All values of a metric which has many in a run: those of busy periods.
    #[must_use]
    pub fn samples(&self, name: &str) -> Option<Vec<f64>> {
        let estimates = self.flows.iter().filter_map(|flow| flow.estimate.as_ref());
        (name == "busy_s").then(|| estimates.flat_map(|estimate| estimate.busy_s.iter().copied()).collect())
    }

    /// A count of all bottlenecks over the packets that were offered to them, %.
    fn percent_of_offered(&self, of: fn(&LinkMeasured) -> u64) -> Option<f64> {
        let sums = self.links.iter().fold((0, 0), |(count, offered), link| (count + of(link), offered + link.offered));
        (sums.1 > 0).then(|| 100.0 * sums.0 as f64 / sums.1 as f64)
    }

    /// The mean of what each bottleneck has; `None` if one of them does not.
    fn mean_of_links(&self, of: fn(&LinkMeasured) -> Option<f64>) -> Option<f64> {
        let all: Option<Vec<f64>> = self.links.iter().map(of).collect();
        mean_and_sd(&all?).map(|(mean, _)| mean)
    }

    /// True for a run in real time which was too late.
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

    /// Jain's index of every bin after the warm-up, of the flows which are there in all of it.
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
