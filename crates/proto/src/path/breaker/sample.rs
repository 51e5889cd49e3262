//! Input of the breaker: the sender's counters at two moments, and their difference.

use dfcp_time::Time;

/// The sender's knowledge at a moment, from its own counters and the latest report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Time,
    /// Datagrams sent so far.
    pub(crate) numbered: u64,
    /// Datagrams with a known fate, and those of them which arrived.
    pub(crate) settled: u64,
    pub(crate) arrived: u64,
    /// IP bits which arrived, and which were sent.
    pub(crate) arrived_bits: u64,
    pub(crate) sent_bits: u64,
    /// Half of what may be sent without proof that it is decoded has been.
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

    /// The standard error of `loss`.
    pub(super) fn doubt(&self) -> f64 {
        (self.loss * (1.0 - self.loss) / self.settled.max(1) as f64).sqrt()
    }
}
