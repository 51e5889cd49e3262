//! Input of the breaker: the sender's counters at two times, and their difference.

use dfcp_time::Time;

/// Counters of the sender at one time, with the latest report taken in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Time,
    /// Number of datagrams sent.
    pub(crate) numbered: u64,
    /// Number of datagrams of known fate.
    pub(crate) settled: u64,
    /// Number of datagrams that arrived.
    pub(crate) arrived: u64,
    /// Bits of IP packets that arrived.
    pub(crate) arrived_bits: u64,
    /// Bits of IP packets sent.
    pub(crate) sent_bits: u64,
    /// True if half of the credit, the bytes that may be sent without proof of decoding, is used up.
    pub(crate) is_credit_short: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) settled: u64,
    pub(super) arrived: u64,
    pub(super) loss: f64,
    pub(super) delivered_bps: f64,
    pub(super) sent_bps: f64,
}

impl Sample {
    pub(super) fn between(from: Snapshot, to: Snapshot) -> Self {
        let seconds = to.at.since(from.at).as_secs_f64().max(1e-9);
        let settled = to.settled.saturating_sub(from.settled);
        let arrived = to.arrived.saturating_sub(from.arrived);
        Self {
            settled,
            arrived,
            loss: if settled > 0 { (1.0 - arrived as f64 / settled as f64).clamp(0.0, 1.0) } else { 0.0 },
            delivered_bps: to.arrived_bits.saturating_sub(from.arrived_bits) as f64 / seconds,
            sent_bps: to.sent_bits.saturating_sub(from.sent_bits) as f64 / seconds,
        }
    }

    /// Returns the standard error of `loss`.
    pub(super) fn doubt(&self) -> f64 {
        (self.loss * (1.0 - self.loss) / self.settled.max(1) as f64).sqrt()
    }
}
