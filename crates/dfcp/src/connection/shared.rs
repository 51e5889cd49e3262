//! The state which a connection's handles and its endpoint's thread share, and what the handles do with it.

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

/// A connection's path, as far as it stays the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) carrier: Carrier,
    /// Address of the peer at first.
    pub(crate) remote: SocketAddr,
}

/// The end of the path on this machine, which another socket of the endpoint's changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    /// Answers leave from the address which the peer sent its SYN to.
    pub(crate) departure: Departure,
}

/// A connection, for the application's threads and its endpoint's.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    wake_queue: Arc<WakeQueue>,
    pub(super) notifies: Notifies,
    pub(crate) clock: Clock,
    pub(crate) handle: Handle,
    pub(crate) path: Path,
    /// The peer opened it: it waits to be accepted once the handshake is done.
    pub(crate) accepted: bool,
}

/// The application's use of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Usage {
    /// It waits to be accepted.
    #[default]
    Undecided,
    /// Its first stream is all.
    Stream,
    /// The first stream only says when all others have ended.
    Session,
    /// Others are opened beside its first stream.
    StreamInSession,
}

/// State that the lock protects.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) connection: Connection,
    pub(super) local: Local,
    /// The latest time the connection was told; it never goes back.
    latest: Time,
    /// The task that waits for the end of the handshake.
    caller: Option<Waker>,
    pub(super) streams: HeldStreams,
    pub(super) usage: Usage,
    /// Number of handles that the application has on its streams, and as a session.
    pub(super) handles: usize,
    /// Those among them which can accept streams: of a session, and of the first stream.
    pub(super) accepting_handles: usize,
    /// The handshake is done and the endpoint has not been told.
    pub(super) newly_connected: bool,
    /// Nothing will happen any more.
    pub(super) closed: Option<Ended>,
    /// The endpoint has forgotten the connection.
    pub(super) forgotten: bool,
    /// Its state when the tasks that wait for one were woken last.
    told_state: State,
    /// No handle is left; the peer's half is waited for until then.
    pub(super) linger_until: Option<Time>,
    /// The driver does not serve it before this time unless woken. `Time::ZERO` if it will be served anyway: no wake-up is
    /// pushed then.
    pub(super) sleeps_until: Time,
    /// Its state in the scheduler of its peer.
    pub(super) scheduler_state: SchedulerState,
    /// Why the system last refused to send, unless it has sent since.
    pub(super) send_error: Option<io::Error>,
    /// Its log so far; `None` without a subscriber when it began.
    pub(super) story: Option<Box<Story>>,
    /// Tells the watches of the path; `None` without any.
    path_publisher: Option<Box<PathPublisher>>,
}

impl Inner {
    /// The time now, for the connection.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Takes the events of the connection and its streams; the wakers are to be woken without the lock.
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
            // The end of the peer's first stream is that of the streams to come, and both ends are the session's.
            (wakers.news.opened, wakers.news.ended) = (true, true);
            wakers.news.available |= self.peer_has_ended();
        }
        // Halves that ended in order before the connection did have been told by now.
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

    /// Wakes all tasks that wait for anything but the ends of halves.
    fn wake_all(&mut self, wakers: &mut Wakers) {
        self.wake_caller(wakers);
        self.streams.wake_all(wakers);
        wakers.news = News::ALL;
    }

    /// Logs what is new.
    pub(super) fn tell_story(&mut self, now: Time) {
        if let Some(story) = &mut self.story {
            story.go_on(now, &self.connection, self.closed.as_ref());
        }
    }

    /// Tells the watches of the path what has changed.
    pub(super) fn publish_path(&mut self, now: Time) {
        let Some(publisher) = &mut self.path_publisher else { return };
        if publisher.is_unwatched() {
            self.path_publisher = None;
        } else {
            publisher.on_served(now, || self.connection.stats());
        }
    }

    /// Time by which it must be served so that the watches of the path get the last change.
    pub(super) fn path_due_at(&self) -> Option<Time> {
        self.path_publisher.as_ref()?.due_at()
    }

    /// Logs that no handle is left.
    pub(super) fn tell_release(&mut self, now: Time) {
        if let Some(story) = &mut self.story {
            story.let_go(now, &self.connection, self.closed.as_ref());
        }
    }

    /// The endpoint does nothing for it any more: all waiting tasks must check again.
    pub(super) fn end(&mut self) -> Wakers {
        self.forgotten = true;
        // Without an end of its own it was cut off together with the runtime that drove it.
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

    /// A panic elsewhere while the lock was held leaves a connection that is still sound: every call is its own step.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes tasks that wait for the connection, whose lock must be free. Returns whether there was one.
    pub(super) fn wake(&self, wakers: Wakers) -> bool {
        let (is_anybody, spare) = wakers.wake(&self.notifies);
        if spare.capacity() > 0 {
            self.lock().streams.give_back(spare);
        }
        is_anybody
    }

    /// Has the driver serve the connection, unless it will anyway.
    pub(super) fn wake_driver(&self, inner: &mut Inner) {
        if inner.sleeps_until > Time::ZERO {
            inner.sleeps_until = Time::ZERO;
            self.wake_queue.push(self.handle);
        }
    }

    /// Has the driver serve the connection if it would sleep past the next timeout.
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

    /// As [`abort`](Self::abort), with a code for the peer's application.
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

    /// Reads what the connection knows.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Connection) -> T) -> T {
        read(&self.lock().connection)
    }

    /// Reads a parameter of the classic profile.
    #[cfg(feature = "classic")]
    pub(crate) fn read_parameter(&self, parameter: dfcp_proto::Parameter) -> Result<u64, dfcp_proto::ParameterError> {
        self.lock().connection.parameters().get(parameter)
    }

    /// Watches the path from now on. Of a connection which is over there is nothing but the last estimates.
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

    /// Present address of our socket.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.lock().local.address
    }

    /// Changes something that may let it send earlier.
    pub(crate) fn configure<T>(&self, change: impl FnOnce(&mut Connection) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner.connection);
        self.wake_driver(&mut inner);
        result
    }
}
