//! The application's calls on a session as a whole.

use std::sync::Arc;

use dfcp_time::Time;
use dfcp_wire::Profile;
use dfcp_wire::segment::ResetReason;

use crate::config::PathHint;
use crate::config::{Rate, Traffic};
#[cfg(feature = "classic")]
use crate::error::ParameterError;
use crate::error::{ConfigError, ConnectionError};
use crate::identity::Identity;
use crate::session::common::Common;
use crate::session::open::Open;
use crate::session::{Phase, Session};
#[cfg(feature = "classic")]
use crate::shared::parameters::Parameter;
use crate::stats::Stats;

impl Session {
    /// Number of blocks that may have been sent in part or in full, and that the peer has not acknowledged.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        self.common.streams.send.open_blocks()
    }

    /// Returns true once the peer's decoder has acknowledged all bytes written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.common.streams.send.is_drained()
    }

    /// Ends the connection immediately. Unsent data is lost, and an RST is sent to the peer.
    pub fn abort(&mut self) {
        self.end(self.given_up(ConnectionError::Aborted));
    }

    /// Like [`abort`](Self::abort), with a code for the peer's application. The code is not sent before the session is
    /// open.
    pub(crate) fn abort_with(&mut self, error: u32) {
        let mut end = self.given_up(ConnectionError::Aborted);
        if matches!(self.phase, Phase::Open(_)) {
            end.reset = Some(ResetReason::Application { error });
        }
        self.end(end);
    }

    /// Changes the sending rate while the connection runs.
    ///
    /// # Errors
    /// If the rate is out of range. The previous rate then stays.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        rate.validate_in(Profile::Modern)?;
        Arc::make_mut(&mut self.common.config).rate = rate;
        self.common.paths.active_mut().set_config(&self.common.config);
        Ok(())
    }

    /// Sets the bytes per packet of all headers below DFCP's on the path to the peer.
    pub fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        self.common.paths.active_mut().set_overhead_bytes(overhead_bytes);
    }

    /// Changes the kind of traffic while the connection runs.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        self.common.streams.send.set_traffic(traffic);
    }

    /// Sets a parameter of thesis table 3.2. On a modern connection, only *Window size* can be set.
    ///
    /// # Errors
    /// If the table does not permit setting it, this profile lacks it, or the value is out of range.
    #[cfg(feature = "classic")]
    pub(crate) fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        parameter.check_settable(value, Profile::Modern)?;
        // This changes the send window only. The receive window was declared in the handshake.
        self.common.streams.send.set_window_blocks(u32::try_from(value).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not permit reading it, or this profile lacks it.
    #[cfg(feature = "classic")]
    pub(crate) fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        parameter.of_counters(&self.common.counters)
    }

    /// The peer's proven identity. `None` before the handshake is complete, and in plaintext.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.common.link.keys.as_ref().map(|keys| keys.identity())
    }

    /// Counters and estimates.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let Common { streams, link, paths, .. } = &self.common;
        let path = paths.active();
        let mut stats = self.common.counters.stats();
        stats.path_changes = paths.changes();
        stats.segments_forged = link.keys.as_ref().map_or(0, |keys| keys.open.forged());
        (stats.ecn_received, stats.ecn_reported) = (link.marks.received(), link.marks.reported());
        stats.datagrams_missing = link.arrivals.missing();
        let counters = streams.send.counters();
        stats.sent = counters.sent;
        stats.wasted = streams.send.wasted();
        stats.loss = path.flight().loss().estimate();
        stats.queue = path.flight().queue_delay();
        stats.stream_bytes_acknowledged = counters.acknowledged_bytes;
        stats.blocks_acknowledged = counters.acknowledged_blocks;
        stats.blocks_repeated = counters.blocks_repeated;
        stats.later_rounds = counters.later_rounds;
        stats.received = streams.recv.symbols();
        stats.blocks_decoded = streams.recv.blocks_decoded();
        stats.stream_bytes_read = streams.recv.bytes_read();
        if let Some(messages) = &self.common.messages {
            (stats.messages_sent, stats.messages_received) = (messages.send.stats(), messages.recv.stats());
        }
        if path.rtt().is_known() {
            stats.rtt = path.rtt().smoothed();
        }
        if self.was_open().is_some() {
            path.add_stats(&mut stats);
        }
        stats
    }

    /// Rate and RTT that the automatic rate has proven on the path. `None` before that.
    #[must_use]
    pub fn path_hint(&self) -> Option<PathHint> {
        self.common.path().hint()
    }

    /// Returns the open phase, also of a closed session, which keeps it for statistics.
    fn was_open(&self) -> Option<&Open> {
        match &self.phase {
            Phase::Opening(_) => None,
            Phase::Open(open) => Some(open),
            Phase::Closed(closed) => closed.was_open(),
        }
    }

    /// Records that the application may have given the sender something to send.
    pub(super) fn has_to_send(&mut self) {
        self.common.inputs += 1;
    }

    /// Reports to the peer the receive window that the application has freed by reading, if it is large enough.
    pub(super) fn tell_of_room(&mut self, now: Time) {
        if let Phase::Open(open) = &mut self.phase {
            open.tell_of_room(now, &mut self.common);
        }
    }
}
