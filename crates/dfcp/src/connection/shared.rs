//! The state which a connection's handles and its driver share, and what the handles do with it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use dfcp_proto::{Connection, ConnectionError, Event, Handle, Identity, Parameter, ParameterError, Read, State, Stats};
use dfcp_time::Time;
use tokio::io::ReadBuf;
use tokio::sync::Notify;

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::connection::inbox::{Inbox, InboxBudget, Received};
use crate::error::{ConnectError, connection_error, write_error};
use crate::limits;

/// Between which addresses a connection's datagrams go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) carrier: Carrier,
    /// Where the peer was at first.
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    /// The address which the peer sent its SYN to: answers come from there.
    pub(crate) src_ip: Option<IpAddr>,
}

/// What the driver does for one handle's connection.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    inbox: Mutex<Inbox>,
    /// The latest period in which it received something, as the endpoint counts them.
    active_in: AtomicU32,
    /// Its share of the socket's buffer.
    queue_bytes: AtomicU64,
    /// Wakes the driver.
    pub(super) wake: Notify,
    pub(crate) clock: Clock,
    pub(crate) handle: Handle,
    pub(crate) path: Path,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(super) connection: Connection,
    /// The latest time the connection was told; it never goes back.
    latest: Time,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Waits for the end of the connection.
    closer: Option<Waker>,
    /// The handshake is done and the endpoint has not been told.
    pub(super) newly_connected: bool,
    /// Nothing will happen any more; the reason unless both sides closed.
    pub(super) closed: Option<Option<ConnectionError>>,
    /// The driver has ended: the endpoint has forgotten the connection.
    pub(super) driver_gone: bool,
    shut_down: bool,
    /// No handle is left; the peer's half is waited for until then.
    pub(super) linger_until: Option<Time>,
    /// The driver sleeps until then; `Time::ZERO` while it runs.
    pub(super) sleeps_until: Time,
    /// Why the system last refused to send, unless it has sent since.
    pub(super) send_error: Option<io::Error>,
}

/// Where datagrams go in.
#[derive(Debug)]
pub(crate) struct Intake<'a> {
    connection: &'a mut Connection,
    now: Time,
}

impl Intake<'_> {
    /// Takes in the datagrams in `bytes`, each of `stride` bytes, the last perhaps shorter, and decrypts them in place.
    pub(crate) fn datagrams(&mut self, remote: SocketAddr, bytes: &mut [u8], stride: usize) {
        bytes.chunks_mut(stride).for_each(|datagram| self.connection.handle_datagram(self.now, remote, datagram));
    }
}

/// Tasks to wake once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Wakers([Option<Waker>; 3]);

impl Wakers {
    pub(crate) fn wake(self) {
        self.0.into_iter().flatten().for_each(Waker::wake);
    }
}

impl Inner {
    /// The time now, for the connection.
    pub(super) fn tick(&mut self, now: Time) -> Time {
        self.latest = self.latest.max(now);
        self.latest
    }

    /// Takes the connection's events; the wakers are to be woken without the lock.
    pub(super) fn drain_events(&mut self) -> Wakers {
        let mut wakers = Wakers::default();
        while let Some(event) = self.connection.poll_event() {
            let (read, write, close) = match event {
                Event::Connected => {
                    self.newly_connected = true;
                    (true, true, false)
                }
                Event::Readable => (true, false, false),
                Event::Writable | Event::Finished => (false, true, false),
                Event::Closed(error) => {
                    self.closed = Some(error);
                    (true, true, true)
                }
                _ => (true, true, true),
            };
            for (wanted, slot, waker) in
                [(read, 0, &mut self.reader), (write, 1, &mut self.writer), (close, 2, &mut self.closer)]
            {
                if wanted && let Some(waker) = waker.take() {
                    wakers.0[slot] = Some(waker);
                }
            }
        }
        wakers
    }

    /// The driver has nothing more to do: whoever waits for anything must look again.
    pub(super) fn end(&mut self) -> Wakers {
        self.driver_gone = true;
        Wakers([self.reader.take(), self.writer.take(), self.closer.take()])
    }
}

fn register(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *slot = Some(cx.waker().clone()),
    }
}

impl Shared {
    pub(crate) fn new(
        connection: Connection,
        clock: Clock,
        handle: Handle,
        path: Path,
        inboxes: &Arc<InboxBudget>,
    ) -> Arc<Self> {
        let inner = Inner {
            connection,
            latest: Time::ZERO,
            reader: None,
            writer: None,
            closer: None,
            newly_connected: false,
            closed: None,
            driver_gone: false,
            shut_down: false,
            linger_until: None,
            sleeps_until: Time::ZERO,
            send_error: None,
        };
        let inbox = Inbox::new(Arc::clone(inboxes));
        let (inner, inbox, wake) = (Mutex::new(inner), Mutex::new(inbox), Notify::new());
        let (active_in, queue_bytes) = (AtomicU32::new(0), AtomicU64::new(0));
        Arc::new(Self { inner, inbox, active_in, queue_bytes, wake, clock, handle, path })
    }

    /// A panic elsewhere while the lock was held leaves a connection that is still sound: every call is its own step.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks `share`, which is told when datagrams last came, for the present period and for how much of them the system
    /// keeps.
    pub(crate) fn share_queue(&self, share: impl FnOnce(u32) -> (u32, u64)) {
        let (period, bytes) = share(self.active_in.load(Ordering::Relaxed));
        self.active_in.store(period, Ordering::Relaxed);
        self.queue_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn receive_queue_bytes(&self) -> u64 {
        self.queue_bytes.load(Ordering::Relaxed)
    }

    /// Hands datagrams to the driver.
    pub(crate) fn deliver(&self, received: Received) {
        self.inbox().push(received);
        self.wake.notify_one();
    }

    /// Lets `take_in` hand datagrams which came at `at` to the connection, if nobody else is at work on it and nothing
    /// waits; else `false`.
    pub(crate) fn handle(&self, at: Time, take_in: impl FnOnce(&mut Intake<'_>)) -> bool {
        let Ok(mut inner) = self.inner.try_lock() else { return false };
        // Its beginning, and an end which nobody waits for, are the driver's.
        if inner.linger_until.is_some() || !inner.connection.state().is_open() || !self.inbox().is_empty() {
            return false;
        }
        let now = inner.tick(at);
        inner.connection.set_receive_queue_bytes(self.receive_queue_bytes());
        take_in(&mut Intake { connection: &mut inner.connection, now });
        let wakers = inner.drain_events();
        if inner.newly_connected || inner.closed.is_some() {
            self.wake.notify_one();
        } else {
            self.wake_driver(&inner, now);
        }
        drop(inner);
        wakers.wake();
        true
    }

    /// Wakes the driver if it would sleep too long. The runtime's timer is up to 2 ms late: what is due is not left to it.
    fn wake_driver(&self, inner: &Inner, now: Time) {
        let sleeps = inner.sleeps_until > Time::ZERO;
        if sleeps && inner.connection.next_timeout(now).is_some_and(|at| at < inner.sleeps_until || at <= now) {
            self.wake.notify_one();
        }
    }

    /// Waits for the end of the handshake.
    pub(crate) fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        let mut inner = self.lock();
        match inner.connection.state() {
            State::SynSent | State::SynReceived if inner.driver_gone => {
                Poll::Ready(Err(ConnectionError::Aborted.into()))
            }
            State::SynSent | State::SynReceived => {
                register(&mut inner.writer, cx);
                Poll::Pending
            }
            State::Closed => match (inner.send_error.take(), inner.closed.clone().flatten()) {
                (Some(error), Some(ConnectionError::HandshakeTimeout)) => Poll::Ready(Err(error.into())),
                (_, Some(error)) => Poll::Ready(Err(error.into())),
                (_, None) => Poll::Ready(Ok(())),
            },
            _ => Poll::Ready(Ok(())),
        }
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        match inner.connection.read(now, out.initialize_unfilled()) {
            Ok(Read::Bytes(count)) => {
                out.advance(count);
                self.wake_driver(&inner, now);
                Poll::Ready(Ok(()))
            }
            Ok(Read::End) => Poll::Ready(Ok(())),
            Ok(Read::Blocked) if inner.driver_gone => Poll::Ready(Err(connection_error(ConnectionError::Aborted))),
            Ok(Read::Blocked) => {
                register(&mut inner.reader, cx);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(connection_error(error))),
        }
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let data = data.get(..limits::WRITE_BYTES_PER_LOCK).unwrap_or(data);
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        match inner.connection.write(now, data) {
            Ok(0) if !data.is_empty() => {
                if inner.driver_gone {
                    return Poll::Ready(Err(connection_error(ConnectionError::Aborted)));
                }
                register(&mut inner.writer, cx);
                Poll::Pending
            }
            Ok(count) => {
                self.wake_driver(&inner, now);
                Poll::Ready(Ok(count))
            }
            Err(error) => Poll::Ready(Err(write_error(error))),
        }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut inner = self.lock();
        if let Some(Some(error)) = &inner.closed {
            return Err(connection_error(error.clone()));
        }
        let now = inner.tick(self.clock.now());
        inner.connection.flush();
        self.wake_driver(&inner, now);
        Ok(())
    }

    /// Ends our half once, and waits until the peer has all of it.
    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.lock();
        if inner.connection.is_finished() {
            return Poll::Ready(Ok(()));
        }
        match &inner.closed {
            Some(None) => return Poll::Ready(Ok(())),
            Some(Some(error)) => return Poll::Ready(Err(connection_error(error.clone()))),
            None if inner.driver_gone => return Poll::Ready(Err(connection_error(ConnectionError::Aborted))),
            None => {}
        }
        if !inner.shut_down {
            inner.shut_down = true;
            let now = inner.tick(self.clock.now());
            inner.connection.shutdown(now);
            self.wake.notify_one();
        }
        register(&mut inner.writer, cx);
        Poll::Pending
    }

    /// Waits until the endpoint has forgotten the connection.
    pub(crate) fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<Option<ConnectionError>> {
        let mut inner = self.lock();
        if inner.driver_gone {
            return Poll::Ready(inner.closed.clone().unwrap_or(Some(ConnectionError::Aborted)));
        }
        register(&mut inner.closer, cx);
        Poll::Pending
    }

    pub(crate) fn abort(&self) {
        let mut inner = self.lock();
        inner.connection.abort();
        let wakers = inner.drain_events();
        drop(inner);
        wakers.wake();
        self.wake.notify_one();
    }

    /// The last handle is gone. After `shutdown` the endpoint brings the rest to an end, otherwise the peer is told.
    fn release(&self) {
        let mut inner = self.lock();
        if inner.shut_down {
            let now = inner.tick(self.clock.now());
            inner.linger_until = Some(now + limits::LINGER_MAX);
            self.wake.notify_one();
        } else if inner.connection.state() != State::Closed {
            drop(inner);
            self.abort();
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let dropped = self.inbox().dropped();
        let mut stats = self.lock().connection.stats();
        stats.segments_received += dropped;
        stats.segments_dropped += dropped;
        stats
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.lock().connection.identity()
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.lock().connection.remote()
    }

    pub(crate) fn state(&self) -> State {
        self.lock().connection.state()
    }

    pub(crate) fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        let dropped = self.inbox().dropped();
        let value = self.lock().connection.get(parameter)?;
        Ok(match parameter {
            Parameter::IncomingSegments | Parameter::DroppedSegments => value + dropped,
            _ => value,
        })
    }

    /// Changes something that may let the driver send earlier.
    pub(crate) fn configure<T>(&self, change: impl FnOnce(&mut Connection) -> T) -> T {
        let result = change(&mut self.lock().connection);
        self.wake.notify_one();
        result
    }
}

/// What the handles of one connection own together: when the last goes, so does the application's interest.
#[derive(Debug)]
pub(crate) struct StreamHandle(pub(crate) Arc<Shared>);

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.0.release();
    }
}
