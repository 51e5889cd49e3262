//! The application's calls on the streams of a session (`spec/protocol.md` §3.1).

use dfcp_time::Time;
use dfcp_wire::{StreamId, StreamKind};

use crate::error::StreamError;
use crate::session::common::Common;
use crate::session::recv_side::RecvEvent;
use crate::session::send_side::{Priority, SendEvent};
use crate::session::{Phase, Session};
use crate::shared::Read;
use crate::shared::events::StreamEvent;
use crate::stats::StreamStats;

impl Session {
    /// As [`Streams::open`](crate::Streams::open).
    pub(crate) fn open_stream(&mut self, kind: StreamKind) -> Result<StreamId, StreamError> {
        match &self.phase {
            Phase::Open(_) => self.common.streams.open(kind),
            Phase::Opening(_) => {
                self.common.streams.want_more();
                Err(StreamError::NoCredit)
            }
            Phase::Closed(closed) => Err(closed.stream_error()),
        }
    }

    /// As [`Streams::accept`](crate::Streams::accept).
    pub(crate) fn accept_stream(&mut self) -> Option<StreamId> {
        self.common.streams.recv.accept()
    }

    /// As [`Streams::write`](crate::Streams::write).
    pub(crate) fn write(&mut self, now: Time, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        self.check_not_over()?;
        let Common { streams, paths, .. } = &mut self.common;
        let taken = streams.send.write(now, paths.active(), id, data).ok_or(StreamError::Ended)?;
        if taken > 0 {
            self.has_to_send();
        }
        Ok(taken)
    }

    /// As [`Streams::flush`](crate::Streams::flush).
    pub(crate) fn flush(&mut self, id: StreamId) {
        self.common.streams.send.flush(id);
        self.has_to_send();
    }

    /// As [`Streams::finish`](crate::Streams::finish). Finishing the first stream may end the session.
    pub(crate) fn finish(&mut self, now: Time, id: StreamId) {
        self.common.streams.send.shut_down(now, id);
        self.has_to_send();
        let Phase::Open(open) = &mut self.phase else { return };
        if let Some(end) = open.update_closing(now, &mut self.common) {
            self.end(end);
        }
    }

    /// As [`Streams::reset`](crate::Streams::reset).
    pub(crate) fn reset(&mut self, now: Time, id: StreamId, error: u32) {
        if id != StreamId::FIRST {
            self.common.streams.send.reset(now, id, error);
            self.settle_gone(now);
            self.has_to_send();
        }
    }

    /// As [`Streams::stop_sending`](crate::Streams::stop_sending).
    pub(crate) fn stop_sending(&mut self, now: Time, id: StreamId, error: u32) {
        if id != StreamId::FIRST {
            self.common.streams.recv.stop_sending(now, id, error);
            self.settle_gone(now);
        }
    }

    /// As [`Streams::read`](crate::Streams::read).
    pub(crate) fn read(&mut self, now: Time, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        let read = self.common.streams.recv.read(id, out)?;
        match read {
            Read::Bytes(_) => self.tell_of_room(now),
            Read::Blocked => self.check_not_over()?,
            Read::End => {}
        }
        self.settle_gone(now);
        Ok(read)
    }

    /// As [`Connection::is_readable`](crate::Connection::is_readable).
    pub(crate) fn is_readable(&self, id: StreamId) -> bool {
        self.common.streams.recv.is_readable(id) || matches!(self.phase, Phase::Closed(_))
    }

    /// As [`Streams::stats`](crate::Streams::stats).
    pub(crate) fn stream_stats(&self, id: StreamId) -> StreamStats {
        self.common.streams.send.stats_of(id).and(self.common.streams.recv.stats_of(id))
    }

    /// As [`Streams::set_priority`](crate::Streams::set_priority).
    pub(crate) fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.common.streams.send.set_priority(id, priority);
    }

    /// As [`Streams::poll_event`](crate::Streams::poll_event).
    pub(crate) fn poll_stream_event(&mut self) -> Option<StreamEvent> {
        let of_sent = |(stream, event)| match event {
            SendEvent::Writable => StreamEvent::Writable(stream),
            SendEvent::Finished => StreamEvent::Finished(stream),
            SendEvent::Stopped(error) => StreamEvent::Stopped { stream, error },
            SendEvent::Gone(stats) => StreamEvent::Gone { stream, stats },
        };
        let of_received = |(stream, event)| match event {
            RecvEvent::Opened => StreamEvent::Opened(stream),
            RecvEvent::Readable => StreamEvent::Readable(stream),
            RecvEvent::Gone(stats) => StreamEvent::Gone { stream, stats },
        };
        let streams = &mut self.common.streams;
        if streams.take_new_credit() {
            return Some(StreamEvent::Available);
        }
        let received = streams.recv.poll_event().map(of_received);
        received.or_else(|| streams.send.poll_event().map(of_sent))
    }

    /// The first inconsistency in the stream lists. `None` if they are correct.
    #[cfg(debug_assertions)]
    pub(crate) fn find_fault(&self) -> Option<String> {
        self.common.streams.send.find_fault().or_else(|| self.common.streams.recv.find_fault())
    }

    fn check_not_over(&self) -> Result<(), StreamError> {
        match &self.phase {
            Phase::Opening(_) | Phase::Open(_) => Ok(()),
            Phase::Closed(closed) => Err(closed.stream_error()),
        }
    }

    /// Releases streams whose halves have both ended, and reports the freed credit.
    fn settle_gone(&mut self, now: Time) {
        if self.common.streams.settle_gone(now)
            && let Phase::Open(open) = &mut self.phase
        {
            open.reporter.on_own_news(now);
        }
    }
}
