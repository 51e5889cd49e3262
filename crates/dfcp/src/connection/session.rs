//! A connection used as a session: opening and accepting streams, and the session's end, which is the end of its first
//! stream.

use std::io;

use dfcp_proto::{ConnectionError, Profile, State, StreamId, StreamKind};
use dfcp_time::Time;

use crate::connection::held_streams::OpenedBy;
use crate::connection::serve::has_unread;
use crate::connection::shared::{Inner, Shared, Usage};
use crate::connection::story::StreamNews;
use crate::connection::wakers::Wakers;
use crate::error::{Ended, StreamError, connection_error};

/// Result of an attempt to accept a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// A stream of the peer.
    Stream(StreamId),
    /// No stream yet; wait.
    NotYet,
    /// No stream, now or later.
    Ended,
}

impl Inner {
    /// Returns true if the application opens and accepts streams.
    pub(super) fn is_session(&self) -> bool {
        matches!(self.usage, Usage::Session | Usage::StreamInSession)
    }

    /// Returns true if this side has ended the first stream, and so everything it sends.
    pub(super) fn has_ended(&self) -> bool {
        self.streams.is_first_ended()
    }

    /// Aborts a session whose peer has sent data on the first stream. A session never reads data there: the peer uses
    /// the connection as a single stream, and must not assume that the data is read.
    pub(super) fn check_first_stream(&mut self, now: Time) {
        if self.usage == Usage::Session && self.closed.is_none() && has_unread(&mut self.connection, now) {
            tracing::debug!(remote = %self.connection.remote(), "the peer writes to a session as if it were a stream: reset");
            self.connection.abort();
        }
    }

    /// Returns the error that has ended the connection, if any.
    pub(super) fn check_alive(&self) -> io::Result<()> {
        match &self.closed {
            Some(Ended::By(error)) => Err(connection_error(error.clone())),
            None if self.forgotten => Err(connection_error(ConnectionError::Aborted)),
            Some(Ended::InOrder) | None => Ok(()),
        }
    }

    /// Returns true if the peer sends nothing more: it has ended the first stream, and with it the session.
    pub(super) fn peer_has_ended(&self) -> bool {
        matches!(self.connection.state(), State::CloseWait | State::LastAck | State::TimeWait | State::Closed)
    }

    /// Returns the next stream of the peer. Streams that arrived before the session's end are returned before the end
    /// itself.
    fn try_accept(&mut self, kind: StreamKind) -> Incoming {
        let is_over = self.peer_has_ended() || self.forgotten || self.streams.refuses_incoming();
        match self.streams.accept(kind) {
            Some(id) => Incoming::Stream(id),
            None if is_over => Incoming::Ended,
            None => Incoming::NotYet,
        }
    }

    /// Opens a stream. Returns `None` while the peer's stream limit is reached.
    fn try_open(&mut self, kind: StreamKind) -> Option<io::Result<StreamId>> {
        if self.forgotten {
            return Some(Err(match &self.closed {
                Some(Ended::InOrder) => StreamError::SessionClosed.into(),
                Some(Ended::By(error)) => connection_error(error.clone()),
                None => connection_error(ConnectionError::Aborted),
            }));
        }
        Some(match self.connection.streams().open(kind) {
            Ok(id) => {
                self.streams.hold(id, OpenedBy::Us);
                self.tell_stream(id, StreamNews::OpenedHere);
                Ok(id)
            }
            // A peer that has closed the session raises its limit no more, so waiting is useless.
            Err(dfcp_proto::StreamError::NoCredit) if self.peer_has_ended() => Err(StreamError::SessionClosed.into()),
            Err(dfcp_proto::StreamError::NoCredit) => {
                if let Some(story) = &mut self.story {
                    story.on_no_credit(kind);
                }
                return None;
            }
            Err(dfcp_proto::StreamError::Connection(error)) => Err(connection_error(error)),
            Err(dfcp_proto::StreamError::NotTaken) => Err(StreamError::NotTaken.into()),
            Err(dfcp_proto::StreamError::NoMemory) => Err(StreamError::NoMemory.into()),
            Err(_) => Err(StreamError::SessionClosed.into()),
        })
    }

    /// Returns the result of the close by both sides, or `None` while it is in progress.
    fn closing_result(&self) -> Option<io::Result<()>> {
        match (&self.closed, self.connection.state()) {
            (Some(Ended::By(error)), _) => Some(Err(connection_error(error.clone()))),
            (Some(Ended::InOrder), _) | (None, State::TimeWait) => Some(Ok(())),
            (None, _) if self.forgotten => Some(Err(connection_error(ConnectionError::Aborted))),
            (None, _) => None,
        }
    }

    /// Returns the end of the connection once the endpoint has forgotten it.
    fn end_if_forgotten(&self) -> Option<Ended> {
        // A connection without a recorded end was cut off when its runtime ended.
        self.forgotten.then(|| self.closed.clone().unwrap_or(Ended::By(ConnectionError::Aborted)))
    }
}

impl Shared {
    /// Marks the connection as a single stream: streams of the peer are refused.
    pub(crate) fn begin_stream(&self) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let now = inner.tick(self.clock.now());
        inner.usage = Usage::Stream;
        inner.streams.refuse_incoming(now, &mut inner.connection, &mut inner.story);
        self.wake_driver_if_due(inner, now);
    }

    /// Marks the connection as a session. Returns false if that is impossible because it is classic. If it was a single
    /// stream before, this stays its first stream.
    pub(crate) fn begin_session(&self) -> bool {
        let mut inner = self.lock();
        let is_possible = inner.connection.profile() == Profile::Modern;
        if is_possible && inner.usage == Usage::Stream {
            inner.usage = Usage::StreamInSession;
            inner.streams.take_incoming();
        } else if is_possible && inner.usage == Usage::Undecided {
            inner.usage = Usage::Session;
            let now = inner.tick(self.clock.now());
            inner.check_first_stream(now);
            self.wake_driver(&mut inner);
        } else if is_possible && !inner.has_ended() {
            // All handles that can accept streams were dropped before; the new handle can accept again.
            inner.streams.take_incoming();
        }
        is_possible
    }

    /// Opens a stream, waiting while the peer's stream limit is reached. A future dropped early has opened nothing.
    pub(super) async fn open(&self, kind: StreamKind) -> io::Result<StreamId> {
        loop {
            let available = self.notifies.available.notified();
            {
                let mut inner = self.lock();
                if let Some(opened) = inner.try_open(kind) {
                    return opened;
                }
                // The failed attempt queues a request for more streams, which the driver must send.
                let now = inner.tick(self.clock.now());
                self.wake_driver_if_due(&mut inner, now);
            }
            available.await;
        }
    }

    /// Waits for a stream of the peer; `None` if no more can come. A future dropped early has taken nothing.
    pub(super) async fn accept(&self, kind: StreamKind) -> Option<StreamId> {
        loop {
            let opened = self.notifies.opened.notified();
            let accepted = {
                let mut inner = self.lock();
                // Drain events first, so that streams of the peer are known before its end.
                let wakers = inner.drain_events();
                let accepted = inner.try_accept(kind);
                drop(inner);
                self.wake(wakers);
                accepted
            };
            match accepted {
                Incoming::Stream(id) => return Some(id),
                Incoming::Ended => return None,
                Incoming::NotYet => opened.await,
            }
        }
    }

    /// Closes the session on this side once, and waits until the peer has closed it, too.
    pub(crate) async fn close(&self) -> io::Result<()> {
        self.begin_closing();
        loop {
            let ended = self.notifies.ended.notified();
            let result = self.lock().closing_result();
            if let Some(result) = result {
                return result;
            }
            ended.await;
        }
    }

    fn begin_closing(&self) {
        let mut inner = self.lock();
        if inner.has_ended() {
            return;
        }
        let now = inner.tick(self.clock.now());
        {
            let inner = &mut *inner;
            inner.streams.refuse_incoming(now, &mut inner.connection, &mut inner.story);
            inner.streams.finish(now, &mut inner.connection, StreamId::FIRST);
        }
        self.wake_driver(&mut inner);
        drop(inner);
        // Wake tasks that wait to open or accept a stream, so that they return an error or `None`.
        let mut wakers = Wakers::default();
        (wakers.news.opened, wakers.news.available) = (true, true);
        self.wake(wakers);
    }

    /// Waits until the endpoint has forgotten the connection, and returns its error, if any.
    pub(crate) async fn closed(&self) -> Option<ConnectionError> {
        loop {
            let ended = self.notifies.ended.notified();
            let end = self.lock().end_if_forgotten();
            match end {
                Some(Ended::InOrder) => return None,
                Some(Ended::By(error)) => return Some(error),
                None => ended.await,
            }
        }
    }
}
