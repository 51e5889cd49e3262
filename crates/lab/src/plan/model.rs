//! Tables of a plan's file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::carrier::Carrier;
use super::claim::{Claim, Where};
use super::discipline::Discipline;
use super::drawing::{Axes, Metrics};
use super::messages::MessagesTable;
use super::rates::Rates;
use super::run::{Agreement, RunTable, Shorter, Spread};
use super::transport;
use super::web::{EstimateTable, WebTable};
use crate::report::OURS;

/// A plan: one figure, table or question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name on the command line, and of its records.
    pub id: String,
    /// Title, in a line.
    pub title: String,
    /// Documents and figures; `ours` if no document has it.
    pub source: String,
    /// Question that the plan answers.
    pub question: String,
    /// Statement of the document, in a sentence or two; in a plan of ours, a reader's background.
    #[serde(default)]
    pub says: String,
    /// Facts for the reader: details that the documents do not state, choices, known traps.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Length and repetitions.
    pub run: RunTable,
    /// Changes by `--quick`.
    #[serde(default)]
    pub quick: Shorter,
    /// Changes by `--small` beyond that.
    #[serde(default)]
    pub small: Shorter,
    /// Values that the seed of a run draws beside losses.
    #[serde(default)]
    pub spread: Spread,
    /// Required agreement of platforms.
    #[serde(default)]
    pub agreement: Agreement,
    /// The network.
    pub topology: Spanned<Topology>,
    /// The flows over it, the same for every series; one flow unless said.
    #[serde(default = "one_flow")]
    pub flows: Vec<Spanned<Flows>>,
    /// Series compared.
    pub series: Vec<Spanned<Series>>,
    /// Parameters varied; the first is the x axis.
    #[serde(default)]
    pub sweep: Vec<Spanned<Axis>>,
    /// Changes while a run lasts.
    #[serde(default)]
    pub time: Vec<Spanned<Change>>,
    /// Rates which walk at random while a run lasts.
    #[serde(default)]
    pub walks: Vec<Spanned<Walk>>,
    /// Rates which were recorded.
    #[serde(default)]
    pub rates: Vec<Spanned<Rates>>,
    /// Times in which a bottleneck carries nothing.
    #[serde(default)]
    pub outages: Vec<Spanned<Outage>>,
    /// Metrics measured.
    pub metrics: Metrics,
    /// Axes of the plots.
    #[serde(default)]
    pub axes: Axes,
    /// Claims of the documents.
    #[serde(default)]
    pub claims: Vec<Spanned<Claim>>,
}

impl Plan {
    /// True if no document has it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let source = self.source.trim();
        source.is_empty() || source.eq_ignore_ascii_case(OURS)
    }

    /// Remark of every figure with a sender that is told its share.
    #[must_use]
    pub fn oracle_note(&self) -> Option<String> {
        let told = self.series.iter().map(Spanned::get_ref).filter(|series| series.transport.is_told_its_share());
        let labels: Vec<_> = told.map(|series| format!("\"{}\"", series.label)).collect();
        let (last, others) = labels.split_last()?;
        let (all, are) =
            if others.is_empty() { (last.clone(), "is") } else { (format!("{} and {last}", others.join(", ")), "are") };
        Some(format!(
            "{all} {are} told the max-min share of each flow, which no sender can know: an oracle, and no result of a sender by itself."
        ))
    }
}

fn one_flow() -> Vec<Spanned<Flows>> {
    vec![Spanned::new(0..0, Flows::default())]
}

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

/// `[[flows]]`: flows which are alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Figures, tables, traces and claims call them by it; with a number, if there are several. Absent: by their place.
    pub label: Option<String>,
    /// Number of flows.
    #[serde(default = "one")]
    pub count: u32,
    /// Start of the first, s.
    #[serde(default)]
    pub start_s: f64,
    /// Delay of each next start, s.
    #[serde(default)]
    pub stagger_s: f64,
    /// Application bytes; absent for as many as the time permits.
    pub bytes: Option<u64>,
    /// Round-trip time of the pair's access links, instead of the topology's.
    pub rtt_ms: Option<f64>,
    /// Rate of the pair's access links, instead of the topology's; 0 for infinite.
    pub access_mbps: Option<f64>,
    /// Time after its start at which the hosts of each are switched off, s; never unless given.
    pub stays_s: Option<f64>,
    /// They go the other way: their data shares bottlenecks with the reports of the others.
    #[serde(default)]
    pub is_back: bool,
    /// Times at which the sender gets another address, as behind a NAT whose mapping has expired, s from the start of the run.
    #[serde(default)]
    pub rebind_s: Vec<f64>,
    /// Special behaviour of their ends.
    #[serde(default)]
    pub ends: Ends,
    /// Messages which are sent instead of a stream, or beside it.
    pub messages: Option<MessagesTable>,
    /// A user who loads pages, instead of a stream.
    pub web: Option<WebTable>,
    /// Estimates of their bottleneck.
    pub estimate: Option<EstimateTable>,
    /// Bottlenecks crossed, first and last, counted from 1. Default: all.
    pub over: Option<(usize, usize)>,
    /// The sender's node in a graph.
    pub from: Option<String>,
    /// The receiver's node in a graph.
    pub to: Option<String>,
    /// Their transport, instead of the series's.
    #[serde(default, deserialize_with = "transport::perhaps_named")]
    pub transport: Option<Carrier>,
}

/// `ends` of `[[flows]]`: what ends of DFCP do that others do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// Rate of data from the sending application, Mbit/s; absent: always enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_mbps: Option<f64>,
    /// It has some for so long, and then none for `off_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_s: Option<f64>,
    /// See `on_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_s: Option<f64>,
    /// Rate at which the receiving application reads, Mbit/s; absent: at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_mbps: Option<f64>,
    /// Receiver's memory for blocks which are not read, KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_memory_kib: Option<u64>,
    /// Drift of the receiver's clock, millionths: faster if positive, slower if negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ppm: Option<i32>,
    /// Interval of the batches in which packets arrive at the receiver, ms, as from an interface which coalesces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_batch_ms: Option<f64>,
    /// Lie in the receiver's reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lie: Option<Lie>,
}

/// Lie in a receiver's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lie {
    /// Everything arrives four times as fast as it does.
    Arrivals,
    /// Half of what arrives is lost.
    Losses,
}

fn one() -> u32 {
    1
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            label: None,
            count: 1,
            start_s: 0.0,
            stagger_s: 0.0,
            bytes: None,
            rtt_ms: None,
            access_mbps: None,
            stays_s: None,
            is_back: false,
            rebind_s: Vec::new(),
            ends: Ends::default(),
            messages: None,
            web: None,
            estimate: None,
            over: None,
            from: None,
            to: None,
            transport: None,
        }
    }
}

/// `[[series]]`: one line of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Transport of its flows.
    #[serde(deserialize_with = "transport::named")]
    pub transport: Carrier,
    /// Parameters by name which are different for it.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Points of the series: for each swept parameter a value, a list, or a range. Absent: everywhere.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Runs of each of its points in the full form, where that is another number than `[run]` has.
    pub seeds: Option<u32>,
}

/// `[[sweep]]`: what is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// A parameter's name.
    pub parameter: String,
    /// Its values.
    pub values: Vec<toml::Value>,
    /// Its values in a quick run, each of which is in `values`.
    pub quick: Option<Vec<toml::Value>>,
    /// Its values in a small run, each of which is in `values`; unless given, those of a quick one.
    pub small: Option<Vec<toml::Value>>,
}

/// `[[outages]]`: a time in which a bottleneck carries nothing, either way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Its beginning.
    pub at_s: f64,
    /// Its length.
    pub lasts_s: f64,
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
}

/// `[[time]]`: a change of a bottleneck, in data's direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time of the change, s.
    pub at_s: f64,
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Rate from then on, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// One-way delay from then on, ms.
    pub delay_ms: Option<f64>,
    /// Independent loss from then on.
    pub loss: Option<f64>,
}

/// `[[walks]]`: the rate of a bottleneck walks at random between two shares of what it is, by another way for every seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Time between two steps, ms.
    pub every_ms: f64,
    /// The least share.
    pub lowest: f64,
    /// The greatest share.
    pub highest: f64,
    /// The longest step, as a share; steps are evenly distributed up to it, both ways.
    pub step: f64,
}

fn first() -> usize {
    1
}
