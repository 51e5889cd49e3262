//! `[topology]`: the network of a plan.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// Shapes of networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One bottleneck, and as many pairs of hosts as there are flows.
    #[default]
    Dumbbell,
    /// Bottlenecks in a row.
    ParkingLot,
    /// Nodes and links by name.
    Graph,
    /// A parking lot whose parameters are drawn by the number `scenario`.
    Random,
}

/// `[topology]`. Fields of bottlenecks hold for each of `bottlenecks` and `links` which gives no other value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Its shape.
    #[serde(default)]
    pub kind: Shape,
    /// Rate of bottlenecks, Mbit/s of IP packets. Default 1000.
    pub rate_mbps: Option<f64>,
    /// Rate up, in data's direction (flows which go the other way come down), where that is another one, Mbit/s.
    pub up_mbps: Option<f64>,
    /// Round-trip time of each pair of hosts over its access links alone, ms. Default 10.
    pub rtt_ms: Option<f64>,
    /// Rate of access links, Mbit/s; 0 for infinite. Default: 1000, the documents'.
    pub access_mbps: Option<f64>,
    /// Longest random delay of a packet on its sender's access link, µs, evenly distributed; packets keep their order.
    /// Default 0. Without, flows of equal rates may fall into step, and a drop-tail queue drops packets of one alone.
    pub access_jitter_us: Option<f64>,
    /// Share of packets lost in bottlenecks, data's direction. Default 0.
    pub loss: Option<f64>,
    /// Losses come in runs of this many packets on average, instead of independently.
    pub loss_burst_packets: Option<f64>,
    /// Nothing is lost before this time, so that connections open.
    pub loss_from_s: Option<f64>,
    /// Queue discipline. Default drop-tail.
    pub discipline: Option<Discipline>,
    /// Waiting time after which `codel` or `fq-codel` marks a packet at once, µs. Never unless given.
    pub ce_threshold_us: Option<f64>,
    /// Packets which may wait. Default 10 000, large enough not to limit.
    pub buffer_packets: Option<usize>,
    /// The buffer in bandwidth-delay products of the longest round trip through it.
    pub buffer_bdp: Option<f64>,
    /// A buffer given in bandwidth-delay products has this many packets at least.
    pub buffer_least_packets: Option<usize>,
    /// Other impairments of bottlenecks.
    #[serde(default)]
    pub impairments: Impairments,
    /// Links of a parking lot, from left to right.
    #[serde(default)]
    pub bottlenecks: Vec<Spanned<Bottleneck>>,
    /// Links of a graph. Each goes both ways, except two that connect the same nodes in opposite directions: each of these goes its own.
    #[serde(default)]
    pub links: Vec<Spanned<GraphLink>>,
    /// Distributions that the shape `random` is drawn from.
    pub random: Option<Random>,
    /// Number of the draw of the shape `random`.
    #[serde(default)]
    pub scenario: u64,
}

/// Ways of a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ways {
    /// Data's direction, from the first host to the other.
    #[default]
    Up,
    /// The way back.
    Down,
    /// The two of them.
    Both,
}

impl Ways {
    /// Data's direction, and the way back: whether it is one of them.
    #[must_use]
    pub fn each(self) -> [bool; 2] {
        [self != Self::Down, self != Self::Up]
    }
}

/// `[topology.impairments]`: what bottlenecks, all of them alike, do to packets beside losing them and making them wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Impairments {
    /// Longest random delay behind the transmitter, ms, evenly distributed; packets keep their order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<f64>,
    /// Packets leave in batches, one in each interval of this length, ms, as from a radio which aggregates frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_ms: Option<f64>,
    /// Share of packets which arrive later by `reorder_ms`, so that others overtake them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// See `reorder`. Default 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_ms: Option<f64>,
    /// Share of packets lost on the way back alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back_loss: Option<f64>,
    /// A policer: a token bucket which holds this many full packets, and drops what finds it empty. It fills at the bottleneck's
    /// rate, and stands there instead of the queue, unless `policer_mbps` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_packets: Option<u32>,
    /// The policer's own rate, Mbit/s: it then stands in front of the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_mbps: Option<f64>,
    /// Directions of all of this, except `back_loss`. Default: up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Ways>,
}

impl Impairments {
    /// True if a policer stands there instead of the queue.
    #[must_use]
    pub fn has_no_queue(&self) -> bool {
        self.policer_packets.is_some() && self.policer_mbps.is_none()
    }
}

/// `[[topology.bottlenecks]]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Mbit/s.
    pub rate_mbps: Option<f64>,
    /// Up, Mbit/s. Absent: `rate_mbps`, if that is given.
    pub up_mbps: Option<f64>,
    /// Addition to the round-trip time of packets that cross it, ms. Default 0.
    pub rtt_ms: Option<f64>,
    /// Share lost.
    pub loss: Option<f64>,
    /// Length of runs of losses.
    pub loss_burst_packets: Option<f64>,
    /// Queue discipline.
    pub discipline: Option<Discipline>,
    /// CoDel's mark of what has waited for longer, µs.
    pub ce_threshold_us: Option<f64>,
    /// Packets which may wait.
    pub buffer_packets: Option<usize>,
    /// The buffer in bandwidth-delay products.
    pub buffer_bdp: Option<f64>,
}

/// `[[topology.links]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// A node's name.
    pub from: String,
    /// The other node.
    pub to: String,
    /// The rest as for a bottleneck.
    #[serde(default)]
    pub link: Bottleneck,
}

/// `[topology.random]`: ranges, lower and upper end.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// Number of bottlenecks, 1 to 16.
    pub bottlenecks: (u32, u32),
    /// Rates, Mbit/s; evenly on a logarithmic scale.
    pub rate_mbps: (f64, f64),
    /// Round-trip times of pairs, ms; evenly on a logarithmic scale.
    pub rtt_ms: (f64, f64),
    /// Shares lost, evenly.
    pub loss: (f64, f64),
    /// Buffers in bandwidth-delay products, evenly on a logarithmic scale.
    pub buffer_bdp: (f64, f64),
    /// Flows over each bottleneck alone, beside one flow over all.
    pub flows_each: (u32, u32),
}

/// Queue disciplines by name, with their default parameters.
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
    /// CoDel with one queue for all flows; marks packets that ask for it.
    Codel,
    /// FQ-CoDel; marks, too.
    FqCodel,
    /// Random early detection; marks, too.
    Red,
}

impl Discipline {
    /// True if packets leave it by CoDel, which may have a threshold for marks.
    #[must_use]
    pub fn has_codel(self) -> bool {
        matches!(self, Self::Codel | Self::FqCodel)
    }
}
