//! Handles of the application on a stream: operations and drop.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use dfcp_proto::{ConnectionError, Priority, Read, State, StreamId, StreamKind, StreamStats, Streams};
use dfcp_time::Time;
use tokio::io::ReadBuf;

use crate::connection::held_streams::{Half, Held, RecvState, SendState, tell};
use crate::connection::send_ends::{SendEnd, SendEndWatch};
use crate::connection::shared::{Inner, Shared};
use crate::connection::story::StreamNews;
use crate::connection::wakers::register;
use crate::error::{Ended, StreamError, connection_error};
use crate::limits;

/// Shared part of all handles of one stream. Session handles share the part of the first stream. When the last handle
/// of a connection is dropped, the application has given up the connection.
#[derive(Debug)]
pub(crate) struct StreamHandle {
    pub(crate) shared: Arc<Shared>,
    id: StreamId,
}

impl StreamHandle {
    /// Returns another handle on the connection, and counts it.
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        shared.add_handle(id);
        Self { shared, id }
    }

    /// Returns a handle of the session that contains this stream.
    pub(crate) fn beside(&self) -> Self {
        Self::new(Arc::clone(&self.shared), StreamId::FIRST)
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    pub(crate) fn set_priority(&self, priority: Priority) {
        self.shared.configure(|connection| connection.streams().set_priority(self.id, priority));
    }

    /// Opens a stream of this connection. Waits while the peer's stream limit is reached.
    pub(crate) async fn open(&self, kind: StreamKind) -> io::Result<Self> {
        let id = self.shared.open(kind).await?;
        Ok(Self::new(Arc::clone(&self.shared), id))
    }

    /// Waits for the peer to open a stream.
    pub(crate) async fn accept(&self, kind: StreamKind) -> Option<Self> {
        let id = self.shared.accept(kind).await?;
        Some(Self::new(Arc::clone(&self.shared), id))
    }
}

/// Operations of a stream's handles.
impl StreamHandle {
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut inner = self.shared.lock();
        let now = inner.tick(self.shared.clock.now());
        let is_forgotten = inner.forgotten;
        let Some((held, mut streams)) = inner.stream(self.id) else { return Poll::Ready(Err(aborted())) };
        if let Some(end) = held.read_end() {
            return Poll::Ready(end);
        }
        let count_max = out.remaining().min(limits::STREAM_BYTES_PER_LOCK);
        let result = match streams.read(now, self.id, out.initialize_unfilled_to(count_max)) {
            Ok(Read::Bytes(count)) => {
                out.advance(count);
                Ok(())
            }
            Ok(Read::End) => {
                held.receives = RecvState::End;
                inner.tell_stream(self.id, StreamNews::ReadToEnd);
                Ok(())
            }
            Ok(Read::Blocked) if is_forgotten => Err(aborted()),
            Ok(Read::Blocked) => {
                register(&mut held.reader, cx);
                return Poll::Pending;
            }
            Err(dfcp_proto::StreamError::Reset(code)) => {
                held.receives = RecvState::Reset(code);
                inner.tell_stream(self.id, StreamNews::ResetByPeer(code));
                Err(StreamError::Reset { code }.into())
            }
            Err(dfcp_proto::StreamError::Connection(error)) => Err(connection_error(error)),
            Err(_) => Err(StreamError::EndedHere.into()),
        };
        self.shared.wake_driver_if_due(&mut inner, now);
        Poll::Ready(result)
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let data = data.get(..limits::STREAM_BYTES_PER_LOCK).unwrap_or(data);
        let mut inner = self.shared.lock();
        let now = inner.tick(self.shared.clock.now());
        let is_forgotten = inner.forgotten;
        let Some((held, mut streams)) = inner.stream(self.id) else { return Poll::Ready(Err(aborted())) };
        if let Some(error) = held.send_error() {
            return Poll::Ready(Err(error));
        }
        match streams.write(now, self.id, data) {
            Ok(0) if !data.is_empty() && is_forgotten => Poll::Ready(Err(aborted())),
            Ok(0) if !data.is_empty() => {
                register(&mut held.writer, cx);
                Poll::Pending
            }
            Ok(count) => {
                self.shared.wake_driver_if_due(&mut inner, now);
                Poll::Ready(Ok(count))
            }
            Err(dfcp_proto::StreamError::Connection(error)) => Poll::Ready(Err(connection_error(error))),
            // The reason is among the events, which the driver may not have drained yet.
            Err(_) => {
                let wakers = inner.drain_events();
                let why = inner.stream(self.id).and_then(|(held, _)| held.send_error());
                drop(inner);
                self.shared.wake(wakers);
                Poll::Ready(Err(why.unwrap_or_else(|| StreamError::EndedHere.into())))
            }
        }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut inner = self.shared.lock();
        inner.check_alive()?;
        let now = inner.tick(self.shared.clock.now());
        if let Some((_, mut streams)) = inner.stream(self.id) {
            streams.flush(self.id);
        }
        self.shared.wake_driver_if_due(&mut inner, now);
        Ok(())
    }

    /// Ends the sending half once, and waits until the peer has confirmed all of it.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.shared.lock();
        let now = inner.tick(self.shared.clock.now());
        let alive = inner.check_alive();
        let is_forgotten = inner.forgotten;
        let Some((held, _)) = inner.stream(self.id) else { return Poll::Ready(Err(aborted())) };
        match held.sends {
            SendState::Finished => return Poll::Ready(Ok(())),
            SendState::Open | SendState::ShutDown => alive?,
            SendState::Stopped(_) | SendState::Reset => return Poll::Ready(held.send_error().map_or(Ok(()), Err)),
        }
        if is_forgotten {
            return Poll::Ready(Err(aborted()));
        }
        register(&mut held.writer, cx);
        self.begin_finishing(&mut inner, now);
        Poll::Pending
    }

    /// Ends the sending half once, without waiting. A stream stopped by the peer is no error: the peer may have read
    /// all that it needs.
    pub(crate) fn finish(&self) -> io::Result<()> {
        let mut inner = self.shared.lock();
        let now = inner.tick(self.shared.clock.now());
        let alive = inner.check_alive();
        let Some((held, _)) = inner.stream(self.id) else { return Err(aborted()) };
        match held.sends {
            SendState::Open | SendState::ShutDown => {
                alive?;
                self.begin_finishing(&mut inner, now);
            }
            SendState::Finished | SendState::Stopped(_) => {}
            SendState::Reset => return Err(StreamError::EndedHere.into()),
        }
        Ok(())
    }

    fn begin_finishing(&self, inner: &mut Inner, now: Time) {
        if inner.streams.finish(now, &mut inner.connection, self.id) {
            self.shared.wake_driver(inner);
        }
    }

    /// Returns a watch on the end of the sending half.
    pub(crate) fn send_end(&self) -> SendEndWatch {
        let mut inner = self.shared.lock();
        let lost = match &inner.closed {
            Some(Ended::By(error)) => Some(error.clone()),
            None | Some(Ended::InOrder) => inner.forgotten.then_some(ConnectionError::Aborted),
        };
        match (inner.streams.get(self.id).map(|held| held.sends), lost) {
            (Some(SendState::Finished), _) => SendEndWatch::ended(SendEnd::Delivered),
            (Some(SendState::Stopped(code)), _) => SendEndWatch::ended(SendEnd::Stopped(code)),
            (Some(SendState::Reset), _) => SendEndWatch::ended(SendEnd::Reset),
            (_, Some(error)) => SendEndWatch::ended(SendEnd::Lost(error)),
            (Some(SendState::Open | SendState::ShutDown), None) => inner.streams.send_ends.watch(self.id),
            (None, None) => SendEndWatch::ended(SendEnd::Lost(ConnectionError::Aborted)),
        }
    }

    /// Returns the stream's counters, also after its end.
    pub(crate) fn stream_stats(&self) -> StreamStats {
        let mut inner = self.shared.lock();
        // The counters of an ended direction may be among the events.
        let wakers = inner.drain_events();
        let stats = inner.stream(self.id).map(|(held, streams)| held.gone.and(streams.stats(self.id)));
        drop(inner);
        self.shared.wake(wakers);
        stats.unwrap_or_default()
    }

    /// Called when one half's handle is dropped. Has no effect on the first stream, whose halves end together.
    pub(crate) fn drop_half(&self, half: Half) {
        if self.id == StreamId::FIRST {
            return;
        }
        let mut inner = self.shared.lock();
        let now = inner.tick(self.shared.clock.now());
        {
            let inner = &mut *inner;
            inner.streams.let_go_of_half(now, &mut inner.connection, &mut inner.story, (self.id, half));
        }
        self.shared.wake_driver_if_due(&mut inner, now);
    }

    /// Resets the sending half. The first stream ends with its connection, and has no code.
    pub(crate) fn reset(&self, code: u32) {
        if self.id == StreamId::FIRST {
            return self.shared.abort();
        }
        self.end_half(StreamNews::ResetHere(code), |held, streams, now| {
            streams.reset(now, self.id, code);
            held.end_sending(SendState::Reset)
        });
    }

    /// Stops the receiving half. Has no effect on the first stream.
    pub(crate) fn stop_sending(&self, code: u32) {
        if self.id == StreamId::FIRST {
            return;
        }
        self.end_half(StreamNews::StoppedHere(code), |held, streams, now| {
            streams.stop_sending(now, self.id, code);
            if held.receives == RecvState::Open {
                held.receives = RecvState::Stopped;
            }
            held.reader.take()
        });
    }

    fn end_half(&self, news: StreamNews, end: impl FnOnce(&mut Held, &mut Streams<'_>, Time) -> Option<Waker>) {
        let mut inner = self.shared.lock();
        let now = inner.tick(self.shared.clock.now());
        let Some((held, mut streams)) = inner.stream(self.id) else { return };
        let before = (held.sends, held.receives);
        let waker = end(held, &mut streams, now);
        let (is_news, is_reset) = (before != (held.sends, held.receives), held.sends == SendState::Reset);
        if is_reset {
            inner.streams.send_ends.end(self.id, SendEnd::Reset);
        }
        if is_news {
            inner.tell_stream(self.id, news);
        }
        self.shared.wake_driver(&mut inner);
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.shared.drop_handle(self.id);
    }
}

impl Shared {
    fn add_handle(&self, id: StreamId) {
        let mut inner = self.lock();
        inner.handles += 1;
        inner.accepting_handles += usize::from(id == StreamId::FIRST);
    }

    /// Uncounts a dropped handle of a stream.
    fn drop_handle(&self, id: StreamId) {
        let mut inner = self.lock();
        inner.handles -= 1;
        inner.accepting_handles -= usize::from(id == StreamId::FIRST);
        let is_last = inner.handles == 0;
        let now = inner.tick(self.clock.now());
        {
            let inner = &mut *inner;
            if id != StreamId::FIRST {
                inner.streams.let_go(now, &mut inner.connection, &mut inner.story, id);
            } else if inner.accepting_handles == 0 && !is_last {
                // No handle is left that could accept the peer's streams: their writers must not wait for readers.
                inner.streams.refuse_incoming(now, &mut inner.connection, &mut inner.story);
            }
        }
        self.wake_driver_if_due(&mut inner, now);
        drop(inner);
        if is_last {
            self.release();
        }
    }

    /// Called when the last handle is dropped. After `shutdown` the endpoint completes the delivery; otherwise the
    /// connection is aborted.
    fn release(&self) {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        inner.tell_release(now);
        if inner.has_ended() {
            inner.linger_until = Some(now + limits::LINGER_MAX);
            self.wake_driver(&mut inner);
        } else if inner.connection.state() != State::Closed {
            drop(inner);
            self.abort();
        }
    }
}

impl Inner {
    /// Returns a stream with a handle, and the connection's streams. The stream exists as long as its handle.
    fn stream(&mut self, id: StreamId) -> Option<(&mut Held, Streams<'_>)> {
        Some((self.streams.get_mut(id)?, self.connection.streams()))
    }

    /// Logs an event of a stream.
    pub(super) fn tell_stream(&mut self, id: StreamId, news: StreamNews) {
        tell(&mut self.story, id, news);
    }
}

fn aborted() -> io::Error {
    connection_error(ConnectionError::Aborted)
}
