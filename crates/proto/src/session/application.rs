//! The application's calls on a session and on its first stream.

use std::sync::Arc;

use dfcp_time::Time;
use dfcp_wire::segment::ResetReason;
use dfcp_wire::{Profile, StreamId};

use crate::config::{Rate, Traffic};
use crate::error::{ConfigError, ConnectionError, ParameterError, WriteError};
use crate::path::hint::PathHint;
use crate::session::common::Common;
use crate::session::open::Open;
use crate::session::protection::Identity;
use crate::session::{Phase, Session};
use crate::shared::Read;
use crate::shared::parameters::Parameter;
use crate::stats::Stats;

impl Session {
    /// Takes as many bytes of `data` as the send buffer has room for, of which a modern connection keeps only a part for
    /// what is not sent yet ([`SendBuffering`](crate::SendBuffering)); 0 means none, and a [`Writable`](crate::Event::Writable) event will follow. May
    /// be called before the handshake is done.
    ///
    /// # Errors
    /// After `shutdown`, or when the connection has ended with an error.
    pub fn write(&mut self, now: Time, data: &[u8]) -> Result<usize, WriteError> {
        if let Phase::Closed(closed) = &self.phase {
            return Err(closed.error().cloned().map_or(WriteError::ShutDown, WriteError::Connection));
        }
        let taken = self
            .common
            .streams
            .send
            .write(now, self.common.paths.active(), StreamId::FIRST, data)
            .ok_or(WriteError::ShutDown)?;
        if taken > 0 {
            self.has_to_send();
        }
        Ok(taken)
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self) {
        self.has_to_send();
        self.common.streams.send.flush(StreamId::FIRST);
    }

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

    /// Ends our half of the stream: what has been written is delivered, then the peer reads its end. A
    /// [`Finished`](crate::Event::Finished) event says that the peer has all of it.
    pub fn shutdown(&mut self, now: Time) {
        self.common.streams.send.shut_down(now, StreamId::FIRST);
        self.has_to_send();
        let Phase::Open(open) = &mut self.phase else { return };
        if let Some(end) = open.update_closing(now, &mut self.common) {
            self.end(end);
        }
    }

    /// True once the peer has confirmed the end of our half.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.was_open().is_some_and(Open::is_finished)
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

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// The reason why the connection ended, once everything received before has been read.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> Result<Read, ConnectionError> {
        if let Ok(read @ (Read::Bytes(_) | Read::End)) = self.common.streams.recv.read(StreamId::FIRST, out) {
            self.tell_of_room(now);
            return Ok(read);
        }
        match &self.phase {
            Phase::Closed(closed) => closed.error().map_or(Ok(Read::End), |error| Err(error.clone())),
            Phase::Opening(_) | Phase::Open(_) => Ok(Read::Blocked),
        }
    }

    /// True if [`read`](Self::read) would return something other than `Blocked`.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.common.streams.recv.is_readable(StreamId::FIRST) || matches!(self.phase, Phase::Closed(_))
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
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        parameter.check_settable(value, Profile::Modern)?;
        // Only what we send: the receiver's window has been declared.
        self.common.streams.send.set_window_blocks(u32::try_from(value).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not let it be read, or this profile does not have it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
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
        stats.segments_forged = link.keys.as_ref().map_or(0, |keys| keys.forged());
        (stats.ecn_received, stats.ecn_reported) = (link.marks.received(), link.marks.reported());
        stats.datagrams_missing = link.arrivals.missing();
        let counters = streams.send.counters();
        stats.sent = counters.sent;
        stats.wasted = streams.send.wasted();
        stats.loss = path.loss().estimate();
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
