//! `[topology]`: the network of a plan.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// Shape of a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One bottleneck, with a pair of hosts per flow.
    #[default]
    Dumbbell,
    /// Bottlenecks in a row.
    ParkingLot,
    /// Nodes and links by name.
    Graph,
    /// A parking lot with random parameters, drawn with the number `scenario`.
    Random,
}

/// The table `[topology]`. Fields of bottlenecks are defaults for all of `bottlenecks` and `links`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Shape of the network.
    #[serde(default)]
    pub kind: Shape,
    /// Rate of bottlenecks, Mbit/s of IP packets. Default 1000.
    pub rate_mbps: Option<f64>,
    /// Rate in the direction of data, Mbit/s, if it differs from the reverse rate (used by flows in the reverse direction).
    pub up_mbps: Option<f64>,
    /// Round-trip time of each pair of hosts over its access links only, ms. Default 10.
    pub rtt_ms: Option<f64>,
    /// Rate of access links, Mbit/s; 0 for unlimited. Default 1000, as in the documents.
    pub access_mbps: Option<f64>,
    /// Longest random delay of a packet on its sender's access link, µs, uniformly distributed; packets keep their order. Default 0.
    /// Without this delay, flows of equal rates may synchronize, and a drop-tail queue drops packets of only one of them.
    pub access_jitter_us: Option<f64>,
    /// Probability of loss in bottlenecks, in the direction of data. Default 0.
    pub loss: Option<f64>,
    /// Mean length of loss bursts, packets; independent losses without it.
    pub loss_burst_packets: Option<f64>,
    /// Time of the first loss, s, after connections have opened.
    pub loss_from_s: Option<f64>,
    /// Queue discipline. Default drop-tail.
    pub discipline: Option<Discipline>,
    /// Queueing delay above which `codel` or `fq-codel` marks a packet at once, µs. Default: never.
    pub ce_threshold_us: Option<f64>,
    /// Limit of the queue, packets. Default 10 000, large enough not to limit.
    pub buffer_packets: Option<usize>,
    /// Limit of the queue in bandwidth-delay products of the longest round trip through it.
    pub buffer_bdp: Option<f64>,
    /// Least limit of a queue given in bandwidth-delay products, packets.
    pub buffer_least_packets: Option<usize>,
    /// Other impairments of bottlenecks.
    #[serde(default)]
    pub impairments: Impairments,
    /// Links of a parking lot, from left to right.
    #[serde(default)]
    pub bottlenecks: Vec<Spanned<Bottleneck>>,
    /// Links of a graph. Each is bidirectional, except two links that connect the same nodes in opposite directions: each of these is
    /// one-way.
    #[serde(default)]
    pub links: Vec<Spanned<GraphLink>>,
    /// Distributions that the shape `random` is drawn from.
    pub random: Option<Random>,
    /// Number that the shape `random` is drawn with.
    #[serde(default)]
    pub scenario: u64,
}

/// Directions of a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// The direction of data, from the first host to the second.
    #[default]
    Up,
    /// The reverse direction.
    Down,
    /// Both directions.
    Both,
}

impl Ways {
    /// True for each included direction: that of data, and the reverse.
    #[must_use]
    pub fn each(self) -> [bool; 2] {
        [self != Self::Down, self != Self::Up]
    }
}

/// The table `[topology.impairments]`: effects of all bottlenecks on packets, in addition to loss and queueing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Impairments {
    /// Longest random delay after the transmitter, ms, uniformly distributed; packets keep their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// Interval of batches, ms: packets are released together once per interval, as by a radio that aggregates frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_ms: Option<f64>,
    /// Share of packets delayed by `reorder_ms`, so that others overtake them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// Additional delay of packets selected by `reorder`, ms. Default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_ms: Option<f64>,
    /// Probability of loss in the reverse direction only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_loss: Option<f64>,
    /// Size of a policer's token bucket, in full packets; packets that find too few tokens are dropped. The bucket fills at the
    /// bottleneck's rate and replaces the queue, unless `policer_mbps` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_packets: Option<u32>,
    /// Rate of the policer, Mbit/s: the policer is then in front of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_mbps: Option<f64>,
    /// Directions of all impairments except `back_loss`. Default: up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
}

impl Impairments {
    /// True if a policer replaces the queue.
    #[must_use]
    pub fn has_no_queue(&self) -> bool {
        self.policer_packets.is_some() && self.policer_mbps.is_none()
    }
}

/// A table `[[topology.bottlenecks]]` of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Rate, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Rate in the direction of data, Mbit/s. Default: `rate_mbps`, if that is given.
    pub up_mbps: Option<f64>,
    /// Addition to the round-trip time of packets that cross it, ms. Default 0.
    pub rtt_ms: Option<f64>,
    /// Probability of loss.
    pub loss: Option<f64>,
    /// Mean length of loss bursts, packets.
    pub loss_burst_packets: Option<f64>,
    /// Queue discipline.
    pub discipline: Option<Discipline>,
    /// Queueing delay above which CoDel marks packets, µs.
    pub ce_threshold_us: Option<f64>,
    /// Limit of the queue, packets.
    pub buffer_packets: Option<usize>,
    /// Limit of the queue in bandwidth-delay products.
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
    /// Properties of the link, as for a bottleneck.
    #[serde(default)]
    pub link: Bottleneck,
}

/// The table `[topology.random]`: ranges with lower and upper bound.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Number of bottlenecks, 1 to 16.
    pub bottlenecks: (u32, u32),
    /// Rates, Mbit/s; uniformly distributed on a logarithmic scale.
    pub rate_mbps: (f64, f64),
    /// Round-trip times of pairs, ms; uniformly distributed on a logarithmic scale.
    pub rtt_ms: (f64, f64),
    /// Probabilities of loss, uniformly distributed.
    pub loss: (f64, f64),
    /// Queue limits in bandwidth-delay products, uniformly distributed on a logarithmic scale.
    pub buffer_bdp: (f64, f64),
    /// Number of flows over each single bottleneck, beside one flow over all.
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
    /// True if the discipline uses CoDel, which accepts a threshold for marks.
    #[must_use]
    pub fn has_codel(self) -> bool {
        matches!(self, Self::Codel | Self::FqCodel)
    }
}
