//! `[[flows]]` of a plan, and the tables within.

use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::transport;

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

/// `[flows.messages]`: messages which are handed over at regular intervals, instead of a stream or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessagesTable {
    /// Bytes of each.
    pub bytes: u32,
    /// Interval of messages, ms.
    pub every_ms: f64,
    /// Time from handing over until a message is worth nothing, ms.
    pub deadline_ms: f64,
    /// Share that should come in time, percent; DFCP alone takes it as an order. Default 99.9.
    #[serde(default = "target_percent")]
    pub target_percent: f64,
    /// A stream is written without end, beside them; DFCP alone.
    #[serde(default)]
    pub beside_stream: bool,
}

fn target_percent() -> f64 {
    99.9
}

/// `[flows.web]`: a user who loads pages by TCP, instead of one stream. The model: a page comes a random time after the one before, whether that is complete or
/// not, and opens all its connections at once; each carries a random number of bytes, and ends. Times and sizes are exponentially
/// distributed, and follow the seed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebTable {
    /// Connections of a page. Default 6, as many as browsers open to a server.
    #[serde(default = "connections")]
    pub connections: u32,
    /// Bytes of a connection, on average.
    pub connection_bytes: u64,
    /// Mean time from one page to the next, s.
    pub page_every_s: f64,
}

/// `[flows.estimate]`: test packets of 60 bytes beside the flow's data, by which an observer of what arrives estimates the rate of the flow's bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimateTable {
    /// Interval of test packets, ms. Default 100.
    pub probe_every_ms: Option<f64>,
    /// The queueing delay from which the queue counts as busy. Default 20, or the interval if that is less.
    pub threshold_ms: Option<f64>,
    /// The longest time between test packets which the model of the queue survives. Default ten intervals, or a second if that is more.
    pub gap_ms: Option<f64>,
}

fn connections() -> u32 {
    6
}
