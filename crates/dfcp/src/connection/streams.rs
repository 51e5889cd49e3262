//! Operations of a stream's handles on its connection.

use std::io;
use std::task::{Context, Poll, Waker};

use dfcp_proto::{ConnectionError, Read, StreamId, StreamStats, Streams};
use dfcp_time::Time;
use tokio::io::ReadBuf;

use crate::connection::ended::Ended;
use crate::connection::held_streams::{Half, Held, RecvState, SendState, tell};
use crate::connection::send_ends::{SendEnd, SendEndWatch};
use crate::connection::shared::{Inner, Shared};
use crate::connection::story::StreamNews;
use crate::connection::wakers::register;
use crate::error::{StreamError, connection_error};
use crate::limits;

fn aborted() -> io::Error {
    connection_error(ConnectionError::Aborted)
}

impl Inner {
    /// A stream with a handle, and the connection's streams. It is there as long as the handle is.
    fn stream(&mut self, id: StreamId) -> Option<(&mut Held, Streams<'_>)> {
        Some((self.streams.get_mut(id)?, self.connection.streams()))
    }

    /// Something has happened to a stream.
    pub(super) fn tell_stream(&mut self, id: StreamId, news: StreamNews) {
        tell(&mut self.story, id, news);
    }
}

/// Operations of the handles of a stream.
impl Shared {
    pub(super) fn poll_read(&self, id: StreamId, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let is_forgotten = inner.forgotten;
        let Some((held, mut streams)) = inner.stream(id) else { return Poll::Ready(Err(aborted())) };
        if let Some(end) = held.read_end() {
            return Poll::Ready(end);
        }
        let count_max = out.remaining().min(limits::STREAM_BYTES_PER_LOCK);
        let result = match streams.read(now, id, out.initialize_unfilled_to(count_max)) {
            Ok(Read::Bytes(count)) => {
                out.advance(count);
                Ok(())
            }
            Ok(Read::End) => {
                held.receives = RecvState::End;
                inner.tell_stream(id, StreamNews::ReadToEnd);
                Ok(())
            }
            Ok(Read::Blocked) if is_forgotten => Err(aborted()),
            Ok(Read::Blocked) => {
                register(&mut held.reader, cx);
                return Poll::Pending;
            }
            Err(dfcp_proto::StreamError::Reset(code)) => {
                held.receives = RecvState::Reset(code);
                inner.tell_stream(id, StreamNews::ResetByPeer(code));
                Err(StreamError::Reset { code }.into())
            }
            Err(dfcp_proto::StreamError::Connection(error)) => Err(connection_error(error)),
            Err(_) => Err(StreamError::EndedHere.into()),
        };
        self.wake_driver_if_due(&mut inner, now);
        Poll::Ready(result)
    }

    pub(super) fn poll_write(&self, id: StreamId, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let data = data.get(..limits::STREAM_BYTES_PER_LOCK).unwrap_or(data);
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let is_forgotten = inner.forgotten;
        let Some((held, mut streams)) = inner.stream(id) else { return Poll::Ready(Err(aborted())) };
        if let Some(error) = held.send_error() {
            return Poll::Ready(Err(error));
        }
        match streams.write(now, id, data) {
            Ok(0) if !data.is_empty() && is_forgotten => Poll::Ready(Err(aborted())),
            Ok(0) if !data.is_empty() => {
                register(&mut held.writer, cx);
                Poll::Pending
            }
            Ok(count) => {
                self.wake_driver_if_due(&mut inner, now);
                Poll::Ready(Ok(count))
            }
            Err(dfcp_proto::StreamError::Connection(error)) => Poll::Ready(Err(connection_error(error))),
            // Why, is among the events, which the driver may not have taken yet.
            Err(_) => {
                let wakers = inner.drain_events();
                let why = inner.stream(id).and_then(|(held, _)| held.send_error());
                drop(inner);
                self.wake(wakers);
                Poll::Ready(Err(why.unwrap_or_else(|| StreamError::EndedHere.into())))
            }
        }
    }

    pub(super) fn flush(&self, id: StreamId) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check_alive()?;
        let now = inner.tick(self.clock.now());
        if let Some((_, mut streams)) = inner.stream(id) {
            streams.flush(id);
        }
        self.wake_driver_if_due(&mut inner, now);
        Ok(())
    }

    /// Ends what we send of it once, and waits until the peer has all of it.
    pub(super) fn poll_shutdown(&self, id: StreamId, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let alive = inner.check_alive();
        let is_forgotten = inner.forgotten;
        let Some((held, _)) = inner.stream(id) else { return Poll::Ready(Err(aborted())) };
        match held.sends {
            SendState::Finished => return Poll::Ready(Ok(())),
            SendState::Open | SendState::ShutDown => alive?,
            SendState::Stopped(_) | SendState::Reset => return Poll::Ready(held.send_error().map_or(Ok(()), Err)),
        }
        if is_forgotten {
            return Poll::Ready(Err(aborted()));
        }
        register(&mut held.writer, cx);
        self.begin_finishing(&mut inner, now, id);
        Poll::Pending
    }

    /// Ends what we send of it once, and waits for nothing. That the peer wants no more is no error: it may have read all that it needs.
    pub(super) fn finish(&self, id: StreamId) -> io::Result<()> {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let alive = inner.check_alive();
        let Some((held, _)) = inner.stream(id) else { return Err(aborted()) };
        match held.sends {
            SendState::Open | SendState::ShutDown => {
                alive?;
                self.begin_finishing(&mut inner, now, id);
            }
            SendState::Finished | SendState::Stopped(_) => {}
            SendState::Reset => return Err(StreamError::EndedHere.into()),
        }
        Ok(())
    }

    fn begin_finishing(&self, inner: &mut Inner, now: Time, id: StreamId) {
        if inner.streams.finish(now, &mut inner.connection, id) {
            self.wake_driver(inner);
        }
    }

    /// Waits for the end of what we send of it.
    pub(super) fn send_end(&self, id: StreamId) -> SendEndWatch {
        let mut inner = self.lock();
        let lost = match &inner.closed {
            Some(Ended::By(error)) => Some(error.clone()),
            None | Some(Ended::InOrder) => inner.forgotten.then_some(ConnectionError::Aborted),
        };
        match (inner.streams.get(id).map(|held| held.sends), lost) {
            (Some(SendState::Finished), _) => SendEndWatch::ended(SendEnd::Delivered),
            (Some(SendState::Stopped(code)), _) => SendEndWatch::ended(SendEnd::Stopped(code)),
            (Some(SendState::Reset), _) => SendEndWatch::ended(SendEnd::Reset),
            (_, Some(error)) => SendEndWatch::ended(SendEnd::Lost(error)),
            (Some(SendState::Open | SendState::ShutDown), None) => inner.streams.send_ends.watch(id),
            (None, None) => SendEndWatch::ended(SendEnd::Lost(ConnectionError::Aborted)),
        }
    }

    /// Its counts, also after it has ended.
    pub(super) fn stream_stats(&self, id: StreamId) -> StreamStats {
        let mut inner = self.lock();
        // A direction which is gone may be among the events.
        let wakers = inner.drain_events();
        let stats = inner.stream(id).map(|(held, streams)| held.gone.and(streams.stats(id)));
        drop(inner);
        self.wake(wakers);
        stats.unwrap_or_default()
    }

    /// Nobody has one half of a stream any more.
    pub(super) fn drop_half(&self, id: StreamId, half: Half) {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        {
            let inner = &mut *inner;
            inner.streams.let_go_of_half(now, &mut inner.connection, &mut inner.story, (id, half));
        }
        self.wake_driver_if_due(&mut inner, now);
    }

    pub(super) fn reset(&self, id: StreamId, code: u32) {
        self.end_half(id, StreamNews::ResetHere(code), |held, streams, now| {
            streams.reset(now, id, code);
            held.end_sending(SendState::Reset)
        });
    }

    pub(super) fn stop_sending(&self, id: StreamId, code: u32) {
        self.end_half(id, StreamNews::StoppedHere(code), |held, streams, now| {
            streams.stop_sending(now, id, code);
            if held.receives == RecvState::Open {
                held.receives = RecvState::Stopped;
            }
            held.reader.take()
        });
    }

    fn end_half(
        &self,
        id: StreamId,
        news: StreamNews,
        end: impl FnOnce(&mut Held, &mut Streams<'_>, Time) -> Option<Waker>,
    ) {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let Some((held, mut streams)) = inner.stream(id) else { return };
        let before = (held.sends, held.receives);
        let waker = end(held, &mut streams, now);
        let (is_news, is_reset) = (before != (held.sends, held.receives), held.sends == SendState::Reset);
        if is_reset {
            inner.streams.send_ends.end(id, SendEnd::Reset);
        }
        if is_news {
            inner.tell_stream(id, news);
        }
        self.wake_driver(&mut inner);
        drop(inner);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
