//! Wasted datagrams.

use dfcp::Stats;
use serde::Serialize;

/// Data datagrams that arrived and were not needed, as the receiver reports.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Waste {
    /// Share of all data datagrams sent.
    pub(super) share: f64,
    /// Datagrams linearly dependent on earlier symbols.
    pub(super) dependent: u64,
    /// Datagrams that arrived after their block was decoded.
    pub(super) late: u64,
    /// Datagrams dropped by the receiver for lack of room.
    pub(super) refused: u64,
    /// All data datagrams sent.
    pub(super) data_datagrams: u64,
    /// Repair symbols sent in idle time, to save a round trip, needed or not.
    pub(super) proactive: u64,
    /// Repair symbols sent to elicit a report from a silent peer.
    pub(super) probe: u64,
}

impl Waste {
    /// Waste of a connection that has sent all its data; `None` if nothing was acknowledged.
    pub(super) fn of(stats: &Stats) -> Option<Self> {
        let (sent, wasted) = (stats.sent, stats.wasted);
        let data_datagrams = sent.source + sent.repair + sent.proactive + sent.probe;
        (data_datagrams > 0 && stats.stream_bytes_acknowledged > 0).then(|| Self {
            // The peer's counts may be inconsistent.
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
