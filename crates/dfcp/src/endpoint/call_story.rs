//! Log of handshake attempts that led to no connection. Strangers can send any number of them, so only sums are logged.

use dfcp_proto::EndpointStats;
use dfcp_time::Time;

use crate::limits;

/// Target of the log events, for filters of subscribers.
const TARGET: &str = "dfcp::endpoint";

/// Counters of the last line, and its time.
#[derive(Debug)]
pub(super) struct CallStory {
    told_at: Option<Time>,
    told: EndpointStats,
}

impl CallStory {
    /// Returns `None` without a subscriber.
    pub(super) fn begin() -> Option<Self> {
        let is_heard = tracing::enabled!(target: TARGET, tracing::Level::DEBUG);
        is_heard.then(|| Self { told_at: None, told: EndpointStats::default() })
    }

    /// Logs changed counters, at most once per [`limits::STORY_INTERVAL`].
    pub(super) fn go_on(&mut self, now: Time, seen: EndpointStats) {
        let cookies_sent = seen.cookies_sent - self.told.cookies_sent;
        let refused = seen.refused - self.told.refused;
        let proofs_failed = seen.proofs_failed - self.told.proofs_failed;
        let is_due = self.told_at.is_none_or(|told_at| now.since(told_at) >= limits::STORY_INTERVAL);
        if is_due && (cookies_sent, refused, proofs_failed) != (0, 0, 0) {
            let (connections, half_open) = (seen.connections, seen.half_open);
            tracing::debug!(
                target: TARGET,
                cookies_sent,
                refused,
                proofs_failed,
                connections,
                half_open,
                "calls which made no connection yet"
            );
            (self.told_at, self.told) = (Some(now), seen);
        }
    }
}
