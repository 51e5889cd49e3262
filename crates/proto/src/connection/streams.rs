//! The application's calls on the streams of a connection.

use dfcp_time::Time;
use dfcp_wire::{StreamId, StreamKind};

use crate::connection::{Inner, of_either};
use crate::error::StreamError;
use crate::session::send_side::Priority;
use crate::shared::Read;
use crate::shared::events::StreamEvent;
use crate::stats::StreamStats;

/// The streams of a connection ([`Connection::streams`](crate::Connection::streams)): each an ordered sequence of bytes with blocks,
/// window and end of its own, so that what is lost of one holds up no other (`spec/protocol.md` §3.1).
///
/// The first one, [`StreamId::FIRST`], is there from the beginning, may be written to before the handshake is done, and is all that a
/// classic connection has. Its ends are those of the connection: finishing it closes our side once all others have ended, and it can be
/// neither reset nor stopped.
#[derive(Debug)]
pub struct Streams<'a>(pub(crate) &'a mut Inner);

impl Streams<'_> {
    /// Opens a stream, without a round trip (`spec/protocol.md` \[stream-8\]): the peer learns of it with the first that is sent
    /// on it.
    ///
    /// # Errors
    /// [`StreamError::NoCredit`] before the handshake is done and while the peer permits no more of them, and
    /// [`StreamEvent::Available`] will follow; [`StreamError::NotTaken`] if it never permits any, as in a classic connection;
    /// [`StreamError::NoMemory`] if there is none for what the peer would send on it; [`StreamError::Ended`] after the end of the first
    /// stream or of the session, and [`StreamError::Connection`] if that ended with an error.
    pub fn open(&mut self, kind: StreamKind) -> Result<StreamId, StreamError> {
        self.0.modern_mut().ok_or(StreamError::NotTaken)?.open_stream(kind)
    }

    /// The next stream which the peer has opened: bidirectional ones first, each kind in the order of its ids.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.0.modern_mut()?.accept_stream()
    }

    /// Takes as many bytes of `data` as the send buffer has room for, of which a modern connection keeps only a part for what is not
    /// sent yet ([`SendBuffering`](crate::SendBuffering)); 0 means none, and [`StreamEvent::Writable`] will follow.
    ///
    /// # Errors
    /// The stream has been finished, reset or stopped, is not ours to write, or the connection is over.
    pub fn write(&mut self, now: Time, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        of_either!(self.0, it => it.write(now, id, data))
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self, id: StreamId) {
        of_either!(self.0, it => it.flush(id));
    }

    /// Ends our half of a stream: what has been written is delivered, then the peer reads its end. [`StreamEvent::Finished`]
    /// says that it has all. Has no effect on a stream that has ended.
    pub fn finish(&mut self, now: Time, id: StreamId) {
        of_either!(self.0, it => it.finish(now, id));
    }

    /// Ends our half of a stream at once: what is not delivered is dropped, and the peer's reader gets `error`. Has no effect on
    /// a stream that has ended, nor on the first one.
    pub fn reset(&mut self, now: Time, id: StreamId, error: u32) {
        if let Some(session) = self.0.modern_mut() {
            session.reset(now, id, error);
        }
    }

    /// Asks the peer to end its half of a stream, for the reason `error`; what still comes is discarded. Has no effect on a stream
    /// that has ended, nor on the first one.
    pub fn stop_sending(&mut self, now: Time, id: StreamId, error: u32) {
        if let Some(session) = self.0.modern_mut() {
            session.stop_sending(now, id, error);
        }
    }

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// The peer has reset the stream, it has been read to its end or stopped before, is not ours to read, or the connection is over
    /// and everything received before has been read.
    pub fn read(&mut self, now: Time, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        of_either!(self.0, it => it.read(now, id, out))
    }

    /// Figures of a stream, as far as it is kept; the first one's until the connection is forgotten. Those of a direction that is not kept
    /// came with [`StreamEvent::Gone`].
    #[must_use]
    pub fn stats(&self, id: StreamId) -> StreamStats {
        of_either!(&*self.0, it => it.stream_stats(id))
    }

    /// Sets the precedence and share of a stream that we send among others of this session.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        if let Some(session) = self.0.modern_mut() {
            session.set_priority(id, priority);
        }
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        of_either!(self.0, it => it.poll_stream_event())
    }
}
