//! The application's calls on the streams of a connection.

use dfcp_time::Time;
use dfcp_wire::{StreamId, StreamKind};

use crate::connection::{Inner, of_either};
use crate::error::StreamError;
use crate::session::send_side::Priority;
use crate::shared::Read;
use crate::shared::events::StreamEvent;
use crate::stats::StreamStats;

/// The streams of a connection ([`Connection::streams`](crate::Connection::streams)). Each stream is an ordered
/// sequence of bytes with its own blocks, window and end, so a loss on one stream delays no other (`spec/protocol.md`
/// §3.1).
///
/// The first stream, [`StreamId::FIRST`], exists from the beginning and may be written to before the handshake is
/// complete. A classic connection has no other stream. The ends of the first stream are the ends of the connection:
/// finishing it closes our side once all other streams have ended. It can be neither reset nor stopped.
#[derive(Debug)]
pub struct Streams<'a>(pub(crate) &'a mut Inner);

impl Streams<'_> {
    /// Opens a stream without a round trip (`spec/protocol.md` \[stream-8\]): the peer learns of it from the first data
    /// sent on it.
    ///
    /// # Errors
    /// [`StreamError::NoCredit`] before the handshake is complete, and while the peer permits no more streams;
    /// [`StreamEvent::Available`] will follow. [`StreamError::NotTaken`] if the peer permits no streams at all, as on a
    /// classic connection. [`StreamError::NoMemory`] if there is no memory for the peer's data on it.
    /// [`StreamError::Ended`] after the end of the first stream or of the session, and [`StreamError::Connection`] if
    /// the session ended with an error.
    pub fn open(&mut self, kind: StreamKind) -> Result<StreamId, StreamError> {
        self.0.modern_mut().ok_or(StreamError::NotTaken)?.open_stream(kind)
    }

    /// Returns the next stream that the peer has opened: bidirectional streams first, each kind in the order of ids.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.0.modern_mut()?.accept_stream()
    }

    /// Writes as many bytes of `data` as the send buffer has room for, and returns their number. 0 means that there is
    /// no room; [`StreamEvent::Writable`] will follow. A modern connection uses only a part of the buffer for data not
    /// yet sent ([`SendBuffering`](crate::SendBuffering)).
    ///
    /// # Errors
    /// If the stream has been finished, reset or stopped, if only the peer may write to it, or if the connection is
    /// over.
    pub fn write(&mut self, now: Time, id: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        of_either!(self.0, it => it.write(now, id, data))
    }

    /// Sends all written bytes without waiting for a full block.
    pub fn flush(&mut self, id: StreamId) {
        of_either!(self.0, it => it.flush(id));
    }

    /// Ends our half of a stream: the peer reads the end after all written bytes. [`StreamEvent::Finished`] follows
    /// once the peer has everything. Has no effect on a stream that has ended.
    pub fn finish(&mut self, now: Time, id: StreamId) {
        of_either!(self.0, it => it.finish(now, id));
    }

    /// Ends our half of a stream immediately. Undelivered data is dropped, and the peer's reader gets `error`. Has no
    /// effect on a stream that has ended, nor on the first stream.
    pub fn reset(&mut self, now: Time, id: StreamId, error: u32) {
        if let Some(session) = self.0.modern_mut() {
            session.reset(now, id, error);
        }
    }

    /// Requests that the peer end its half of a stream, for the reason `error`. Data that still arrives is discarded.
    /// Has no effect on a stream that has ended, nor on the first stream.
    pub fn stop_sending(&mut self, now: Time, id: StreamId, error: u32) {
        if let Some(session) = self.0.modern_mut() {
            session.stop_sending(now, id, error);
        }
    }

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// If the peer has reset the stream, if it has been read to its end or stopped, if only this end may write to it,
    /// or if the connection is over and everything received before has been read.
    pub fn read(&mut self, now: Time, id: StreamId, out: &mut [u8]) -> Result<Read, StreamError> {
        of_either!(self.0, it => it.read(now, id, out))
    }

    /// Statistics of the directions of a stream that are still kept. The first stream is kept until the connection is
    /// dropped; for other streams, [`StreamEvent::Gone`] reports the statistics of a direction when that direction is
    /// forgotten.
    #[must_use]
    pub fn stats(&self, id: StreamId) -> StreamStats {
        of_either!(&*self.0, it => it.stream_stats(id))
    }

    /// Sets priority and share of a stream among the streams that this end sends on the session.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        if let Some(session) = self.0.modern_mut() {
            session.set_priority(id, priority);
        }
    }

    /// Returns the next event of a stream.
    pub fn poll_event(&mut self) -> Option<StreamEvent> {
        of_either!(self.0, it => it.poll_stream_event())
    }
}
