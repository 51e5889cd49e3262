//! Datagrams that were not needed.

use dfcp::Stats;
use serde::Serialize;

/// Data datagrams that arrived but were not needed, as counted by the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Waste {
    /// Wasted datagrams as a share of all data datagrams sent.
    pub(super) share: f64,
    /// Datagrams whose symbol was linearly dependent on earlier symbols.
    pub(super) dependent: u64,
    /// Datagrams that arrived after their block had been decoded.
    pub(super) late: u64,
    /// Datagrams dropped by the receiver because its memory was full.
    pub(super) refused: u64,
    /// All data datagrams sent.
    pub(super) data_datagrams: u64,
    /// Repair symbols sent in idle time, before any loss was reported, to save a round trip.
    pub(super) proactive: u64,
    /// Repair symbols sent to elicit a report from a silent receiver.
    pub(super) probe: u64,
}

impl Waste {
    /// Computes the waste of a connection that has sent all data; `None` if no data was acknowledged.
    pub(super) fn of(stats: &Stats) -> Option<Self> {
        let (sent, wasted) = (stats.sent, stats.wasted);
        let data_datagrams = sent.source + sent.repair + sent.proactive + sent.probe;
        (data_datagrams > 0 && stats.stream_bytes_acknowledged > 0).then(|| Self {
            // Limited to 1, because the peer's counters are untrusted.
            share: ((wasted.dependent + wasted.late + wasted.refused) as f64 / data_datagrams as f64).min(1.0),
            dependent: wasted.dependent,
            late: wasted.late,
            refused: wasted.refused,
            data_datagrams,
            proactive: sent.proactive,
            probe: sent.probe,
        })
    }
}
