//! The application's calls on the streams of a session (`spec/protocol.md` §3.1).

use dfcp_time::Time;
use dfcp_wire::{StreamId, StreamKind};

use crate::error::StreamError;
use crate::session::recv_side::RecvEvent;
use crate::session::send_side::{Priority, SendEvent};
use crate::session::{Phase, Session};
use crate::shared::Read;
use crate::stats::StreamStats;

/// Something that an application may want to know of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer has opened it: [`Streams::accept`] has it.
    Opened(StreamId),
    /// The peer permits more streams of ours than when [`Streams::open`] had none.
    Available,
    /// There may be something to read, or it has ended or been reset.
    Readable(StreamId),
    /// There is room to write again.
    Writable(StreamId),
    /// The peer has every byte written before it was finished, and has proven it (`spec/protocol.md` \[end-8\]). That its
    /// application has read them is not said.
    Finished(StreamId),
    /// The peer wants no more of it, for its application's `error`; what was not delivered is dropped.
    Stopped {
        /// The stream.
        stream: StreamId,
        /// The peer's application's reason.
        error: u32,
    },
    /// Nothing is kept any more of one direction of it: what that has done is none of [`Streams::stats`] from now on. The last that is heard
    /// of that direction.
    Gone {
        /// The stream.
        stream: StreamId,
        /// Figures of that direction.
        stats: Box<StreamStats>,
    },
}

/// The streams of a session beside its first one ([`Connection::streams`](crate::Connection::streams)): each an ordered
/// sequence of bytes with blocks, window and end of its own, so that what is lost of one holds up no other.
#[derive(Debug)]
pub struct Streams<'a>(pub(crate) &'a mut Session);

impl Streams<'_> {
    /// Opens a stream, without a round trip (`spec/protocol.md` \[stream-8\]): the peer learns of it with the first that is sent
    /// on it.
    ///
    /// # Errors
    /// [`StreamError::NoCredit`] before the handshake is done and while the peer permits no more of them, and
    /// [`StreamEvent::Available`] will follow; [`StreamError::NotTaken`] if it never permits any; [`StreamError::NoMemory`] if there
    /// is none for what the peer would send on it; [`StreamError::Ended`] after the end of the first stream or of the session, and
    /// [`StreamError::Connection`] if that ended with an error.
    pub fn open(&mut self, kind: StreamKind) -> Result<StreamId, StreamError> {
        let session = &mut *self.0;
        if matches!(session.phase, Phase::Opening(_)) {
            session.common.streams.want_more();
        }
        session.check_open()?;
        session.common.streams.open(kind)
    }

    /// The next stream which the peer has opened: bidirectional ones first, each kind in the order of its ids.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.0.common.streams.recv.accept()
    }

    /// Takes as many bytes of `data` as there is room for; 0 means none, and [`StreamEvent::Writable`] will follow.
    ///
    /// # Errors
    /// The stream has been finished, reset or stopped, is not ours to write, or the session is over.
    pub fn write(&mut self, now: Time, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        let session = &mut *self.0;
        session.check_open()?;
        let taken = session
            .common
            .streams
            .send
            .write(now, session.common.paths.active(), id, data)
            .ok_or(StreamError::Ended)?;
        if taken > 0 {
            session.has_to_send();
        }
        Ok(taken)
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self, id: StreamId) {
        self.0.common.streams.send.flush(id);
        self.0.has_to_send();
    }

    /// Ends our half of a stream: what has been written is delivered, then the peer reads its end. [`StreamEvent::Finished`]
    /// says that it has all. Has no effect on a stream that has ended.
    pub fn finish(&mut self, now: Time, id: StreamId) {
        self.0.common.streams.send.shut_down(now, id);
        self.0.has_to_send();
    }

    /// Ends our half of a stream at once: what is not delivered is dropped, and the peer's reader gets `error`. Has no effect on
    /// a stream that has ended, nor on the first one, which ends with its session.
    pub fn reset(&mut self, now: Time, id: StreamId, error: u32) {
        if id != StreamId::FIRST {
            self.0.common.streams.send.reset(now, id, error);
            self.0.settle_gone(now);
            self.0.has_to_send();
        }
    }

    /// Asks the peer to end its half of a stream, for the reason `error`; what still comes is discarded. Has no effect on a stream
    /// that has ended, nor on the first one.
    pub fn stop_sending(&mut self, now: Time, id: StreamId, error: u32) {
        if id != StreamId::FIRST {
            self.0.common.streams.recv.stop_sending(now, id, error);
            self.0.settle_gone(now);
        }
    }

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// The peer has reset the stream, it has been read to its end or stopped before, is not ours to read, or the session is over
    /// and everything received before has been read.
    pub fn read(&mut self, now: Time, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        let session = &mut *self.0;
        let read = session.common.streams.recv.read(id, out)?;
        if matches!(read, Read::Bytes(_)) {
            session.tell_of_room(now);
        }
        if read == Read::Blocked {
            session.check_open()?;
        }
        session.settle_gone(now);
        Ok(read)
    }

    /// True if [`read`](Self::read) would return something other than `Blocked`.
    #[must_use]
    pub fn is_readable(&self, id: StreamId) -> bool {
        self.0.common.streams.recv.is_readable(id) || matches!(self.0.phase, Phase::Closed(_))
    }

    /// Figures of a stream, as far as it is kept; the first one's until the connection is forgotten. Those of a direction that is not kept
    /// came with [`StreamEvent::Gone`].
    #[must_use]
    pub fn stats(&self, id: StreamId) -> StreamStats {
        self.0.common.streams.send.stats_of(id).and(self.0.common.streams.recv.stats_of(id))
    }

    /// Sets the precedence and share of a stream that we send among others of this session.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.0.common.streams.send.set_priority(id, priority);
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
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
        if self.0.common.streams.take_new_credit() {
            return Some(StreamEvent::Available);
        }
        self.0
            .common
            .streams
            .recv
            .poll_event()
            .map(of_received)
            .or_else(|| self.0.common.streams.send.poll_event().map(of_sent))
    }
}

impl Session {
    /// The first fault in the lists of its streams; `None` if they are right.
    #[cfg(debug_assertions)]
    pub(crate) fn find_fault(&self) -> Option<String> {
        self.common.streams.send.find_fault().or_else(|| self.common.streams.recv.find_fault())
    }

    fn check_open(&self) -> Result<(), StreamError> {
        match &self.phase {
            Phase::Open(_) => Ok(()),
            Phase::Opening(_) => Err(StreamError::NoCredit),
            Phase::Closed(closed) => Err(closed.error().cloned().map_or(StreamError::Ended, StreamError::Connection)),
        }
    }

    /// Streams of which neither half is left make room for others.
    fn settle_gone(&mut self, now: Time) {
        if self.common.streams.settle_gone(now)
            && let Phase::Open(open) = &mut self.phase
        {
            open.on_own_news(now);
        }
    }
}
