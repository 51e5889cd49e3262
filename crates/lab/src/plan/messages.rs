//! `[flows.messages]`: what an application hands over instead of a stream, or beside it.

use serde::Deserialize;

/// Messages which are handed over at regular intervals.
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
