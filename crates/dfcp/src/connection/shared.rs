//! State shared by a connection's handles and its endpoint's driver, and the operations of the handles on it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use dfcp_proto::{Connection, ConnectionError, Event, Handle, State, StreamEvent, StreamId};
use dfcp_time::Time;

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::connection::held_streams::HeldStreams;
use crate::connection::send_ends::SendEnd;
use crate::connection::story::Story;
use crate::connection::wakers::{News, Notifies, Wakers, register};
use crate::error::{ConnectError, Ended};
use crate::limits;
use crate::outbox::Departure;
use crate::path_watch::{PathPublisher, PathWatch};
use crate::peer_scheduler::SchedulerState;
use crate::wake_queue::WakeQueue;

/// Constant part of a connection's path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) carrier: Carrier,
    /// Initial address of the peer.
    pub(crate) remote: SocketAddr,
}

/// Local end of the path, which a rebind of the endpoint changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    /// Source address and DSCP. Answers leave from the address to which the peer sent its SYN.
    pub(crate) departure: Departure,
}

/// A connection, shared by application threads and the endpoint's driver.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    wake_queue: Arc<WakeQueue>,
    pub(super) notifies: Notifies,
    pub(crate) clock: Clock,
    pub(crate) handle: Handle,
    pub(crate) path: Path,
    /// True if the peer opened the connection: it waits to be accepted once the handshake is done.
    pub(crate) accepted: bool,
}

/// Use of a connection by the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Usage {
    /// The connection waits to be accepted.
    #[default]
    Undecided,
    /// The first stream is the only one.
    Stream,
    /// Session: the first stream carries no data, and its end is the session's end.
    Session,
    /// A single stream that has become a session: its first stream also carries data.
    StreamInSession,
}

/// State of a connection that the lock protects.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) connection: Connection,
    pub(super) local: Local,
    /// Latest time that the connection was called with; it never goes back.
    latest: Time,
    /// Task that waits for the end of the handshake.
    caller: Option<Waker>,
    pub(super) streams: HeldStreams,
    pub(super) usage: Usage,
    /// Number of handles of the application, on streams and on the session.
    pub(super) handles: usize,
    /// Number of handles that can accept streams: handles of the session and of the first stream.
    pub(super) accepting_handles: usize,
    /// The handshake is done, but the endpoint has not been notified.
    pub(super) newly_connected: bool,
    /// End of the protocol's connection. `None` before.
    pub(super) closed: Option<Ended>,
    /// The endpoint has forgotten the connection.
    pub(super) forgotten: bool,
    /// Connection state at the last wake-up of tasks that wait for a state change.
    told_state: State,
    /// End of the wait for the peer's half. `Some` once no handle is left.
    pub(super) linger_until: Option<Time>,
    /// The driver serves the connection at this time or after a wake-up. `Time::ZERO` if it will be served anyway, so
    /// no wake-up needs to be pushed.
    pub(super) sleeps_until: Time,
    /// State in the scheduler of the connection's peer.
    pub(super) scheduler_state: SchedulerState,
    /// The system's last refusal to send, cleared by the next successful fill.
    pub(super) send_error: Option<io::Error>,
    /// Log of the connection. `None` if there was no subscriber at its begin.
    pub(super) story: Option<Box<Story>>,
    /// Publisher for the watches of the path. `None` without any watch.
    path_publisher: Option<Box<PathPublisher>>,
}

impl Inner {
    /// Returns a monotonic `now` for the connection.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Processes the events of the connection and its streams. The returned wakers must be woken without the lock.
    pub(super) fn drain_events(&mut self) -> Wakers {
        let mut wakers = Wakers::default();
        while let Some(event) = self.connection.streams().poll_event() {
            if event == StreamEvent::Readable(StreamId::FIRST) {
                self.check_first_stream(self.latest);
            }
            self.streams.on_event(self.latest, (&mut self.connection, &mut self.story), event, &mut wakers);
        }
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Connected => {
                    self.newly_connected = true;
                    self.wake_caller(&mut wakers);
                }
                Event::Message => wakers.news.opened = true,
                Event::Closed(error) => {
                    self.closed = Some(error.map_or(Ended::InOrder, Ended::By));
                    self.wake_all(&mut wakers);
                }
                _ => self.wake_all(&mut wakers),
            }
        }
        let state = self.connection.state();
        if std::mem::replace(&mut self.told_state, state) != state && self.is_session() {
            // The end of the peer's first stream means that no more streams come; the end of both halves is the
            // session's end.
            (wakers.news.opened, wakers.news.ended) = (true, true);
            wakers.news.available |= self.peer_has_ended();
        }
        // Halves that ended in order before the connection have been removed above.
        match &self.closed {
            Some(Ended::By(error)) => self.streams.send_ends.end_all(&SendEnd::Lost(error.clone())),
            Some(Ended::InOrder) => self.streams.send_ends.end_all(&SendEnd::Delivered),
            None => {}
        }
        wakers.told = self.streams.send_ends.take_told();
        wakers
    }

    fn wake_caller(&mut self, wakers: &mut Wakers) {
        if let Some(caller) = self.caller.take() {
            self.streams.push_waker(caller, wakers);
        }
    }

    /// Wakes all waiting tasks, except those that wait for the end of a half.
    fn wake_all(&mut self, wakers: &mut Wakers) {
        self.wake_caller(wakers);
        self.streams.wake_all(wakers);
        wakers.news = News::ALL;
    }

    /// Logs changes since the last call.
    pub(super) fn tell_story(&mut self, now: Time) {
        if let Some(story) = &mut self.story {
            story.go_on(now, &self.connection, self.closed.as_ref());
        }
    }

    /// Publishes changed estimates to the watches of the path.
    pub(super) fn publish_path(&mut self, now: Time) {
        let Some(publisher) = &mut self.path_publisher else { return };
        if publisher.is_unwatched() {
            self.path_publisher = None;
        } else {
            publisher.on_served(now, || self.connection.stats());
        }
    }

    /// Returns the time by which the connection must be served to publish pending path estimates.
    pub(super) fn path_due_at(&self) -> Option<Time> {
        self.path_publisher.as_ref()?.due_at()
    }

    /// Logs that no handle is left.
    pub(super) fn tell_release(&mut self, now: Time) {
        if let Some(story) = &mut self.story {
            story.let_go(now, &self.connection, self.closed.as_ref());
        }
    }

    /// Marks the connection as forgotten by the endpoint. All waiting tasks must check again.
    pub(super) fn end(&mut self) -> Wakers {
        self.forgotten = true;
        // A half without a recorded end was cut off when its runtime ended.
        self.streams.send_ends.end_all(&SendEnd::Lost(ConnectionError::Aborted));
        if let Some(publisher) = self.path_publisher.take() {
            publisher.end(&self.connection.stats());
        }
        if let Some(mut story) = self.story.take() {
            story.break_off(self.latest);
        }
        let mut wakers = Wakers::default();
        self.wake_all(&mut wakers);
        wakers.told = self.streams.send_ends.take_told();
        wakers
    }
}

impl Shared {
    pub(crate) fn new(
        connection: Connection,
        clock: Clock,
        wake_queue: Arc<WakeQueue>,
        handle: Handle,
        (path, local): (Path, Local),
        accepted: bool,
    ) -> Arc<Self> {
        let story = Story::begin(clock.now(), &connection, accepted);
        let told_state = connection.state();
        let inner = Mutex::new(Inner {
            connection,
            local,
            latest: Time::ZERO,
            caller: None,
            streams: HeldStreams::default(),
            usage: Usage::default(),
            handles: 0,
            accepting_handles: 0,
            newly_connected: false,
            closed: None,
            forgotten: false,
            told_state,
            linger_until: None,
            sleeps_until: Time::ZERO,
            scheduler_state: SchedulerState::default(),
            send_error: None,
            story,
            path_publisher: None,
        });
        let notifies = Notifies::default();
        Arc::new(Self { inner, wake_queue, notifies, clock, handle, path, accepted })
    }

    /// Locks the state. A panic of another lock holder leaves a consistent connection, as every call is one complete
    /// step, so poison is ignored.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes tasks that wait for the connection, whose lock must be free. Returns true if there was one.
    pub(super) fn wake(&self, wakers: Wakers) -> bool {
        let (is_anybody, spare) = wakers.wake(&self.notifies);
        if spare.capacity() > 0 {
            self.lock().streams.give_back(spare);
        }
        is_anybody
    }

    /// Wakes the driver to serve the connection, unless it will serve it anyway.
    pub(super) fn wake_driver(&self, inner: &mut Inner) {
        if inner.sleeps_until > Time::ZERO {
            inner.sleeps_until = Time::ZERO;
            self.wake_queue.push(self.handle);
        }
    }

    /// Wakes the driver if it would sleep past the connection's next timeout.
    pub(super) fn wake_driver_if_due(&self, inner: &mut Inner, now: Time) {
        let Some((at, _)) = inner.connection.next_timeout(now) else { return };
        if at <= now || at.max(now + limits::SLOT) < inner.sleeps_until {
            self.wake_driver(inner);
        }
    }

    /// Waits for the end of the handshake.
    pub(crate) fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        let mut inner = self.lock();
        match inner.connection.state() {
            State::SynSent | State::SynReceived if inner.forgotten => Poll::Ready(Err(ConnectionError::Aborted.into())),
            State::SynSent | State::SynReceived => {
                register(&mut inner.caller, cx);
                Poll::Pending
            }
            State::Closed => match (inner.send_error.take(), inner.closed.clone()) {
                (Some(error), Some(Ended::By(ConnectionError::HandshakeTimeout { .. }))) => {
                    Poll::Ready(Err(error.into()))
                }
                (_, Some(Ended::By(error))) => Poll::Ready(Err(error.into())),
                (_, Some(Ended::InOrder) | None) => Poll::Ready(Ok(())),
            },
            _ => Poll::Ready(Ok(())),
        }
    }

    pub(crate) fn abort(&self) {
        self.end_at_once(Connection::abort);
    }

    /// Aborts like [`abort`](Self::abort), with a code for the peer's application.
    pub(crate) fn abort_with(&self, code: u32) {
        self.end_at_once(|connection| connection.abort_with(code));
    }

    fn end_at_once(&self, end: impl FnOnce(&mut Connection)) {
        let mut inner = self.lock();
        end(&mut inner.connection);
        let wakers = inner.drain_events();
        self.wake_driver(&mut inner);
        drop(inner);
        self.wake(wakers);
    }

    /// Reads from the connection under the lock.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        read(&self.lock().connection)
    }

    /// Reads a parameter of the classic profile.
    #[cfg(feature = "classic")]
    pub(crate) fn read_parameter(&self, parameter: dfcp_proto::Parameter) -> Result<u64, dfcp_proto::ParameterError> {
        self.lock().connection.parameters().get(parameter)
    }

    /// Returns a watch on the path. For a connection that is over, it has only the last estimates.
    pub(crate) fn watch_path(&self) -> PathWatch {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let inner = &mut *inner;
        let new = || Box::new(PathPublisher::new(now, &inner.connection.stats()));
        if inner.forgotten {
            return new().watch();
        }
        inner.path_publisher.get_or_insert_with(new).watch()
    }

    /// Returns the current local address of the socket.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.lock().local.address
    }

    /// Changes a setting, and wakes the driver, as the change may permit sending earlier.
    pub(crate) fn configure<T>(&self, change: impl FnOnce(&mut Connection) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner.connection);
        self.wake_driver(&mut inner);
        result
    }
}
