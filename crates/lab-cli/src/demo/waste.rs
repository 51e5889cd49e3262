//! Datagrams sent in vain.

use dfcp::Stats;
use serde::Serialize;

/// Data datagrams which arrived and were not needed, as the receiver reports.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Waste {
    /// Their share of all data datagrams sent.
    pub(super) share: f64,
    /// Those linearly dependent on what was there.
    pub(super) dependent: u64,
    /// Those which came for a block that was decoded.
    pub(super) late: u64,
    /// Those which had no place at the receiver.
    pub(super) refused: u64,
    /// All data datagrams sent.
    pub(super) data_datagrams: u64,
    /// Repair symbols among these which were sent into idle time, to save a round trip, needed or not.
    pub(super) proactive: u64,
    /// Repair symbols among these which were sent to make a silent peer speak.
    pub(super) probe: u64,
}

impl Waste {
    /// The waste of a connection that has sent all its data; `None` if nothing was acknowledged.
    pub(super) fn of(stats: &Stats) -> Option<Self> {
        let (sent, wasted) = (stats.sent, stats.wasted);
        let data_datagrams = sent.source + sent.repair + sent.proactive + sent.probe;
        (data_datagrams > 0 && stats.stream_bytes_acknowledged > 0).then(|| Self {
            // A peer's figures need not make sense.
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
