//! Driver of an endpoint: it receives, serves connections, sends, and waits, on a thread of its own or as a task.
//!
//! One turn takes in what has arrived, drains wake-ups and expired timers, serves the connections and sends. As a task it lets
//! the application's tasks that it has woken run before it serves, so that their answers leave with what is due anyway.

use std::sync::Arc;
use std::{io, thread};

use dfcp_proto::Handle;
use dfcp_time::Time;

use crate::activity::Activity;
use crate::connection::{Next, Shared};
use crate::endpoint::EndpointShared;
use crate::endpoint::call_story::CallStory;
use crate::endpoint::datagram_receiver::{DatagramReceiver, Recipients};
use crate::endpoint::peers::Peers;
use crate::endpoint::rebind::Previous;
use crate::endpoint::run_queue::RunQueue;
#[cfg(unix)]
use crate::endpoint::tokio_reactor::{Arrivals, TokioReactor};
use crate::limits;
use crate::outbox::{BatchSocket, Outbox, Sent};
use crate::socket::Socket;
use crate::waiting::{Interest, Ready, Rest, wait};

/// Drives all connections of an endpoint.
#[derive(Debug)]
pub(super) struct Driver {
    shared: Arc<EndpointShared>,
    socket: Arc<Socket>,
    receiver: DatagramReceiver,
    /// While something may still come to the socket before.
    previous: Option<Previous>,
    /// News of the runtime about new sockets, until a task's reactor has them.
    #[cfg(unix)]
    arrivals: Vec<Arrivals>,
    activity: Activity,
    run_queue: RunQueue,
    peers: Peers,
    outbox: Outbox<Arc<Shared>>,
    /// Time of the last reading of the clock.
    now: Time,
    /// Empty between two drains, and kept for its capacity.
    wake_ups: Vec<Handle>,
    /// There may be something to receive.
    receives: bool,
    /// The socket had no room: nothing is sent before it has, or until then.
    blocked_until: Option<Time>,
    /// Receiving failed. The driver does not receive before this time, so that a persistent error does not keep it busy.
    recv_backoff_until: Option<Time>,
    /// All is over, except for datagrams which the socket had no room for. The driver stops at this time even if they are
    /// still unsent.
    ends_at: Option<Time>,
    /// Log of calls; `None` without a subscriber when the endpoint was bound.
    calls: Option<CallStory>,
}

/// After any end of it, no task may still wait for it.
impl Drop for Driver {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        table.backlog = None;
        let left: Vec<_> = std::mem::take(&mut table.connections).into_iter().flatten().collect();
        left.iter().for_each(|connection| table.proto.forget(connection.handle));
        drop(table);
        left.iter().for_each(|connection| connection.end());
        self.shared.idle.notify_waiters();
    }
}

impl Driver {
    pub(super) fn new(shared: Arc<EndpointShared>) -> Self {
        let socket = shared.socket();
        Self {
            receiver: DatagramReceiver::new(&socket, shared.wake_queue.is_of_task()),
            activity: Activity::new(socket.receive_queue_bytes()),
            socket,
            previous: None,
            #[cfg(unix)]
            arrivals: Vec::new(),
            run_queue: RunQueue::default(),
            peers: Peers::default(),
            outbox: Outbox::new(),
            now: Time::ZERO,
            wake_ups: Vec::new(),
            receives: true,
            blocked_until: None,
            recv_backoff_until: None,
            ends_at: None,
            calls: CallStory::begin(),
            shared,
        }
    }

    /// Runs on this thread until the application has let go of the endpoint and no connection is left.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(waker) = shared.wake_queue.poll_waker() else { return };
        while !self.turn() {
            let Some(Rest { interest, until, .. }) = self.rest() else { continue };
            let previous = self.previous.as_ref().map(|previous| previous.socket.as_ref());
            let waited = wait((&self.socket, previous), waker, interest, until.since(shared.clock.now()));
            let ready = waited.unwrap_or_else(|error| {
                // A signal, or the system is short of memory: everything is checked.
                if error.kind() != io::ErrorKind::Interrupted {
                    tracing::debug!(%error, "waiting failed");
                    thread::sleep(limits::RECEIVE_ERROR_PAUSE);
                }
                Ready { receive: true, send: false }
            });
            self.resume(ready);
        }
    }

    /// The same as a task, on the thread of the runtime's which it shares with the application.
    #[cfg(unix)]
    pub(super) async fn run_as_task(mut self, mut reactor: TokioReactor) {
        loop {
            if self.take_in() {
                // Woken tasks may answer: that is sent together with what is due anyway, and not after it.
                tokio::task::yield_now().await;
            }
            if self.work() {
                return;
            }
            let Some(rest) = self.rest() else {
                tokio::task::yield_now().await;
                continue;
            };
            self.arrivals.drain(..).for_each(|arrivals| reactor.go_over(arrivals));
            if self.previous.is_none() {
                reactor.forget_previous();
            }
            let ready = reactor.wait(self.shared.wake_queue.as_ref(), rest).await;
            self.resume(ready);
        }
    }

    /// Does what there is to do, or a bounded part of it; whether all is over.
    fn turn(&mut self) -> bool {
        self.take_in();
        self.work()
    }

    /// Receives; whether somebody has been woken.
    fn take_in(&mut self) -> bool {
        if self.blocked_until.is_some() || self.recv_backoff_until.is_some() || self.previous.is_some() {
            let now = self.shared.clock.now();
            self.blocked_until = self.blocked_until.filter(|&until| now < until);
            self.recv_backoff_until = self.recv_backoff_until.filter(|&until| now < until);
            self.previous.take_if(|previous| now >= previous.until);
        }
        self.receive();
        let previous_has_woken = self.previous.as_mut().is_some_and(|previous| previous.receiver.has_woken());
        self.receiver.has_woken() || previous_has_woken
    }

    /// Drains wake-ups and expired timers, serves connections and sends. Returns whether all is over.
    fn work(&mut self) -> bool {
        let now = self.look_at_clock();
        if let Some(calls) = &mut self.calls {
            calls.go_on(now, self.shared.table().proto.stats());
        }
        let endpoint_woken = self.drain_wake_queue();
        if endpoint_woken {
            self.go_over();
        }
        self.run_queue.advance(now);
        self.outbox.advance(now);
        let some_ended = self.serve();
        (endpoint_woken || some_ended || self.ends_at.is_some()) && self.is_over(now)
    }

    /// Reading it is a call of the system where a kernel runs in virtual time, and there the dearest part of a turn.
    fn look_at_clock(&mut self) -> Time {
        self.now = self.shared.clock.now();
        self.now
    }

    /// True if all is over and the last datagrams, such as an RST, have left. After [`limits::DRAIN_TIMEOUT`] it no longer waits for them.
    fn is_over(&mut self, now: Time) -> bool {
        let ends_at = *self.ends_at.get_or_insert(now + limits::DRAIN_TIMEOUT);
        let is_over = self.shared.is_over();
        if !is_over {
            self.ends_at = None;
        }
        is_over && (self.outbox.is_empty() || now >= ends_at)
    }

    fn receive(&mut self) {
        if self.recv_backoff_until.is_some() || !(self.receives || self.run_queue.ready_count() > 0) {
            return;
        }
        let (run_queue, peers) = (&mut self.run_queue, &mut self.peers);
        let mut recipients = Recipients { shared: &self.shared, activity: &mut self.activity, run_queue, peers };
        let mut is_previous_drained = true;
        if let Some(Previous { socket, receiver, .. }) = &mut self.previous {
            match receiver.receive(socket, &mut recipients) {
                Ok(is_drained) => is_previous_drained = is_drained,
                // Its network may be gone.
                Err(error) => {
                    tracing::debug!(%error, "receiving from the socket before failed");
                    self.previous = None;
                }
            }
        }
        match self.receiver.receive(&self.socket, &mut recipients) {
            Ok(is_drained) => self.receives = !(is_drained && is_previous_drained),
            // An ICMP report of a router or a peer's system about one datagram is no reason to stop, nor is anything else: the connections'
            // own timeouts decide.
            Err(error) => {
                tracing::debug!(%error, "receiving failed");
                self.recv_backoff_until = Some(self.shared.clock.now() + limits::RECEIVE_ERROR_PAUSE);
            }
        }
    }

    /// Goes over to another socket if the application has bound one. Connections tell their peers of it, and what waits to be sent leaves from
    /// there.
    fn go_over(&mut self) {
        let mut bound = self.shared.bound();
        if Arc::ptr_eq(&bound.socket, &self.socket) {
            return;
        }
        let socket = std::mem::replace(&mut self.socket, Arc::clone(&bound.socket));
        #[cfg(unix)]
        self.arrivals.extend(bound.arrivals.take());
        drop(bound);
        let receiver = DatagramReceiver::new(&self.socket, self.shared.wake_queue.is_of_task());
        let receiver = std::mem::replace(&mut self.receiver, receiver).retire();
        let now = self.look_at_clock();
        self.previous = Some(Previous { socket, receiver, until: now + limits::REBIND_OVERLAP });
        self.activity.set_queue_bytes(self.socket.receive_queue_bytes());
        (self.receives, self.blocked_until, self.recv_backoff_until) = (true, None, None);
        let (sources, local) = (self.socket.sources(), self.socket.local_addr());
        self.outbox.on_rebound(|ip| sources.has(ip));
        let connections: Vec<_> = self.shared.table().connections.iter().flatten().cloned().collect();
        for connection in connections {
            connection.on_rebound(now, local, |ip| sources.has(ip));
            self.run_queue.schedule_now(connection);
        }
        tracing::debug!(%local, "went over to another socket");
    }

    /// Makes woken connections ready in the run queue. Returns whether the endpoint itself has been woken.
    fn drain_wake_queue(&mut self) -> bool {
        let endpoint_woken = self.shared.wake_queue.drain(&mut self.wake_ups);
        if !self.wake_ups.is_empty() {
            let table = self.shared.table();
            for handle in self.wake_ups.drain(..) {
                // A connection may have ended since it was pushed.
                let connection = table.connections.get(handle.index()).and_then(Option::as_ref);
                connection.into_iter().for_each(|connection| self.run_queue.schedule_now(Arc::clone(connection)));
            }
        }
        endpoint_woken
    }

    /// Serves each connection which is ready, in turns, and sends what comes of it; whether one has ended. While the socket
    /// has no room they are served, too, but do not send.
    fn serve(&mut self) -> bool {
        let (mut some_ended, mut batches) = (false, 0);
        for place in 0..self.run_queue.ready_count().max(limits::BATCHES_PER_TURN) {
            let Some(connection) = self.run_queue.next() else { break };
            // For the first it has just been read.
            let now = if place == 0 { self.now } else { self.look_at_clock() };
            let outbox = if self.blocked_until.is_none() { Some(&mut self.outbox) } else { None };
            let scheduler = &mut self.peers.of(&connection).scheduler;
            let on_established = || self.shared.established(&connection);
            match connection.serve(self.socket.segments_max(), now, outbox, scheduler, on_established) {
                Next::Again => self.run_queue.schedule_now(Arc::clone(&connection)),
                Next::Sleep(until) => self.run_queue.schedule_at(Arc::clone(&connection), until),
                Next::Send => {
                    self.run_queue.schedule_now(Arc::clone(&connection));
                    self.send();
                    batches += 1;
                }
                Next::Done => {
                    self.shared.forget(&connection);
                    some_ended = true;
                }
            }
            self.peers.pass_on(&connection, &mut self.run_queue);
            if batches == limits::BATCHES_PER_TURN {
                break;
            }
        }
        while self.blocked_until.is_none() && !self.outbox.is_empty() {
            self.send();
        }
        some_ended
    }

    /// Sends a batch, unless the socket has no room.
    fn send(&mut self) {
        if let Sent::Blocked = self.outbox.send(&*self.socket) {
            let now = self.shared.clock.now();
            self.outbox.on_full(now);
            self.blocked_until = Some(now + limits::BLOCKED_MAX);
        }
    }

    /// Events to wait for if there is nothing to do now.
    fn rest(&mut self) -> Option<Rest> {
        let (is_blocked, is_backing_off) = (self.blocked_until.is_some(), self.recv_backoff_until.is_some());
        let is_busy = (self.run_queue.ready_count() > 0 && !is_blocked) || (self.receives && !is_backing_off);
        let is_idle = !is_busy && (is_blocked || !self.peers.use_idle_time(&mut self.run_queue));
        if !is_idle || !self.shared.wake_queue.may_sleep() {
            // Asking again for room costs one call; nobody waits for it.
            self.blocked_until = None;
            return None;
        }
        self.receiver.release();
        let mut previous_until = None;
        if let Some(Previous { receiver, until, .. }) = &mut self.previous {
            receiver.release();
            previous_until = Some(*until);
        }
        let now = self.now;
        let until = [self.run_queue.next_due(), self.blocked_until, self.recv_backoff_until, previous_until]
            .into_iter()
            .flatten()
            .min();
        let until = until.unwrap_or(Time::MAX).clamp(now, now + limits::WAIT_MAX);
        Some(Rest { interest: Interest { receive: !is_backing_off, send: is_blocked }, now, until })
    }

    /// Something has ended the waiting.
    fn resume(&mut self, ready: Ready) {
        self.shared.wake_queue.awake();
        self.receives |= ready.receive;
        // A task does not learn of both at once.
        self.blocked_until = self.blocked_until.filter(|_| !ready.send && !ready.receive);
    }
}
