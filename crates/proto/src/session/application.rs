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
    /// Blocks of which something may have been sent and which the peer has not acknowledged.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        self.common.streams.send.open_blocks()
    }

    /// True once the peer's decoder has acknowledged everything written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.common.streams.send.is_drained()
    }

    /// Ends the connection at once: what is unsent is lost, and the peer is told by an RST.
    pub fn abort(&mut self) {
        self.end(self.given_up(ConnectionError::Aborted));
    }

    /// As [`abort`](Self::abort), with a code for the peer's application. Before the session is open the peer is not told the code.
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
    /// If the rate is out of range; the one before stays.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        rate.validate_in(Profile::Modern)?;
        Arc::make_mut(&mut self.common.config).rate = rate;
        self.common.paths.active_mut().set_config(&self.common.config);
        Ok(())
    }

    /// Tells what the headers below ours cost on the path of this connection, once its peer is known.
    pub fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        self.common.paths.active_mut().set_overhead_bytes(overhead_bytes);
    }

    /// Changes the kind of traffic while the connection runs.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        self.common.streams.send.set_traffic(traffic);
    }

    /// Sets a parameter of thesis table 3.2. A modern connection has *Window size* only.
    ///
    /// # Errors
    /// If the table does not let it be set, this profile does not have it, or the value is out of range.
    #[cfg(feature = "classic")]
    pub(crate) fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        parameter.check_settable(value, Profile::Modern)?;
        // Only what we send: the receiver's window has been declared.
        self.common.streams.send.set_window_blocks(u32::try_from(value).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not let it be read, or this profile does not have it.
    #[cfg(feature = "classic")]
    pub(crate) fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        parameter.of_counters(&self.common.counters)
    }

    /// The identity that the peer has proven; `None` before the handshake is done, and in plaintext.
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

    /// Rate and round trip that the automatic rate has proven for the path; `None` before that.
    #[must_use]
    pub fn path_hint(&self) -> Option<PathHint> {
        self.common.path().hint()
    }

    /// The open phase; a closed session keeps it for its figures.
    fn was_open(&self) -> Option<&Open> {
        match &self.phase {
            Phase::Opening(_) => None,
            Phase::Open(open) => Some(open),
            Phase::Closed(closed) => closed.was_open(),
        }
    }

    /// The application has given the sender something to do.
    pub(super) fn has_to_send(&mut self) {
        self.common.inputs += 1;
    }

    /// The application has made room by reading.
    pub(super) fn tell_of_room(&mut self, now: Time) {
        if let Phase::Open(open) = &mut self.phase {
            open.tell_of_room(now, &mut self.common);
        }
    }
}
