//! Counters that a connection keeps itself; its parts provide the rest of its [`Stats`].

use crate::stats::Stats;

/// Counters with the names and meanings of [`Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) segments_sent: u64,
    pub(crate) segments_received: u64,
    pub(crate) segments_dropped: u64,
    pub(crate) cookies_received: u32,
    pub(crate) acks_sent: u64,
    pub(crate) acks_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) arrival_rate_bps: u64,
}

impl Counters {
    /// Returns statistics with these counters; all other fields have their defaults.
    pub(crate) fn stats(&self) -> Stats {
        let Self { segments_sent, segments_received, segments_dropped, acks_sent, acks_received, .. } = *self;
        let Self { bytes_sent, bytes_received, arrival_rate_bps, cookies_received, .. } = *self;
        Stats {
            segments_sent,
            segments_received,
            segments_dropped,
            cookies_received,
            acks_sent,
            acks_received,
            bytes_sent,
            bytes_received,
            arrival_rate_bps,
            ..Stats::default()
        }
    }
}
