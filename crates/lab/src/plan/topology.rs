//! Table `[topology]`: the network of a plan.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// Shape of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One bottleneck; each flow has its own pair of hosts.
    #[default]
    Dumbbell,
    /// Bottlenecks in a row.
    ParkingLot,
    /// Named nodes with links between them.
    Graph,
    /// A parking lot whose parameters are drawn at random from the number `scenario`.
    Random,
}

/// The table `[topology]`. Its link settings are defaults for all of `bottlenecks` and `links`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Shape of the network.
    #[serde(default)]
    pub kind: Shape,
    /// Rate of bottlenecks, Mbit/s of IP packets. Default 1000.
    pub rate_mbps: Option<f64>,
    /// Rate in the forward direction, Mbit/s, if it differs. `rate_mbps` is then the rate of the reverse direction.
    pub up_mbps: Option<f64>,
    /// Round-trip time over each flow's access links alone, ms. Default 10.
    pub rtt_ms: Option<f64>,
    /// Rate of access links, Mbit/s; 0 for unlimited. Default 1000, as in the source documents.
    pub access_mbps: Option<f64>,
    /// Greatest random delay of a packet on its sender's access link, µs; uniformly distributed, without reordering.
    /// Default 0. Without jitter, flows of equal rates can synchronise, so that a drop-tail queue drops packets of only
    /// one flow.
    pub access_jitter_us: Option<f64>,
    /// Probability of random loss in each bottleneck, in the forward direction. Default 0.
    pub loss: Option<f64>,
    /// Mean length of loss bursts, packets. Default: independent losses.
    pub loss_burst_packets: Option<f64>,
    /// Time at which random losses begin, s; lets connections open without loss. Default 0.
    pub loss_from_s: Option<f64>,
    /// Queue discipline. Default drop-tail.
    pub discipline: Option<Discipline>,
    /// Queueing delay above which `codel` and `fq-codel` mark every ECN-capable packet, µs. Default: no such threshold.
    pub ce_threshold_us: Option<f64>,
    /// Queue limit, packets. Default 10 000, practically unlimited.
    pub buffer_packets: Option<usize>,
    /// Queue limit, in bandwidth-delay products of the longest round trip across the bottleneck.
    pub buffer_bdp: Option<f64>,
    /// Least queue limit if `buffer_bdp` is used, packets.
    pub buffer_least_packets: Option<usize>,
    /// Other impairments of bottlenecks.
    #[serde(default)]
    pub impairments: Impairments,
    /// Bottlenecks of a parking lot, from left to right.
    #[serde(default)]
    pub bottlenecks: Vec<Spanned<Bottleneck>>,
    /// Links of a graph. A link is bidirectional, unless another link connects the same nodes in the opposite
    /// direction: then both are one-way.
    #[serde(default)]
    pub links: Vec<Spanned<GraphLink>>,
    /// Ranges of the shape `random`.
    pub random: Option<Random>,
    /// Number from which the shape `random` is drawn.
    #[serde(default)]
    pub scenario: u64,
}

/// Directions of a bottleneck to which impairments apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// Forward direction, from sender to receiver of ordinary flows.
    #[default]
    Up,
    /// Reverse direction.
    Down,
    /// Both directions.
    Both,
}

impl Ways {
    /// Returns true for each included direction: forward, reverse.
    #[must_use]
    pub fn each(self) -> [bool; 2] {
        [self != Self::Down, self != Self::Up]
    }
}

/// The table `[topology.impairments]`: impairments of all bottlenecks, in addition to loss and queueing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Impairments {
    /// Greatest random delay after the transmitter, ms; uniformly distributed, without reordering.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// Interval between batches, ms: packets are released together, like frames aggregated by a radio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_ms: Option<f64>,
    /// Share of packets delayed by `reorder_ms`, so that later packets overtake them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// Additional delay of the packets selected by `reorder`, ms. Default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_ms: Option<f64>,
    /// Probability of random loss in the reverse direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_loss: Option<f64>,
    /// Size of a policer's token bucket, full packets; a packet without enough tokens is dropped. The policer has the
    /// bottleneck's rate and replaces the queue, unless `policer_mbps` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_packets: Option<u32>,
    /// Rate of the policer, Mbit/s. The policer then precedes the queue instead of replacing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_mbps: Option<f64>,
    /// Directions of all impairments except `back_loss`. Default: up, the forward direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
}

impl Impairments {
    /// Returns true if a policer replaces the queue.
    #[must_use]
    pub fn has_no_queue(&self) -> bool {
        self.policer_packets.is_some() && self.policer_mbps.is_none()
    }
}

/// A table `[[topology.bottlenecks]]` of a plan. Absent settings have the topology's value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Rate, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Rate in the forward direction, Mbit/s. Default: `rate_mbps`, if that is set here.
    pub up_mbps: Option<f64>,
    /// Round-trip time that the bottleneck adds, ms. Default 0.
    pub rtt_ms: Option<f64>,
    /// Probability of random loss.
    pub loss: Option<f64>,
    /// Mean length of loss bursts, packets.
    pub loss_burst_packets: Option<f64>,
    /// Queue discipline.
    pub discipline: Option<Discipline>,
    /// Queueing delay above which CoDel marks packets, µs.
    pub ce_threshold_us: Option<f64>,
    /// Queue limit, packets.
    pub buffer_packets: Option<usize>,
    /// Queue limit in bandwidth-delay products.
    pub buffer_bdp: Option<f64>,
}

/// A table `[[topology.links]]` of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// Name of a node.
    pub from: String,
    /// Name of the other node.
    pub to: String,
    /// Properties of the link, like those of a bottleneck.
    #[serde(default)]
    pub link: Bottleneck,
}

/// The table `[topology.random]`: ranges (lower, upper bound) from which a random parking lot is drawn.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Number of bottlenecks, 1 to 16.
    pub bottlenecks: (u32, u32),
    /// Rates, Mbit/s; their logarithm is uniformly distributed.
    pub rate_mbps: (f64, f64),
    /// Round-trip times of access links, ms; their logarithm is uniformly distributed.
    pub rtt_ms: (f64, f64),
    /// Probabilities of random loss; uniformly distributed.
    pub loss: (f64, f64),
    /// Queue limits in bandwidth-delay products; their logarithm is uniformly distributed.
    pub buffer_bdp: (f64, f64),
    /// Number of flows across each single bottleneck, in addition to one flow across all.
    pub flows_each: (u32, u32),
}

/// Queue discipline with default parameters, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First in, first out.
    #[default]
    DropTail,
    /// Deficit round robin.
    Drr,
    /// Stochastic fair queueing.
    Sfq,
    /// Weighted fair queueing.
    Wfq,
    /// CoDel with one queue for all flows; marks ECN-capable packets.
    Codel,
    /// FQ-CoDel; marks ECN-capable packets.
    FqCodel,
    /// Random early detection; marks ECN-capable packets.
    Red,
}

impl Discipline {
    /// Returns true for CoDel and FQ-CoDel, which accept a threshold for marks.
    #[must_use]
    pub fn has_codel(self) -> bool {
        matches!(self, Self::Codel | Self::FqCodel)
    }
}
