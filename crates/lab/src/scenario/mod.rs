//! Scenario: all settings of a run except its seed, resolved to plain numbers. Scenario and seed together determine the
//! results.

mod build;
mod change;
mod drawn;
mod ends;
mod estimate;
mod layout;
mod messages;
mod outages;
mod quantity;
mod random;
mod rates;
mod resolve;
mod scale;
mod web;

use serde::{Deserialize, Serialize};

pub use self::build::{Built, build};
pub use self::change::{ChangeSpec, LinkState};
pub use self::estimate::EstimateSpec;
pub use self::layout::Layout;
pub use self::messages::MessageSpec;
pub use self::outages::OutageSpec;
pub use self::resolve::resolve;
pub use self::web::WebSpec;
use crate::plan::{Carrier, Discipline, Ends, Impairments, Spread};

/// All settings of a run, except its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Names of a graph's nodes; empty for bottlenecks in a row.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nodes: Vec<String>,
    /// Bottlenecks from left to right, or links of a graph.
    pub links: Vec<LinkSpec>,
    /// Flows, in the plan's order.
    pub flows: Vec<FlowSpec>,
    /// Changes of links, in chronological order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changes: Vec<ChangeSpec>,
    /// Rates that follow a random walk; [`Scenario::drawn`] turns them into changes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub walks: Vec<WalkSpec>,
    /// Recorded rates; [`Scenario::drawn`] turns them into changes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rates: Vec<RatesSpec>,
    /// Outages; [`Scenario::drawn`] turns them into changes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub outages: Vec<OutageSpec>,
    /// Greatest random variation of start and round-trip times; [`Scenario::drawn`] draws them.
    #[serde(skip_serializing_if = "is_default", default)]
    pub spread: Spread,
    /// Duration of the run, ns.
    pub duration_ns: u64,
    /// Length of the warm-up, ns; goodput is measured after it.
    pub warm_up_ns: u64,
    /// Width of the bins of goodput over time, ns; 0 for none.
    pub bin_ns: u64,
    /// Sampling interval of queue lengths, ns; 0 for no samples.
    pub queue_trace_ns: u64,
}

/// A bottleneck or a link of a graph. Both directions have rate, delay and queue; only the forward direction has loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Rate in the forward direction, bit/s of IP packets; also in the reverse direction, unless `back_bps` is set.
    pub rate_bps: u64,
    /// Rate in the reverse direction, bit/s, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_bps: Option<u64>,
    /// One-way delay, ns.
    pub delay_ns: u64,
    /// Probability of random loss, 0 to 1.
    pub loss: f64,
    /// Mean length of loss bursts, packets; 0 for independent losses.
    pub loss_burst_packets: f64,
    /// Queue discipline.
    pub discipline: Discipline,
    /// Queueing delay above which CoDel marks ECN-capable packets, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ce_threshold_ns: Option<u64>,
    /// Limit of the queue, packets; also in the reverse direction, unless `back_queue_packets` is set.
    pub queue_packets: usize,
    /// Limit of the reverse direction's queue, packets, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_queue_packets: Option<usize>,
    /// Other impairments of the link.
    #[serde(skip_serializing_if = "is_default", default)]
    pub impairments: Impairments,
    /// Indices of the two connected nodes; `None` outside graphs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub between: Option<(usize, usize)>,
}

/// A flow of data between two hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Label of the flow in figures and tables; it does not influence results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// Transport of the flow.
    pub transport: Carrier,
    /// Start of the flow, ns from the start of the run.
    pub start_ns: u64,
    /// Application bytes to send; `None` for an unlimited flow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// Round-trip time over the flow's access links alone, ns.
    pub rtt_ns: u64,
    /// Rate of the flow's access links, bit/s; 0 for unlimited.
    pub access_bps: u64,
    /// Greatest random delay on the sender's access link, ns.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub jitter_ns: u64,
    /// Indices of the first and last bottleneck crossed; in a graph, of the sender's and receiver's node.
    pub over: (usize, usize),
    /// Time at which the flow's hosts are switched off, ns; `None` for never.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_ns: Option<u64>,
    /// True if the flow runs in the reverse direction.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// Times at which the sender's address changes, ns.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rebinds_ns: Vec<u64>,
    /// Special behaviour of the endpoints.
    #[serde(skip_serializing_if = "is_default", default)]
    pub ends: Ends,
    /// Messages sent instead of a stream, or in addition to one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub messages: Option<MessageSpec>,
    /// Web pages loaded instead of a stream.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub web: Option<WebSpec>,
    /// Estimator of the flow's bottleneck rate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimate: Option<EstimateSpec>,
    /// Max-min fair share of the flow, bit/s: sending rate of [`Pace::Share`](crate::plan::Pace::Share).
    pub share_bps: u64,
    /// Loss probability of the whole path, for [`Redundancy::Optimal`](crate::plan::Redundancy::Optimal).
    pub loss: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Random walk of a link's rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkSpec {
    /// Index of the link.
    pub link: usize,
    /// Time between steps, ns.
    pub every_ns: u64,
    /// Bounds of the rate, as shares of the link's rate.
    pub within: (f64, f64),
    /// Greatest change per step, as a share of the link's rate.
    pub step: f64,
}

/// Recorded rate of a link over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatesSpec {
    /// Index of the link.
    pub link: usize,
    /// True if the rate applies to the reverse direction.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// Length of a recorded interval, ns.
    pub every_ns: u64,
    /// Packets that may be sent in each interval, beginning at time 0.
    pub packets: Vec<u64>,
    /// Index to which the record jumps back after its last entry; `None` if it covers the whole run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeats_from: Option<usize>,
    /// Size of a packet, bits.
    pub packet_bits: f64,
}

impl LinkSpec {
    /// Returns the capacity in the forward direction, bit/s: the rate, or a lower policed rate.
    #[must_use]
    pub fn carries_bps(&self) -> u64 {
        self.policed_bps(self.rate_bps)
    }

    /// Returns the capacity if the link's rate were `rate_bps`, bit/s; a policer limits it.
    pub(crate) fn policed_bps(&self, rate_bps: u64) -> u64 {
        let own = self.impairments;
        let is_policed = own.policer_packets.is_some() && own.ways.unwrap_or_default().each()[0];
        let policer_bps = own.policer_mbps.filter(|_| is_policed).map(|mbps| (mbps * 1e6).round() as u64);
        policer_bps.map_or(rate_bps, |policer_bps| policer_bps.min(rate_bps))
    }
}

impl Scenario {
    /// Returns the scenario without labels, which do not influence results.
    #[must_use]
    pub fn without_labels(&self) -> Self {
        let mut same = self.clone();
        same.flows.iter_mut().for_each(|flow| flow.label = None);
        same
    }

    /// Returns the approximate cost of the run: Gbit sent over all bottlenecks. Flows of limited size are assumed to
    /// send at most four times their bytes.
    #[must_use]
    pub fn cost(&self) -> f64 {
        /// Bytes sent per application byte, at most: headers, repair symbols and retransmissions included.
        const CARRIED_PER_BYTE: f64 = 4.0;
        let bytes: Option<f64> = self.flows.iter().map(|flow| flow.bytes.map(|bytes| bytes as f64)).sum();
        let carried = bytes.map(|bytes| bytes * 8e-9 * CARRIED_PER_BYTE * self.links.len() as f64);
        let max = self.cost_max();
        carried.map_or(max, |gbit| gbit.min(max)).max(1e-3)
    }

    /// Returns an upper bound of the cost, Gbit: all bottlenecks are busy during the whole run.
    #[must_use]
    pub fn cost_max(&self) -> f64 {
        let gbps: f64 = self.links.iter().map(|link| link.rate_bps as f64 / 1e9).sum();
        (self.duration_ns as f64 / 1e9 * gbps).max(1e-3)
    }

    /// Returns the longest round-trip time of any flow, ns, over access links and bottlenecks without queueing. In a
    /// graph, every flow is assumed to cross all links.
    #[must_use]
    pub fn longest_rtt_ns(&self) -> u64 {
        let rtt_ns = |flow: &FlowSpec| {
            let is_row = self.nodes.is_empty();
            let crossed = self.links.iter().enumerate();
            let crossed = crossed.filter(|(at, _)| !is_row || (flow.over.0..=flow.over.1).contains(at));
            let delay_ns = |(at, link): (usize, &LinkSpec)| if self.is_one_way(at) { 1 } else { 2 } * link.delay_ns;
            flow.rtt_ns + crossed.map(delay_ns).sum::<u64>()
        };
        self.flows.iter().map(rtt_ns).max().unwrap_or(0)
    }

    /// Returns true if link `place` of a graph is one-way: another link connects the same nodes in the opposite
    /// direction.
    #[must_use]
    pub fn is_one_way(&self, place: usize) -> bool {
        self.opposite(place).is_some()
    }

    /// Returns the index of the link that connects the nodes of link `place` in the opposite direction.
    fn opposite(&self, place: usize) -> Option<usize> {
        let (from, to) = self.links.get(place)?.between.filter(|(from, to)| from != to)?;
        self.links.iter().position(|other| other.between == Some((to, from)))
    }

    /// Returns true if bottleneck `place` loses packets at random at any time of the run.
    #[must_use]
    pub fn can_lose(&self, place: usize) -> bool {
        let changes = self.changes.iter().filter(|change| change.link == place).filter_map(|change| change.loss);
        self.links.get(place).is_some_and(|link| link.loss > 0.0) || changes.into_iter().any(|loss| loss > 0.0)
    }
}

#[cfg(test)]
mod tests;
