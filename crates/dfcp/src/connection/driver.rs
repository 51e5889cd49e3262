//! The task of one connection: it decodes what arrived, encodes what is due, and keeps time.

use std::pin::pin;
use std::sync::Arc;

use dfcp_proto::{Connection, Read, State};
use dfcp_time::Time;
use tokio::time::{Instant, sleep_until};

use crate::connection::batch::{Batch, Sent};
use crate::connection::inbox::Received;
use crate::connection::shared::{Inner, Shared};
use crate::endpoint::EndpointShared;
use crate::limits;

/// What to do after a step.
#[derive(Debug)]
enum Next {
    /// There may be more to do at once.
    Again,
    /// Nothing is to be done before this time or the next call.
    Sleep(Time),
    /// Nothing can be sent before the socket has room.
    Blocked,
    /// The connection is over.
    Done,
}

/// Drives one connection until it is over.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    endpoint: Arc<EndpointShared>,
    batch: Batch,
    received: Vec<Received>,
    blocked: bool,
    /// Whether the peer opened it: then it waits to be accepted once the handshake is done.
    accepted: bool,
}

/// Also when the runtime ends before the connection does, nobody must wait for it any more.
impl Drop for Driver {
    fn drop(&mut self) {
        self.endpoint.forget(self.shared.handle);
        let wakers = self.shared.lock().end();
        wakers.wake();
    }
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, endpoint: Arc<EndpointShared>, accepted: bool) -> Self {
        Self { shared, endpoint, batch: Batch::new(), received: Vec::new(), blocked: false, accepted }
    }

    pub(crate) async fn run(mut self) {
        let mut sleep = pin!(sleep_until(Instant::now()));
        loop {
            match self.step() {
                Next::Done => return,
                Next::Again => tokio::task::yield_now().await,
                Next::Sleep(until) => {
                    sleep.as_mut().reset(self.shared.clock.instant(until));
                    tokio::select! {
                        () = self.shared.wake.notified() => {}
                        () = &mut sleep => {}
                    }
                }
                Next::Blocked => {
                    sleep.as_mut().reset(Instant::now() + limits::BLOCKED_MAX);
                    tokio::select! {
                        () = self.shared.wake.notified() => {}
                        // An error shows again, and is dealt with, when sending.
                        _ = self.endpoint.socket.writable() => self.blocked = false,
                        () = &mut sleep => self.blocked = false,
                    }
                }
            }
        }
    }

    /// One bounded piece of work.
    fn step(&mut self) -> Next {
        let segments_max = self.endpoint.socket.segments_max();
        let mut inner = self.shared.lock();
        // With the lock: what arrives meanwhile must not overtake what waited.
        self.shared.inbox().take(&mut self.received);
        let busy = !self.received.is_empty();
        inner.connection.set_receive_queue_bytes(self.shared.receive_queue_bytes());
        for mut received in self.received.drain(..) {
            let (at, remote) = (inner.tick(received.at), received.remote);
            received.datagrams().for_each(|datagram| inner.connection.handle_datagram(at, remote, datagram));
        }
        let now = inner.tick(self.shared.clock.now());
        inner.connection.handle_timeout(now);
        linger(&mut inner, now);
        self.batch.fill(segments_max, |out| inner.connection.poll_transmit(now, out));
        let wakers = inner.drain_events();
        let newly_connected = std::mem::take(&mut inner.newly_connected);
        let next = self.after(&inner, now, busy);
        inner.sleeps_until = if let Next::Sleep(until) = next { until } else { Time::ZERO };
        drop(inner);
        if newly_connected {
            self.endpoint.established(&self.shared, self.accepted);
        }
        wakers.wake();
        if !self.batch.is_empty() && !self.blocked { self.send() } else { next }
    }

    /// What follows if the batch is empty or cannot be sent.
    fn after(&self, inner: &Inner, now: Time, busy: bool) -> Next {
        if busy {
            return Next::Again;
        }
        if self.blocked {
            return Next::Blocked;
        }
        let timeout = inner.connection.next_timeout(now);
        if timeout.is_none() && inner.connection.state() == State::Closed {
            return Next::Done;
        }
        let timeout = timeout.unwrap_or(Time::MAX).min(inner.linger_until.unwrap_or(Time::MAX));
        if timeout.since(now) < limits::YIELD_BELOW { Next::Again } else { Next::Sleep(timeout) }
    }

    fn send(&mut self) -> Next {
        let path = self.shared.path;
        match self.batch.send(&self.endpoint.socket, path.src_ip) {
            Sent::Blocked => {
                self.blocked = true;
                Next::Blocked
            }
            Sent::All(failure) => {
                if let Some(error) = &failure {
                    tracing::debug!(%error, called = %path.remote, "the system refused to send");
                }
                self.shared.lock().send_error = failure;
                Next::Again
            }
        }
    }
}

/// Nobody reads what still comes after the last handle is gone: a peer which goes on sending, or never ends, is told.
fn linger(inner: &mut Inner, now: Time) {
    let Some(until) = inner.linger_until else { return };
    let done = matches!(inner.connection.state(), State::TimeWait | State::Closed);
    if done || now >= until || has_unread(&mut inner.connection, now) {
        inner.linger_until = None;
        if !done {
            inner.connection.abort();
        }
    }
}

fn has_unread(connection: &mut Connection, now: Time) -> bool {
    matches!(connection.read(now, &mut [0; 1]), Ok(Read::Bytes(_)))
}
