//! The tables `[[flows]]` of a plan, and their subtables.

use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::transport;

/// A table `[[flows]]` of a plan: flows with the same settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Label in figures, tables, traces and claims, followed by a number if there are several flows. Default: the place in the plan.
    pub label: Option<String>,
    /// Number of flows.
    #[serde(default = "one")]
    pub count: u32,
    /// Start of the first flow, s.
    #[serde(default)]
    pub start_s: f64,
    /// Delay of each further start, s.
    #[serde(default)]
    pub stagger_s: f64,
    /// Application bytes to send. Default: unlimited.
    pub bytes: Option<u64>,
    /// Round-trip time of the pair's access links, instead of the topology's.
    pub rtt_ms: Option<f64>,
    /// Rate of the pair's access links, instead of the topology's; 0 for unlimited.
    pub access_mbps: Option<f64>,
    /// Time from the start of each flow until its hosts are switched off, s. Default: never.
    pub stays_s: Option<f64>,
    /// True for flows in the reverse direction: their data shares bottlenecks with the others' reports.
    #[serde(default)]
    pub is_back: bool,
    /// Times at which the sender's address changes, like that of a host behind a NAT whose mapping has expired, s from the start of the
    /// run.
    #[serde(default)]
    pub rebind_s: Vec<f64>,
    /// Special behaviour of the endpoints.
    #[serde(default)]
    pub ends: Ends,
    /// Messages sent instead of a stream, or beside it.
    pub messages: Option<MessagesTable>,
    /// Web user that loads pages, instead of a stream.
    pub web: Option<WebTable>,
    /// Estimators of the flows' bottleneck.
    pub estimate: Option<EstimateTable>,
    /// Bottlenecks crossed, first and last, counted from 1. Default: all.
    pub over: Option<(usize, usize)>,
    /// The sender's node in a graph.
    pub from: Option<String>,
    /// The receiver's node in a graph.
    pub to: Option<String>,
    /// Transport, instead of the series's.
    #[serde(default, deserialize_with = "transport::perhaps_named")]
    pub transport: Option<Carrier>,
}

/// The subtable `ends` of `[[flows]]`: unusual behaviour of DFCP endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// Rate of data from the sending application, Mbit/s. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_mbps: Option<f64>,
    /// Time during which the sending application has data, s, alternating with `off_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_s: Option<f64>,
    /// Time during which the sending application has no data, s, alternating with `on_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_s: Option<f64>,
    /// Rate at which the receiving application reads, Mbit/s. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_mbps: Option<f64>,
    /// Receiver's memory for unread blocks, KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_memory_kib: Option<u64>,
    /// Drift of the receiver's clock, ppm: fast if positive, slow if negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ppm: Option<i32>,
    /// Interval at which packets are passed to the receiver in batches, ms, as by a network interface with interrupt coalescing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_batch_ms: Option<f64>,
    /// False claim in the receiver's reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lie: Option<Lie>,
}

/// False claim in a receiver's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lie {
    /// Arrival rates four times the real ones.
    Arrivals,
    /// Loss of half of all packets that arrive.
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

/// The subtable `[flows.messages]`: messages sent at regular intervals, instead of a stream or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessagesTable {
    /// Size of each message, bytes.
    pub bytes: u32,
    /// Interval of messages, ms.
    pub every_ms: f64,
    /// Deadline of a message after it is handed over, ms.
    pub deadline_ms: f64,
    /// Share of messages to deliver in time, percent; only DFCP takes it as a target. Default 99.9.
    #[serde(default = "target_percent")]
    pub target_percent: f64,
    /// True to send an unlimited stream beside the messages; DFCP only.
    #[serde(default)]
    pub beside_stream: bool,
}

fn target_percent() -> f64 {
    99.9
}

/// The subtable `[flows.web]`: a web user loading pages by TCP, instead of one stream. In this model a page is loaded a random time after
/// the previous one, whether that is complete or not, and opens all its connections at once; each carries a random number of bytes, and
/// closes. Times and sizes are exponentially distributed, and follow the seed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebTable {
    /// Connections per page. Default 6, the number that browsers open to a server.
    #[serde(default = "connections")]
    pub connections: u32,
    /// Mean bytes per connection.
    pub connection_bytes: u64,
    /// Mean time between pages, s.
    pub page_every_s: f64,
}

/// The subtable `[flows.estimate]`: test packets of 60 bytes beside the flow's data, from whose arrivals an observer estimates the rate of
/// the flow's bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimateTable {
    /// Interval of test packets, ms. Default 100.
    pub probe_every_ms: Option<f64>,
    /// Queueing delay from which the queue counts as busy, ms. Default 20, or the interval if that is less.
    pub threshold_ms: Option<f64>,
    /// Longest time between test packets before the model of the queue is reset, ms. Default ten intervals, or one second if that is more.
    pub gap_ms: Option<f64>,
}

fn connections() -> u32 {
    6
}
