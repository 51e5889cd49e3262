//! What the application does with a connection.

use dfcp_time::Time;

use crate::config::{Rate, Traffic};
use crate::connection::events::Occurrence;
use crate::connection::protection::Identity;
use crate::connection::{Connection, Phase, Receiver, Seal, Sender};
use crate::error::{ConfigError, ConnectionError, ParameterError, WriteError};
use crate::parameters::{Access, Parameter};
use crate::stats::Stats;

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes were copied; at least one.
    Bytes(usize),
    /// Nothing is there yet.
    Blocked,
    /// The peer's stream has ended and all of it has been read.
    End,
}

impl Connection {
    /// Takes as many bytes of `data` as the send buffer has room for, of which a modern connection keeps only a part for
    /// what is not sent yet ([`WriteAhead`](crate::WriteAhead)); 0 means none, and a [`Writable`](crate::Event::Writable) event will follow. May
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
        let taken = match &mut self.sender {
            Sender::Classic(sender) => sender.write(now, data),
            Sender::Modern(sender) => sender.write(now, data),
        };
        self.write_blocked = taken < data.len();
        self.may_send |= taken > 0;
        Ok(taken)
    }

    /// Tells an application which could not write that it can again.
    pub(super) fn wake_writer(&mut self) {
        let Sender::Modern(sender) = &mut self.sender else { return };
        if self.write_blocked && sender.asks_for_more() {
            self.write_blocked = false;
            self.events.push(Occurrence::Writable);
        }
    }

    fn is_shut_down(&self) -> bool {
        self.closing.is_started()
            || match &self.sender {
                Sender::Classic(sender) => sender.is_shut_down(),
                Sender::Modern(sender) => sender.is_shut_down(),
            }
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self) {
        self.may_send = true;
        match &mut self.sender {
            Sender::Classic(sender) => sender.flush(),
            Sender::Modern(sender) => sender.flush(),
        }
    }

    /// Blocks of which something may have been sent and which the peer has not acknowledged.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        match &self.sender {
            Sender::Classic(sender) => sender.open_blocks(),
            Sender::Modern(sender) => sender.open_blocks(),
        }
    }

    /// Whether everything written has been acknowledged by the peer's decoder.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match &self.sender {
            Sender::Classic(sender) => sender.is_drained(),
            Sender::Modern(sender) => sender.is_drained(),
        }
    }

    /// Ends our half of the stream: what has been written is delivered, then the peer reads its end. A
    /// [`Finished`](crate::Event::Finished) event says that the peer has all of it.
    pub fn shutdown(&mut self, now: Time) {
        match &mut self.sender {
            Sender::Classic(sender) => sender.shut_down(),
            Sender::Modern(sender) => sender.shut_down(),
        }
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
        let copied = match &mut self.receiver {
            Receiver::Classic(receiver) => receiver.read(out),
            Receiver::Modern(receiver) => {
                let copied = receiver.read(out);
                // The peer may be waiting for room: tell it once a good part more is free than it knows of.
                let (blocks, bytes) = self.reported_window;
                let wider = receiver.window_blocks() >= blocks + self.config.window_blocks.div_ceil(4)
                    || receiver.window_bytes() >= bytes + self.config.receive_memory_bytes / 4;
                if copied > 0 && wider && self.phase == Phase::Open {
                    self.reported_window = (receiver.window_blocks(), receiver.window_bytes());
                    self.reporter.on_own_news(now);
                }
                copied
            }
        };
        if copied > 0 {
            return Ok(Read::Bytes(copied));
        }
        let drained = match &self.receiver {
            Receiver::Classic(receiver) => receiver.is_drained(),
            Receiver::Modern(receiver) => receiver.is_drained(),
        };
        match &self.phase {
            _ if drained => Ok(Read::End),
            Phase::Closed(Some(error)) => Err(error.clone()),
            Phase::Closed(None) => Ok(Read::End),
            Phase::SynSent | Phase::SynReceived | Phase::Open => Ok(Read::Blocked),
        }
    }

    /// Whether [`read`](Self::read) would return something other than `Blocked`.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let (readable, drained) = match &self.receiver {
            Receiver::Classic(receiver) => (receiver.is_readable(), receiver.is_drained()),
            Receiver::Modern(receiver) => (receiver.is_readable(), receiver.is_drained()),
        };
        readable || drained || matches!(self.phase, Phase::Closed(_))
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
        if let Sender::Modern(sender) = &mut self.sender {
            sender.set_traffic(traffic);
        }
    }

    /// Sets a parameter of thesis table 3.2. A modern connection has *Window size* only.
    ///
    /// # Errors
    /// If the table does not let it be set, this profile does not have it, the value is out of range, or it is too late.
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        parameter.check_settable(value, self.config.profile)?;
        let small = u32::try_from(value).unwrap_or(u32::MAX);
        match parameter {
            Parameter::WindowSize => self.set_window_size(small)?,
            Parameter::Redundancy => {
                self.config_mut().redundancy_bytes = small;
                if let Receiver::Classic(receiver) = &mut self.receiver {
                    receiver.set_redundancy_bytes(small);
                }
            }
            Parameter::Coding if self.phase == Phase::Open => {
                return Err(ParameterError::TooLate(parameter.name()));
            }
            Parameter::Coding => {
                self.config_mut().coding = value == 1;
                if let Sender::Classic(sender) = &mut self.sender {
                    sender.set_coding(value == 1);
                }
            }
            Parameter::Decoding => {
                self.config_mut().decoding = value == 1;
                if let Receiver::Classic(receiver) = &mut self.receiver {
                    receiver.set_decoding(value == 1);
                }
            }
            Parameter::Maxtokens => self.bucket.maxtokens = small,
            Parameter::Numtokens => self.bucket.numtokens = small,
            Parameter::Inctokens => self.bucket.inctokens = small,
            Parameter::Inttokens => self.bucket.inttokens = small,
            Parameter::OutgoingSegments
            | Parameter::IncomingSegments
            | Parameter::DroppedSegments
            | Parameter::AcksSent
            | Parameter::AcksReceived => return Err(ParameterError::ReadOnly(parameter.name())),
        }
        Ok(())
    }

    fn set_window_size(&mut self, window_blocks: u32) -> Result<(), ParameterError> {
        match (&mut self.sender, &self.phase) {
            (Sender::Modern(sender), _) => {
                // Only what we send: the receiver's window has been declared.
                sender.set_window_blocks(window_blocks);
                return Ok(());
            }
            (Sender::Classic(sender), Phase::SynSent | Phase::SynReceived) => {
                sender.set_window_blocks(window_blocks);
                if let Receiver::Classic(receiver) = &mut self.receiver {
                    receiver.set_window_blocks(window_blocks);
                }
            }
            (Sender::Classic(_), Phase::Open | Phase::Closed(_)) => {
                return Err(ParameterError::TooLate(Parameter::WindowSize.name()));
            }
        }
        self.config_mut().window_blocks = window_blocks;
        Ok(())
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not let it be read.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        if parameter.access() == Access::Set {
            return Err(ParameterError::WriteOnly(parameter.name()));
        }
        match parameter {
            Parameter::Maxtokens => Ok(self.bucket.maxtokens.into()),
            Parameter::Numtokens => Ok(self.bucket.numtokens.into()),
            Parameter::Inctokens => Ok(self.bucket.inctokens.into()),
            Parameter::Inttokens => Ok(self.bucket.inttokens.into()),
            Parameter::OutgoingSegments => Ok(self.counters.segments_sent),
            Parameter::IncomingSegments => Ok(self.counters.segments_received),
            Parameter::DroppedSegments => Ok(self.counters.segments_dropped),
            Parameter::AcksSent => Ok(self.counters.acks_sent),
            Parameter::AcksReceived => Ok(self.counters.acks_received),
            Parameter::WindowSize | Parameter::Redundancy | Parameter::Coding | Parameter::Decoding => {
                Err(ParameterError::WriteOnly(parameter.name()))
            }
        }
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
        match &self.sender {
            Sender::Classic(sender) => {
                stats.sent.repair = sender.segments_sent();
                stats.stream_bytes_acknowledged = sender.acknowledged_bytes();
                stats.blocks_acknowledged = sender.acknowledged_blocks();
            }
            Sender::Modern(sender) => {
                let counters = sender.counters();
                stats.sent = counters.sent;
                stats.wasted = counters.wasted;
                stats.loss = sender.loss();
                stats.stream_bytes_acknowledged = counters.acknowledged_bytes;
                stats.blocks_acknowledged = counters.acknowledged_blocks;
            }
        }
        match &self.receiver {
            Receiver::Classic(receiver) => {
                stats.received = receiver.symbols();
                stats.blocks_decoded = receiver.blocks_decoded();
                stats.stream_bytes_read = receiver.bytes_read();
            }
            Receiver::Modern(receiver) => {
                stats.received = receiver.symbols();
                stats.blocks_decoded = receiver.blocks_decoded();
                stats.stream_bytes_read = receiver.bytes_read();
                stats.datagrams_missing = self.arrivals.missing();
            }
        }
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
