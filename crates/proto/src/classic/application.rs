//! The application's calls on a classic connection.

use std::sync::Arc;

use dfcp_time::Time;
use dfcp_wire::StreamId;

use crate::classic::{ClassicConnection, Phase, Reset};
use crate::config::{Profile, Rate};
use crate::error::{ConfigError, ConnectionError, ParameterError, StreamError};
use crate::shared::Read;
use crate::shared::events::StreamEvent;
use crate::shared::parameters::Parameter;
use crate::stats::{Stats, StreamStats};

impl ClassicConnection {
    /// As [`Streams::write`](crate::Streams::write). A classic connection has only the first stream.
    pub(crate) fn write(&mut self, now: Time, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        if let Phase::Closed(error) = &self.phase {
            return Err(error.clone().map_or(StreamError::Ended, StreamError::Connection));
        }
        if id != StreamId::FIRST || self.closing.is_started() || self.sender.is_shut_down() {
            return Err(StreamError::Ended);
        }
        let taken = self.sender.write(now, data);
        self.may_send |= taken > 0;
        Ok(taken)
    }

    /// As [`Streams::flush`](crate::Streams::flush).
    pub(crate) fn flush(&mut self, id: StreamId) {
        if id == StreamId::FIRST {
            self.may_send = true;
            self.sender.flush();
        }
    }

    pub(crate) fn blocks_in_flight(&self) -> usize {
        self.sender.open_blocks()
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.sender.is_drained()
    }

    /// As [`Streams::finish`](crate::Streams::finish).
    pub(crate) fn finish(&mut self, now: Time, id: StreamId) {
        if id == StreamId::FIRST {
            self.sender.shut_down();
            self.may_send = true;
            self.update_closing(now);
        }
    }

    pub(crate) fn abort(&mut self) {
        if !matches!(self.phase, Phase::Closed(_)) {
            self.reset = Some(Reset);
            self.close(Some(ConnectionError::Aborted));
        }
    }

    /// As [`Streams::read`](crate::Streams::read).
    pub(crate) fn read(&mut self, _now: Time, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        if id != StreamId::FIRST || self.is_end_told {
            return Err(StreamError::Ended);
        }
        let copied = self.receiver.read(out);
        match &self.phase {
            _ if copied > 0 => Ok(Read::Bytes(copied)),
            _ if self.receiver.is_drained() => {
                self.is_end_told = true;
                Ok(Read::End)
            }
            Phase::Closed(error) => Err(error.clone().map_or(StreamError::Ended, StreamError::Connection)),
            Phase::SynSent | Phase::SynReceived | Phase::Open => Ok(Read::Blocked),
        }
    }

    /// As [`Connection::is_readable`](crate::Connection::is_readable).
    pub(crate) fn is_readable(&self, id: StreamId) -> bool {
        let is_first_readable = || self.receiver.is_readable() || self.receiver.is_drained();
        id != StreamId::FIRST || is_first_readable() || matches!(self.phase, Phase::Closed(_))
    }

    /// As [`Streams::poll_event`](crate::Streams::poll_event).
    pub(crate) fn poll_stream_event(&mut self) -> Option<StreamEvent> {
        self.stream_news.take()
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        rate.validate_in(Profile::Classic)?;
        Arc::make_mut(&mut self.config).rate = rate;
        self.update_rate();
        Ok(())
    }

    pub(crate) fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        self.overhead_bytes = overhead_bytes;
    }

    /// Sets a parameter of thesis table 3.2.
    pub(crate) fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        let is_opening = matches!(self.phase, Phase::SynSent | Phase::SynReceived);
        if matches!(parameter, Parameter::WindowSize | Parameter::Coding) && !is_opening {
            parameter.check_settable(value, self.config.profile)?;
            return Err(ParameterError::TooLate(parameter.name()));
        }
        let config = Arc::make_mut(&mut self.config);
        config.set(parameter, value)?;
        let (window_blocks, settings) = (config.blocks_in_window(), config.classic);
        self.sender.set_window_blocks(window_blocks);
        self.receiver.set_window_blocks(window_blocks);
        self.receiver.set_redundancy_bytes(settings.redundancy_bytes);
        self.sender.set_coding(settings.coding);
        self.receiver.set_decoding(settings.decoding);
        match parameter {
            Parameter::Maxtokens => self.bucket.maxtokens = settings.maxtokens,
            Parameter::Numtokens => self.bucket.numtokens = settings.numtokens,
            Parameter::Inctokens => self.bucket.inctokens = settings.inctokens,
            Parameter::Inttokens => self.bucket.inttokens = settings.inttokens,
            _ => {}
        }
        Ok(())
    }

    /// Reads a parameter of thesis table 3.2.
    pub(crate) fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        match parameter {
            Parameter::Maxtokens => Ok(self.bucket.maxtokens.into()),
            Parameter::Numtokens => Ok(self.bucket.numtokens.into()),
            Parameter::Inctokens => Ok(self.bucket.inctokens.into()),
            Parameter::Inttokens => Ok(self.bucket.inttokens.into()),
            _ => parameter.of_counters(&self.counters),
        }
    }

    /// As [`Streams::stats`](crate::Streams::stats).
    pub(crate) fn stream_stats(&self, id: StreamId) -> StreamStats {
        if id != StreamId::FIRST {
            return StreamStats::default();
        }
        let all = self.stats();
        StreamStats {
            bytes_written: self.sender.written_bytes(),
            bytes_acknowledged: all.stream_bytes_acknowledged,
            blocks_acknowledged: all.blocks_acknowledged,
            sent: all.sent,
            bytes_read: all.stream_bytes_read,
            blocks_decoded: all.blocks_decoded,
            symbols_useful: all.received.useful,
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.counters.stats();
        stats.sent.repair = self.sender.segments_sent();
        stats.stream_bytes_acknowledged = self.sender.acknowledged_bytes();
        stats.blocks_acknowledged = self.sender.acknowledged_blocks();
        stats.rate_bps = self.pacer.rate_bps().unwrap_or_default();
        stats.received = self.receiver.symbols();
        stats.blocks_decoded = self.receiver.blocks_decoded();
        stats.stream_bytes_read = self.receiver.bytes_read();
        if self.rtt.is_known() {
            stats.rtt = self.rtt.smoothed();
        }
        stats
    }
}
