//! `[flows.web]` and `[flows.estimate]`: a user who loads pages, and what is estimated by test packets among a flow's data.

use serde::Deserialize;

/// A user who loads pages by TCP, instead of one stream. The model: a page comes a random time after the one before, whether that is complete or
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

/// Test packets of 60 bytes beside the flow's data, by which an observer of what arrives estimates the rate of the flow's bottleneck.
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
