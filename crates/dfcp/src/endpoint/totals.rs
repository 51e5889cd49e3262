//! Totals of all connections of an endpoint, including ended ones.

use std::sync::Arc;

use dfcp_proto::{ReceivedSymbols, SentSymbols, Stats, WastedSymbols};

use super::Endpoint;
use crate::connection::Shared;

/// Sums of [`Stats`] over all current and ended connections of an endpoint, in either profile. They do not identify
/// peers, so they can be shown to anyone who monitors a server.
///
/// Most of them only grow. `received.useful`, `wasted` (reported by peers) and `datagrams_missing` may decrease
/// slightly: datagrams that counted as missing may still arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Number of connections whose handshake was completed.
    pub established: u64,
    /// Like [`Stats::segments_sent`].
    pub segments_sent: u64,
    /// Like [`Stats::segments_received`].
    pub segments_received: u64,
    /// Like [`Stats::segments_dropped`].
    pub segments_dropped: u64,
    /// Like [`Stats::segments_forged`].
    pub segments_forged: u64,
    /// Like [`Stats::bytes_sent`].
    pub bytes_sent: u64,
    /// Like [`Stats::bytes_received`].
    pub bytes_received: u64,
    /// Like [`Stats::stream_bytes_acknowledged`].
    pub stream_bytes_acknowledged: u64,
    /// Like [`Stats::stream_bytes_read`].
    pub stream_bytes_read: u64,
    /// Like [`Stats::sent`].
    pub sent: SentSymbols,
    /// Like [`Stats::wasted`].
    pub wasted: WastedSymbols,
    /// Like [`Stats::received`].
    pub received: ReceivedSymbols,
    /// Like [`Stats::datagrams_missing`].
    pub datagrams_missing: u64,
}

impl Totals {
    /// Adds the counters of one connection.
    pub(super) fn add(&mut self, stats: &Stats) {
        self.segments_sent += stats.segments_sent;
        self.segments_received += stats.segments_received;
        self.segments_dropped += stats.segments_dropped;
        self.segments_forged += stats.segments_forged;
        self.bytes_sent += stats.bytes_sent;
        self.bytes_received += stats.bytes_received;
        self.stream_bytes_acknowledged += stats.stream_bytes_acknowledged;
        self.stream_bytes_read += stats.stream_bytes_read;
        self.sent.source += stats.sent.source;
        self.sent.repair += stats.sent.repair;
        self.sent.proactive += stats.sent.proactive;
        self.sent.probe += stats.sent.probe;
        // These are reported by the peer, and may have any value.
        self.wasted.dependent = self.wasted.dependent.saturating_add(stats.wasted.dependent);
        self.wasted.late = self.wasted.late.saturating_add(stats.wasted.late);
        self.wasted.refused = self.wasted.refused.saturating_add(stats.wasted.refused);
        self.received.useful += stats.received.useful;
        self.received.dependent += stats.received.dependent;
        self.received.late += stats.received.late;
        self.received.duplicate += stats.received.duplicate;
        self.received.refused += stats.received.refused;
        self.datagrams_missing = self.datagrams_missing.saturating_add(stats.datagrams_missing);
    }
}

impl Endpoint {
    /// Returns the totals of all current and ended connections since the endpoint was bound.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let (mut totals, connections) = self.sums_and_connections();
        // A connection that ends meanwhile is in this list, and not in the sums.
        connections.iter().for_each(|connection| totals.add(&connection.read(|it| it.stats())));
        totals
    }

    /// Returns the counters and estimates of each current connection, in arbitrary order.
    #[must_use]
    pub fn connection_stats(&self) -> Vec<Stats> {
        self.sums_and_connections().1.iter().map(|connection| connection.read(|it| it.stats())).collect()
    }

    /// Returns the sums over ended connections, and the current connections.
    fn sums_and_connections(&self) -> (Totals, Vec<Arc<Shared>>) {
        let table = self.user.shared.table();
        (table.ended, table.connections.iter().flatten().cloned().collect())
    }
}
