//! A scenario: all settings of a run except its seed, resolved to plain numbers. Equal scenarios with equal seeds give equal results.

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

/// All settings that decide a run, except its seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Nodes of a graph; empty for bottlenecks in a row.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub nodes: Vec<String>,
    /// Bottlenecks from left to right, or the links of a graph.
    pub links: Vec<LinkSpec>,
    /// Flows in their order.
    pub flows: Vec<FlowSpec>,
    /// Changes in order of time.
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
    /// Random spread of flows, drawn by [`Scenario::drawn`].
    #[serde(skip_serializing_if = "is_default", default)]
    pub spread: Spread,
    /// Duration of the run, ns.
    pub duration_ns: u64,
    /// Time from which goodput is measured, ns.
    pub warm_up_ns: u64,
    /// Width of the bins of goodput over time, ns; 0 for none.
    pub bin_ns: u64,
    /// Sampling interval of the queues, ns; 0 for never.
    pub queue_trace_ns: u64,
}

/// A bottleneck, or a link of a graph, in both directions; losses only in the direction of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Rate, bit/s of IP packets; that of the direction of data, if the reverse differs.
    pub rate_bps: u64,
    /// Rate of the reverse direction, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_bps: Option<u64>,
    /// One-way delay, ns.
    pub delay_ns: u64,
    /// Probability of loss.
    pub loss: f64,
    /// Mean length of loss bursts, packets; 0 for independent losses.
    pub loss_burst_packets: f64,
    /// Queue discipline.
    pub discipline: Discipline,
    /// Queueing delay above which CoDel marks packets, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ce_threshold_ns: Option<u64>,
    /// Limit of the queue, packets.
    pub queue_packets: usize,
    /// Limit of the queue in the reverse direction, packets, if it differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_queue_packets: Option<usize>,
    /// Other impairments of the link.
    #[serde(skip_serializing_if = "is_default", default)]
    pub impairments: Impairments,
    /// Indices of the link's nodes in a graph.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub between: Option<(usize, usize)>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Label of the flow; no influence on results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// Transport of the flow.
    pub transport: Carrier,
    /// Start of the flow, ns.
    pub start_ns: u64,
    /// Application bytes to send; unlimited if `None`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// Round-trip time of the access links, ns.
    pub rtt_ns: u64,
    /// Rate of the access links, bit/s; 0 for unlimited.
    pub access_bps: u64,
    /// Longest random delay on the sender's access link, ns.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub jitter_ns: u64,
    /// First and last bottleneck, or the two nodes of a graph.
    pub over: (usize, usize),
    /// Time at which the hosts are switched off, ns.
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
    /// Messages sent instead of a stream, or beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub messages: Option<MessageSpec>,
    /// Web user that loads pages, instead of a stream.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub web: Option<WebSpec>,
    /// Estimation of the flow's bottleneck.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimate: Option<EstimateSpec>,
    /// Sending rate for the option `share`, bit/s.
    pub share_bps: u64,
    /// Loss rate of the path, for the option `optimal`.
    pub loss: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A rate that follows a random walk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkSpec {
    /// Index of the link.
    pub link: usize,
    /// Time between steps, ns.
    pub every_ns: u64,
    /// Range of the rate, as shares of the link's.
    pub within: (f64, f64),
    /// Greatest step, as a share of the link's rate.
    pub step: f64,
}

/// A recorded rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatesSpec {
    /// Index of the link.
    pub link: usize,
    /// True for the rate of the reverse direction.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// Length of an interval, ns.
    pub every_ns: u64,
    /// Packets that may be sent in each interval, from time 0.
    pub packets: Vec<u64>,
    /// Index from which the entries repeat after the last one; `None` if they cover the whole run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeats_from: Option<usize>,
    /// Bits per packet.
    pub packet_bits: f64,
}

impl LinkSpec {
    /// Capacity in the direction of data, bit/s: limited by the policer, if there is one.
    #[must_use]
    pub fn carries_bps(&self) -> u64 {
        self.policed_bps(self.rate_bps)
    }

    /// Policed rate for another rate of the link.
    pub(crate) fn policed_bps(&self, rate_bps: u64) -> u64 {
        let own = self.impairments;
        let is_policed = own.policer_packets.is_some() && own.ways.unwrap_or_default().each()[0];
        let policer_bps = own.policer_mbps.filter(|_| is_policed).map(|mbps| (mbps * 1e6).round() as u64);
        policer_bps.map_or(rate_bps, |policer_bps| policer_bps.min(rate_bps))
    }
}

impl Scenario {
    /// The scenario without labels, which have no influence on results.
    #[must_use]
    pub fn without_labels(&self) -> Self {
        let mut same = self.clone();
        same.flows.iter_mut().for_each(|flow| flow.label = None);
        same
    }

    /// Approximate cost of the run: Gbit sent over its bottlenecks. Flows of limited size send little more than their bytes.
    #[must_use]
    pub fn cost(&self) -> f64 {
        /// Bytes sent per application byte at most: headers, repair symbols and retransmissions.
        const CARRIED_PER_BYTE: f64 = 4.0;
        let bytes: Option<f64> = self.flows.iter().map(|flow| flow.bytes.map(|bytes| bytes as f64)).sum();
        let carried = bytes.map(|bytes| bytes * 8e-9 * CARRIED_PER_BYTE * self.links.len() as f64);
        let max = self.cost_max();
        carried.map_or(max, |gbit| gbit.min(max)).max(1e-3)
    }

    /// Upper bound of the cost: all bottlenecks are busy to the end.
    #[must_use]
    pub fn cost_max(&self) -> f64 {
        let gbps: f64 = self.links.iter().map(|link| link.rate_bps as f64 / 1e9).sum();
        (self.duration_ns as f64 / 1e9 * gbps).max(1e-3)
    }

    /// Longest round-trip time of a flow over its access links and bottlenecks without queueing, ns. In a graph, a flow is assumed to cross
    /// all links.
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

    /// True if the link at index `place` of a graph is one-way, because another connects the same nodes in the opposite direction.
    #[must_use]
    pub fn is_one_way(&self, place: usize) -> bool {
        self.opposite(place).is_some()
    }

    /// Link of a graph that connects the nodes of the one at `place` in the opposite direction.
    fn opposite(&self, place: usize) -> Option<usize> {
        let (from, to) = self.links.get(place)?.between.filter(|(from, to)| from != to)?;
        self.links.iter().position(|other| other.between == Some((to, from)))
    }

    /// True if the bottleneck at index `place` loses packets at random at some time of the run.
    #[must_use]
    pub fn can_lose(&self, place: usize) -> bool {
        let changes = self.changes.iter().filter(|change| change.link == place).filter_map(|change| change.loss);
        self.links.get(place).is_some_and(|link| link.loss > 0.0) || changes.into_iter().any(|loss| loss > 0.0)
    }
}

#[cfg(test)]
mod tests;
