//! A scenario: everything about a run but its seed, resolved to plain numbers. Two equal scenarios with the same seed give
//! the same figures.

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

/// Everything that decides a run, but its seed.
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
    /// Rates which walk at random; [`Scenario::drawn`] makes changes of them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub walks: Vec<WalkSpec>,
    /// Rates which were recorded; [`Scenario::drawn`] makes changes of them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rates: Vec<RatesSpec>,
    /// Times without anything; [`Scenario::drawn`] makes changes of them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub outages: Vec<OutageSpec>,
    /// Spread of flows that [`Scenario::drawn`] draws.
    #[serde(skip_serializing_if = "is_default", default)]
    pub spread: Spread,
    /// End of the run, ns.
    pub duration_ns: u64,
    /// Time from which goodput counts, ns.
    pub warm_up_ns: u64,
    /// Width of the bins of goodput over time, ns; 0 for none.
    pub bin_ns: u64,
    /// Interval between records of the queues, ns; 0 for never.
    pub queue_trace_ns: u64,
}

/// A bottleneck, or a link of a graph, both ways; losses are in data's direction alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSpec {
    /// bit/s of IP packets; in data's direction, if the way back has another.
    pub rate_bps: u64,
    /// Rate of the way back, if it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_bps: Option<u64>,
    /// One way, ns.
    pub delay_ns: u64,
    /// Share of packets lost.
    pub loss: f64,
    /// Mean length of a run of losses; 0 for independent losses.
    pub loss_burst_packets: f64,
    /// Queue discipline.
    pub discipline: Discipline,
    /// CoDel marks what has waited for longer, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ce_threshold_ns: Option<u64>,
    /// Packets which may wait.
    pub queue_packets: usize,
    /// Packets that may wait on the way back, if it is another number.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_queue_packets: Option<usize>,
    /// Its other impairments.
    #[serde(skip_serializing_if = "is_default", default)]
    pub impairments: Impairments,
    /// Indices of its nodes in a graph.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub between: Option<(usize, usize)>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowSpec {
    /// Its label, which decides nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub label: Option<String>,
    /// Its transport.
    pub transport: Carrier,
    /// Start, ns.
    pub start_ns: u64,
    /// Application bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes: Option<u64>,
    /// Round-trip time of its access links, ns.
    pub rtt_ns: u64,
    /// Rate of its access links, bit/s; 0 for infinite.
    pub access_bps: u64,
    /// Longest random delay on the way from the sender, ns.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub jitter_ns: u64,
    /// First and last bottleneck, or the nodes of a graph.
    pub over: (usize, usize),
    /// Time at which its hosts are switched off, ns.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_ns: Option<u64>,
    /// It goes the other way.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// Times at which its sender gets another address, ns.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rebinds_ns: Vec<u64>,
    /// Special behaviour of its ends.
    #[serde(skip_serializing_if = "is_default", default)]
    pub ends: Ends,
    /// Messages which are sent instead of a stream, or beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub messages: Option<MessageSpec>,
    /// A user who loads pages, instead of a stream.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub web: Option<WebSpec>,
    /// Estimation of its bottleneck.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimate: Option<EstimateSpec>,
    /// Rate of `share` for it, bit/s.
    pub share_bps: u64,
    /// Share of its packets lost on its way, for what `optimal` means.
    pub loss: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A rate which walks at random.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WalkSpec {
    /// Index of the link.
    pub link: usize,
    /// Time between two steps, ns.
    pub every_ns: u64,
    /// Range of the rate, as shares of the link's.
    pub within: (f64, f64),
    /// The longest step, as a share of the link's rate.
    pub step: f64,
}

/// A rate which was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatesSpec {
    /// Index of the link.
    pub link: usize,
    /// It is that of the way back.
    #[serde(skip_serializing_if = "is_default", default)]
    pub is_back: bool,
    /// Length of an interval, ns.
    pub every_ns: u64,
    /// Packets which may leave meanwhile, from time 0.
    pub packets: Vec<u64>,
    /// Index of the entry that follows the last: all from there on repeat. Absent: they are those of the whole run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeats_from: Option<usize>,
    /// Bits of each.
    pub packet_bits: f64,
}

impl LinkSpec {
    /// Capacity in data's direction, bit/s: no more than its policer lets through.
    #[must_use]
    pub fn carries_bps(&self) -> u64 {
        self.policed_bps(self.rate_bps)
    }

    /// The policed rate at another rate of the link.
    pub(crate) fn policed_bps(&self, rate_bps: u64) -> u64 {
        let own = self.impairments;
        let is_policed = own.policer_packets.is_some() && own.ways.unwrap_or_default().each()[0];
        let policer_bps = own.policer_mbps.filter(|_| is_policed).map(|mbps| (mbps * 1e6).round() as u64);
        policer_bps.map_or(rate_bps, |policer_bps| policer_bps.min(rate_bps))
    }
}

impl Scenario {
    /// The scenario without names, which decide nothing: runs are the same whatever their flows are called.
    #[must_use]
    pub fn without_labels(&self) -> Self {
        let mut same = self.clone();
        same.flows.iter_mut().for_each(|flow| flow.label = None);
        same
    }

    /// Approximate cost of the run: Gbit which its bottlenecks carry. Flows whose bytes are counted carry little more than these.
    #[must_use]
    pub fn cost(&self) -> f64 {
        /// Headers, repair symbols and what is sent again.
        const CARRIED_PER_BYTE: f64 = 4.0;
        let bytes: Option<f64> = self.flows.iter().map(|flow| flow.bytes.map(|bytes| bytes as f64)).sum();
        let carried = bytes.map(|bytes| bytes * 8e-9 * CARRIED_PER_BYTE * self.links.len() as f64);
        let max = self.cost_max();
        carried.map_or(max, |gbit| gbit.min(max)).max(1e-3)
    }

    /// The scenario with bottlenecks that are full to the end.
    #[must_use]
    pub fn cost_max(&self) -> f64 {
        let gbps: f64 = self.links.iter().map(|link| link.rate_bps as f64 / 1e9).sum();
        (self.duration_ns as f64 / 1e9 * gbps).max(1e-3)
    }

    /// The longest round trip of a flow over its access links and bottlenecks, without queues, ns. Over a graph, as if every
    /// flow crossed all links.
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

    /// True if the link at `place` of a graph is one-way, because another connects the same nodes in the opposite direction.
    #[must_use]
    pub fn is_one_way(&self, place: usize) -> bool {
        self.opposite(place).is_some()
    }

    /// The link of a graph which connects the nodes of that at `place` in the opposite direction.
    fn opposite(&self, place: usize) -> Option<usize> {
        let (from, to) = self.links.get(place)?.between.filter(|(from, to)| from != to)?;
        self.links.iter().position(|other| other.between == Some((to, from)))
    }

    /// True if the bottleneck at `place` loses packets at random, at some time of the run.
    #[must_use]
    pub fn can_lose(&self, place: usize) -> bool {
        let changes = self.changes.iter().filter(|change| change.link == place).filter_map(|change| change.loss);
        self.links.get(place).is_some_and(|link| link.loss > 0.0) || changes.into_iter().any(|loss| loss > 0.0)
    }
}

#[cfg(test)]
mod tests;
