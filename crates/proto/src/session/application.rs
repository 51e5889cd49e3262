//! What the application does with a connection.

use dfcp_time::Time;
use dfcp_wire::Profile;

use crate::classic::parameters::Parameter;
use crate::config::{Rate, Traffic};
use crate::error::{ConfigError, ConnectionError, ParameterError, WriteError};
use crate::session::protection::Identity;
use crate::session::{Phase, Seal, Session};
use crate::shared::Read;
use crate::shared::events::EventKind;
use crate::stats::Stats;

impl Session {
    /// Takes as many bytes of `data` as the send buffer has room for, of which a modern connection keeps only a part for
    /// what is not sent yet ([`SendBuffering`](crate::SendBuffering)); 0 means none, and a [`Writable`](crate::Event::Writable) event will follow. May
    /// be called before the handshake is done.
    ///
    /// # Errors
    /// After `shutdown`, or when the connection has ended with an error.
    pub fn write(&mut self, now: Time, data: &[u8]) -> Result<usize, WriteError> {
        match &self.phase {
            Phase::Closed(error) => {
                return Err(error.clone().map_or(WriteError::ShutDown, WriteError::Connection));
            }
            Phase::SynSent | Phase::SynReceived | Phase::Open => {}
        }
        if self.is_shut_down() {
            return Err(WriteError::ShutDown);
        }
        let taken = self.send.write(now, data);
        self.write_blocked = taken < data.len();
        self.may_send |= taken > 0;
        Ok(taken)
    }

    /// Tells an application which could not write that it can again.
    pub(super) fn wake_writer(&mut self) {
        if self.write_blocked && self.send.asks_for_more() {
            self.write_blocked = false;
            self.events.push(EventKind::Writable);
        }
    }

    fn is_shut_down(&self) -> bool {
        self.closing.is_started() || self.send.stream.is_shut_down()
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self) {
        self.may_send = true;
        self.send.stream.flush();
    }

    /// Blocks of which something may have been sent and which the peer has not acknowledged.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        self.send.stream.open_blocks()
    }

    /// Whether everything written has been acknowledged by the peer's decoder.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.send.stream.is_drained()
    }

    /// Ends our half of the stream: what has been written is delivered, then the peer reads its end. A
    /// [`Finished`](crate::Event::Finished) event says that the peer has all of it.
    pub fn shutdown(&mut self, now: Time) {
        self.send.stream.shut_down();
        self.may_send = true;
        self.update_closing(now);
    }

    /// Whether the peer has confirmed the end of our half.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closing.is_fin_acknowledged()
    }

    /// Ends the connection at once: what is unsent is lost, and the peer is told by an RST.
    pub fn abort(&mut self) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.reset_peer();
            self.close(Some(ConnectionError::Aborted));
        }
    }

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// The reason why the connection ended, once everything received before has been read.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> Result<Read, ConnectionError> {
        let copied = self.recv.read(out);
        if copied > 0 {
            // The peer may be waiting for room: tell it once a good part more is free than it knows of.
            let (blocks, bytes) = self.reported_room;
            let is_wider = self.recv.blocks_read() - blocks >= self.config.window_blocks.div_ceil(4)
                || self.recv.room_end_bytes() - bytes >= self.recv.memory_bytes() / 4;
            if is_wider && self.phase == Phase::Open {
                self.reported_room = (self.recv.blocks_read(), self.recv.room_end_bytes());
                self.reporter.on_own_news(now);
            }
            return Ok(Read::Bytes(copied));
        }
        match &self.phase {
            _ if self.recv.is_drained() => Ok(Read::End),
            Phase::Closed(Some(error)) => Err(error.clone()),
            Phase::Closed(None) => Ok(Read::End),
            Phase::SynSent | Phase::SynReceived | Phase::Open => Ok(Read::Blocked),
        }
    }

    /// Whether [`read`](Self::read) would return something other than `Blocked`.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.recv.is_readable() || self.recv.is_drained() || matches!(self.phase, Phase::Closed(_))
    }

    /// Changes the sending rate while the connection runs.
    ///
    /// # Errors
    /// If the rate is out of range; the one before stays.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        rate.validate()?;
        self.config_mut().rate = rate;
        self.update_rate();
        Ok(())
    }

    /// Tells what the headers below ours cost on the path of this connection, once its peer is known.
    pub fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        self.overhead_bytes = overhead_bytes;
    }

    /// Changes the kind of traffic while the connection runs.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        self.config_mut().traffic = traffic;
        self.send.stream.set_traffic(traffic);
    }

    /// Sets a parameter of thesis table 3.2. A modern connection has *Window size* only.
    ///
    /// # Errors
    /// If the table does not let it be set, this profile does not have it, or the value is out of range.
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        parameter.check_settable(value, Profile::Modern)?;
        // Only what we send: the receiver's window has been declared.
        self.send.stream.set_window_blocks(u32::try_from(value).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not let it be read, or this profile does not have it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        parameter.of_counters(&self.counters)
    }

    /// Who the peer has proven to be; `None` before the handshake is done, and without seals.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        match &self.seal {
            Seal::On(protection) => Some(protection.identity()),
            Seal::Off | Seal::Opening(_) => None,
        }
    }

    /// Counters and estimates.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counters.stats();
        stats.path_changes = self.paths.changes();
        if let Seal::On(protection) = &self.seal {
            stats.segments_forged = protection.forged();
        }
        let counters = self.send.stream.counters();
        stats.sent = counters.sent;
        stats.wasted = self.send.wasted();
        stats.loss = self.send.flight.loss().estimate();
        stats.stream_bytes_acknowledged = counters.acknowledged_bytes;
        stats.blocks_acknowledged = counters.acknowledged_blocks;
        stats.received = self.recv.symbols();
        stats.blocks_decoded = self.recv.blocks_decoded();
        stats.stream_bytes_read = self.recv.bytes_read();
        stats.datagrams_missing = self.arrivals.missing();
        if self.rtt.is_known() {
            stats.rtt = self.rtt.smoothed();
        }
        if self.breaker_is_on() && self.breaker.is_limiting() {
            let configured_bps = self.configured_bps();
            stats.breaker_rate_bps = self.pacer.rate_bps().unwrap_or_default();
            stats.carried_rate_bps = configured_bps.and_then(|bps| self.breaker.carried_bps(bps)).unwrap_or_default();
        }
        stats.breaker_tests = self.breaker.tests();
        stats
    }
}
