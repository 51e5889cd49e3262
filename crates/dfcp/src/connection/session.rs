//! A connection used as a session: streams are opened and accepted, and its end is that of its first stream.

use std::io;

use dfcp_proto::{ConnectionError, Profile, State, StreamId, StreamKind};
use dfcp_time::Time;

use crate::connection::held_streams::OpenedBy;
use crate::connection::serve::has_unread;
use crate::connection::shared::{Inner, Shared, Usage};
use crate::connection::story::StreamNews;
use crate::connection::wakers::Wakers;
use crate::error::{Ended, StreamError, connection_error};

/// Result of an attempt to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// A stream that the peer has opened.
    Stream(StreamId),
    /// No stream yet.
    NotYet,
    /// No stream, now or later.
    Ended,
}

impl Inner {
    /// True if the application opens and accepts streams.
    pub(super) fn is_session(&self) -> bool {
        matches!(self.usage, Usage::Session | Usage::StreamInSession)
    }

    /// This side has ended the first stream, and with it what it sends of the connection.
    pub(super) fn has_ended(&self) -> bool {
        self.streams.is_first_ended()
    }

    /// The peer has sent something on the first stream, or has ended it. A session has no use for data there: its peer is
    /// no session, and must not believe that somebody reads them.
    pub(super) fn check_first_stream(&mut self, now: Time) {
        if self.usage == Usage::Session && self.closed.is_none() && has_unread(&mut self.connection, now) {
            tracing::debug!(remote = %self.connection.remote(), "the peer writes to a session as if it were a stream: reset");
            self.connection.abort();
        }
    }

    /// The error that it ended with, if it has.
    pub(super) fn check_alive(&self) -> io::Result<()> {
        match &self.closed {
            Some(Ended::By(error)) => Err(connection_error(error.clone())),
            None if self.forgotten => Err(connection_error(ConnectionError::Aborted)),
            Some(Ended::InOrder) | None => Ok(()),
        }
    }

    /// The peer sends nothing more: it has ended the first stream, and with it the session.
    pub(super) fn peer_has_ended(&self) -> bool {
        matches!(self.connection.state(), State::CloseWait | State::LastAck | State::TimeWait | State::Closed)
    }

    /// Takes the next stream that the peer has opened. Those which came before the end are accepted before it is told.
    fn try_accept(&mut self, kind: StreamKind) -> Incoming {
        let is_over = self.peer_has_ended() || self.forgotten || self.streams.refuses_incoming();
        match self.streams.accept(kind) {
            Some(id) => Incoming::Stream(id),
            None if is_over => Incoming::Ended,
            None => Incoming::NotYet,
        }
    }

    /// A new stream; `None` while the peer permits none.
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
            // A peer that has closed takes no more, so there is nothing to wait for.
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

    /// Result of the closing by both sides, once it is known.
    fn closing_result(&self) -> Option<io::Result<()>> {
        match (&self.closed, self.connection.state()) {
            (Some(Ended::By(error)), _) => Some(Err(connection_error(error.clone()))),
            (Some(Ended::InOrder), _) | (None, State::TimeWait) => Some(Ok(())),
            (None, _) if self.forgotten => Some(Err(connection_error(ConnectionError::Aborted))),
            (None, _) => None,
        }
    }

    /// Its end, once the endpoint has forgotten it.
    fn end_if_forgotten(&self) -> Option<Ended> {
        // Without an end of its own it was cut off together with the runtime that drove it.
        self.forgotten.then(|| self.closed.clone().unwrap_or(Ended::By(ConnectionError::Aborted)))
    }
}

impl Shared {
    /// The application takes it for one stream.
    pub(crate) fn begin_stream(&self) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let now = inner.tick(self.clock.now());
        inner.usage = Usage::Stream;
        inner.streams.refuse_incoming(now, &mut inner.connection, &mut inner.story);
        self.wake_driver_if_due(inner, now);
    }

    /// The application takes it for a session; `false` if it cannot be one, because it is classic. If it has been a stream before, its
    /// first stream goes on to be one.
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
            // All handles of the session were gone, and a stream gives one again that can accept.
            inner.streams.take_incoming();
        }
        is_possible
    }

    /// Opens a stream, as soon as the peer permits one. Nothing is opened when the future is dropped before.
    pub(super) async fn open(&self, kind: StreamKind) -> io::Result<StreamId> {
        loop {
            let available = self.notifies.available.notified();
            {
                let mut inner = self.lock();
                if let Some(opened) = inner.try_open(kind) {
                    return opened;
                }
                // It asks the peer for more.
                let now = inner.tick(self.clock.now());
                self.wake_driver_if_due(&mut inner, now);
            }
            available.await;
        }
    }

    /// Waits for a stream of the peer's; `None` if none will come. Nothing is taken when the future is dropped before.
    pub(super) async fn accept(&self, kind: StreamKind) -> Option<StreamId> {
        loop {
            let opened = self.notifies.opened.notified();
            let accepted = {
                let mut inner = self.lock();
                // Streams that the peer has opened are known before its end is.
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

    /// Ends the session on this side once, and waits until the peer has done so, too.
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
        // Tasks that wait for a stream get none any more.
        let mut wakers = Wakers::default();
        (wakers.news.opened, wakers.news.available) = (true, true);
        self.wake(wakers);
    }

    /// Waits until the endpoint has forgotten the connection.
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
