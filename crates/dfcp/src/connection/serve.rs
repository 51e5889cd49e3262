//! Service of a connection by the endpoint's driver: receiving, sending, and timers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, MutexGuard};

use dfcp_proto::{Connection, Read, State, StreamId};
use dfcp_time::Time;

use crate::connection::shared::{Inner, Local, Shared};
use crate::limits;
use crate::outbox::{Departure, Filled, Outbox, Sender};
use crate::peer_scheduler::{PeerScheduler, SchedulerState};

/// Next step for a connection after its service.
#[derive(Debug)]
pub(crate) enum Next {
    /// Serve again soon: there may be more to do.
    Again,
    /// Send the full outbox, then serve again.
    Send,
    /// Sleep until this time or a wake-up.
    Sleep(Time),
    /// The connection is over.
    Done,
}

/// A locked connection that has received datagrams, and may have tasks to wake.
pub(crate) struct Waiters<'a> {
    connection: &'a Shared,
    inner: MutexGuard<'a, Inner>,
}

impl Waiters<'_> {
    /// Releases the lock and wakes the waiting tasks. Returns true if there was one.
    pub(crate) fn wake(mut self) -> bool {
        let wakers = self.inner.drain_events();
        drop(self.inner);
        self.connection.wake(wakers)
    }
}

impl Shared {
    /// Calls `take_in` to process datagrams that arrived at `at`; its second argument is that time on the connection's
    /// clock. `queue_bytes` is called only if a datagram was authentic: it counts the peer as active, and returns the
    /// peer's share of the system's receive buffer, bytes. A forged datagram with the connection's id must not count.
    /// Waiting tasks that the caller does not wake now are woken at the connection's next service, once for all
    /// datagrams.
    pub(crate) fn take_in(
        &self,
        at: Time,
        queue_bytes: impl FnOnce() -> u64,
        take_in: impl FnOnce(&mut Connection, Time),
    ) -> Waiters<'_> {
        let mut inner = self.lock();
        let now = inner.tick(at);
        take_in(&mut inner.connection, now);
        if inner.connection.last_heard() == now {
            inner.connection.set_receive_queue_bytes(queue_bytes());
        }
        inner.sleeps_until = Time::ZERO;
        // Log also here, not only in `serve`: an application that finds everything done may end the process before the
        // next service.
        inner.tell_story(now);
        Waiters { connection: self, inner }
    }

    /// Handles expired timers, and fills `outbox` with batches of at most `segments_max` datagrams. `outbox` is `None`
    /// while the socket is full. `scheduler` is the scheduler of the connection's peer. `on_established` is called
    /// once, when the handshake is done.
    pub(crate) fn serve(
        self: &Arc<Self>,
        segments_max: usize,
        now: Time,
        outbox: Option<&mut Outbox<Arc<Self>>>,
        scheduler: &mut PeerScheduler<Arc<Self>>,
        on_established: impl FnOnce(),
    ) -> Next {
        let mut inner = self.lock();
        let now = inner.tick(now);
        inner.connection.handle_timeout(now);
        linger(&mut inner, now);
        let state = scheduler.on_serving(now, inner.scheduler_state, inner.connection.sending(), || Arc::clone(self));
        inner.set_scheduler_state(state, scheduler.sharers(now, state));
        let departure = inner.local.departure;
        let filled = outbox.map_or_else(Filled::default, |outbox| {
            let filled = outbox.fill(segments_max, departure, |out| inner.connection.poll_transmit(now, out));
            if filled.something {
                outbox.record_sender(Arc::clone(self));
            }
            filled
        });
        if filled.something {
            inner.send_error = None;
        }
        let wakers = inner.drain_events();
        inner.tell_story(now);
        inner.publish_path(now);
        let newly_connected = std::mem::take(&mut inner.newly_connected);
        let next = if filled.is_full { Next::Send } else { after(&inner, now) };
        inner.sleeps_until = if let Next::Sleep(until) = next { until } else { Time::ZERO };
        if let Next::Done = next {
            inner.scheduler_state = scheduler.leave(inner.scheduler_state);
        }
        drop(inner);
        if newly_connected {
            on_established();
        }
        self.wake(wakers);
        next
    }

    /// Offers a free place to a waiting connection. Returns true if its turn begins.
    pub(crate) fn begin_turn(&self, scheduler: &mut PeerScheduler<Arc<Self>>) -> bool {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        let state = scheduler.begin(now, inner.scheduler_state, inner.connection.sending());
        inner.set_scheduler_state(state, scheduler.sharers(now, state));
        let wakers = inner.drain_events();
        drop(inner);
        self.wake(wakers);
        matches!(state, SchedulerState::Turn { .. })
    }

    /// Called after the endpoint was rebound to a socket at `address`. The source address of datagrams stays if the new
    /// socket has it, too (`keeps`).
    pub(crate) fn on_rebound(&self, at: Time, address: SocketAddr, keeps: impl Fn(IpAddr) -> bool) {
        let mut inner = self.lock();
        let now = inner.tick(at);
        let is_other_host = inner.local.address.ip().to_canonical() != address.ip().to_canonical();
        let Local { departure, .. } = inner.local;
        inner.local =
            Local { address, departure: Departure { src_ip: departure.src_ip.filter(|&ip| keeps(ip)), ..departure } };
        inner.connection.on_own_move(now, is_other_host);
        // The refusal came from the old socket, and says nothing about the new one.
        inner.send_error = None;
        inner.sleeps_until = Time::ZERO;
    }

    /// Called when the endpoint forgets the connection: ends all waits.
    pub(crate) fn end(&self) {
        let wakers = self.lock().end();
        self.wake(wakers);
    }
}

impl Sender for Arc<Shared> {
    fn refused(&self, error: &io::Error) {
        let again = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        self.lock().send_error = Some(again);
    }
}

impl Inner {
    /// Enters a scheduler state, which determines the share of the peer's queue and the application's write allowance.
    fn set_scheduler_state(&mut self, state: SchedulerState, sharers: usize) {
        self.connection.set_queue_sharers(sharers);
        if let Some(allowance) = state.allowance(self.scheduler_state) {
            self.connection.allow_writing(allowance);
        }
        self.scheduler_state = state;
    }
}

/// Returns the next step of a connection that has nothing to send.
fn after(inner: &Inner, now: Time) -> Next {
    let timeout = inner.connection.next_timeout(now).map(|(at, _)| at);
    if timeout.is_none() && inner.connection.state() == State::Closed {
        return Next::Done;
    }
    let timeout = timeout.unwrap_or(Time::MAX).min(inner.linger_until.unwrap_or(Time::MAX));
    let timeout = inner.path_due_at().map_or(timeout, |due| timeout.min(due));
    let timeout = inner.scheduler_state.ends_at().filter(|&end| end > now).map_or(timeout, |end| timeout.min(end));
    if timeout <= now { Next::Again } else { Next::Sleep(timeout.max(now + limits::SLOT)) }
}

/// Ends a connection without handles. Unread data of the peer cannot be read any more, so a peer that keeps sending, or
/// never ends, gets an abort.
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

/// Returns true if the peer has sent unread data on the first stream. Reads a byte of it.
pub(super) fn has_unread(connection: &mut Connection, now: Time) -> bool {
    matches!(connection.streams().read(now, StreamId::FIRST, &mut [0; 1]), Ok(Read::Bytes(_)))
}
