//! Tables `[[flows]]` of a plan, and their subtables.

use serde::{Deserialize, Serialize};

use super::carrier::Carrier;
use super::transport;

/// A table `[[flows]]` of a plan: flows with the same settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Label in figures, tables, traces and claims; a group of several flows appends a number. Default: the flow's
    /// number in the plan.
    pub label: Option<String>,
    /// Number of flows.
    #[serde(default = "one")]
    pub count: u32,
    /// Start of the first flow, s.
    #[serde(default)]
    pub start_s: f64,
    /// Delay between the starts of consecutive flows of the group, s.
    #[serde(default)]
    pub stagger_s: f64,
    /// Application bytes to send. Default: unlimited.
    pub bytes: Option<u64>,
    /// Round-trip time over the flow's access links, ms. Default: the topology's.
    pub rtt_ms: Option<f64>,
    /// Rate of the flow's access links, Mbit/s; 0 for unlimited. Default: the topology's.
    pub access_mbps: Option<f64>,
    /// Lifetime of each flow's hosts after its start, s; then they are switched off. Default: unlimited.
    pub stays_s: Option<f64>,
    /// True for flows in the reverse direction. Their data shares a queue with the reports and acknowledgements of
    /// other flows.
    #[serde(default)]
    pub is_back: bool,
    /// Times at which the sender's address changes, s from the start of the run. It models a NAT whose mapping has
    /// expired.
    #[serde(default)]
    pub rebind_s: Vec<f64>,
    /// Special behaviour of the endpoints.
    #[serde(default)]
    pub ends: Ends,
    /// Messages sent instead of a stream, or in addition to one.
    pub messages: Option<MessagesTable>,
    /// Web pages loaded instead of a stream.
    pub web: Option<WebTable>,
    /// Estimator of the flows' bottleneck rate.
    pub estimate: Option<EstimateTable>,
    /// First and last bottleneck crossed, from 1. Default: all bottlenecks.
    pub over: Option<(usize, usize)>,
    /// Name of the sender's node in a graph.
    pub from: Option<String>,
    /// Name of the receiver's node in a graph.
    pub to: Option<String>,
    /// Transport of these flows. Default: the series' transport.
    #[serde(default, deserialize_with = "transport::perhaps_named")]
    pub transport: Option<Carrier>,
}

/// The subtable `ends` of `[[flows]]`: special behaviour of DFCP endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    /// Rate at which the sending application writes, Mbit/s. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_mbps: Option<f64>,
    /// Length of the periods in which the sending application has data, s; alternates with `off_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_s: Option<f64>,
    /// Length of the pauses in which the sending application has no data, s; alternates with `on_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub off_s: Option<f64>,
    /// Rate at which the receiving application reads, Mbit/s. Default: unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_mbps: Option<f64>,
    /// Receiver's memory for unread blocks, KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_memory_kib: Option<u64>,
    /// Drift of the receiver's clock, ppm; positive for a fast clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_ppm: Option<i32>,
    /// Interval at which arrived packets are handed to the receiver in batches, ms: a model of interrupt coalescing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_batch_ms: Option<f64>,
    /// False statement in the receiver's reports, to test the sender's defence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lie: Option<Lie>,
}

/// False statement in a receiver's reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lie {
    /// The reported arrival rates are four times the real ones.
    Arrivals,
    /// Half of all packets that arrive are reported as lost.
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
    /// Interval between messages, ms.
    pub every_ms: f64,
    /// Deadline, ms after the message was handed over.
    pub deadline_ms: f64,
    /// Share of messages to deliver before the deadline, %. DFCP alone uses it, as the target of its redundancy.
    /// Default 99.9.
    #[serde(default = "target_percent")]
    pub target_percent: f64,
    /// True to also send an unlimited stream; DFCP only.
    #[serde(default)]
    pub beside_stream: bool,
}

fn target_percent() -> f64 {
    99.9
}

/// The subtable `[flows.web]`: a web user that loads pages over TCP. Each page opens several connections at the same
/// time, which carry a random number of bytes and close. The next page follows after a random time, even if the
/// previous one is incomplete. Times and sizes are exponentially distributed and drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebTable {
    /// Connections per page. Default 6, as browsers open per server.
    #[serde(default = "connections")]
    pub connections: u32,
    /// Mean bytes per connection.
    pub connection_bytes: u64,
    /// Mean time between pages, s.
    pub page_every_s: f64,
}

/// The subtable `[flows.estimate]`: test packets of 60 bytes on the flow's path. An observer at the receiver estimates
/// the bottleneck's rate from their arrival times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimateTable {
    /// Interval of test packets, ms. Default 100.
    pub probe_every_ms: Option<f64>,
    /// Queueing delay at which the queue counts as busy, ms. Default: 20, or the interval if that is shorter.
    pub threshold_ms: Option<f64>,
    /// Longest gap between test packets, ms; after a longer one, the model of the queue is reset. Default: ten
    /// intervals, or 1000 if that is longer.
    pub gap_ms: Option<f64>,
}

fn connections() -> u32 {
    6
}
