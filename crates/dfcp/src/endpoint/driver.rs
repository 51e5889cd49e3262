//! Driver of an endpoint: receives, serves connections, sends, and waits, on its own thread or as a task.
//!
//! One turn receives, drains wake-ups and expired timers, serves the connections and sends. A driver that is a task
//! lets the application's tasks that it has woken run before it serves, so that their data leaves in the same batches.

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
    /// Old socket after a rebind, while datagrams may still arrive there.
    previous: Option<Previous>,
    /// Runtime registrations of new sockets, until a task's reactor takes them.
    #[cfg(unix)]
    arrivals: Vec<Arrivals>,
    activity: Activity,
    run_queue: RunQueue,
    peers: Peers,
    outbox: Outbox<Arc<Shared>>,
    /// Last reading of the clock.
    now: Time,
    /// Empty between two drains; kept for its allocation.
    wake_ups: Vec<Handle>,
    /// The socket may have received datagrams.
    receives: bool,
    /// The socket was full: nothing is sent until it signals room, or until this time.
    blocked_until: Option<Time>,
    /// Receiving failed: the driver does not receive before this time, so that a persistent error does not keep it
    /// busy.
    recv_backoff_until: Option<Time>,
    /// Set while everything is over except for datagrams that the socket had no room for. The driver stops at this time
    /// even if they are still unsent.
    ends_at: Option<Time>,
    /// Log of handshake attempts. `None` if there was no subscriber when the endpoint was bound.
    calls: Option<CallStory>,
}

/// However the driver ends, it first releases all tasks that wait for its connections.
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

    /// Runs on this thread until the application has dropped the endpoint and no connection is left.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(waker) = shared.wake_queue.poll_waker() else { return };
        while !self.turn() {
            let Some(Rest { interest, until, .. }) = self.rest() else { continue };
            let previous = self.previous.as_ref().map(|previous| previous.socket.as_ref());
            let waited = wait((&self.socket, previous), waker, interest, until.since(shared.clock.now()));
            let ready = waited.unwrap_or_else(|error| {
                // Interrupted by a signal, or the system is short of memory: check everything.
                if error.kind() != io::ErrorKind::Interrupted {
                    tracing::debug!(%error, "waiting failed");
                    thread::sleep(limits::RECEIVE_ERROR_PAUSE);
                }
                Ready { receive: true, send: false }
            });
            self.resume(ready);
        }
    }

    /// Like `run`, but as a task on the runtime's thread, which it shares with the application.
    #[cfg(unix)]
    pub(super) async fn run_as_task(mut self, mut reactor: TokioReactor) {
        loop {
            if self.take_in() {
                // Woken tasks may write: their data leaves together with datagrams that are due anyway.
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

    /// Runs one turn, of bounded length. Returns true if everything is over.
    fn turn(&mut self) -> bool {
        self.take_in();
        self.work()
    }

    /// Receives. Returns true if a task has been woken.
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

    /// Drains wake-ups and expired timers, serves connections and sends. Returns true if everything is over.
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

    /// Reads the clock. Callers share a reading where possible: for a kernel in virtual time, each one is a system
    /// call, and the most expensive part of a turn.
    fn look_at_clock(&mut self) -> Time {
        self.now = self.shared.clock.now();
        self.now
    }

    /// Returns true if everything is over and the last datagrams, such as an RST, have left. After
    /// [`limits::DRAIN_TIMEOUT`], unsent datagrams are given up.
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
                // The network of the old socket may be gone.
                Err(error) => {
                    tracing::debug!(%error, "receiving from the socket before failed");
                    self.previous = None;
                }
            }
        }
        match self.receiver.receive(&self.socket, &mut recipients) {
            Ok(is_drained) => self.receives = !(is_drained && is_previous_drained),
            // An error, such as an ICMP report of a router or a peer's system about one datagram, is no reason to stop:
            // the timeouts of the connections decide.
            Err(error) => {
                tracing::debug!(%error, "receiving failed");
                self.recv_backoff_until = Some(self.shared.clock.now() + limits::RECEIVE_ERROR_PAUSE);
            }
        }
    }

    /// Changes to another socket if the application has bound one. Connections notify their peers, and pending
    /// datagrams leave from the new socket.
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

    /// Makes woken connections ready in the run queue. Returns true if the endpoint itself has been woken.
    fn drain_wake_queue(&mut self) -> bool {
        let endpoint_woken = self.shared.wake_queue.drain(&mut self.wake_ups);
        if !self.wake_ups.is_empty() {
            let table = self.shared.table();
            for handle in self.wake_ups.drain(..) {
                // The connection may have ended since it was pushed.
                let connection = table.connections.get(handle.index()).and_then(Option::as_ref);
                connection.into_iter().for_each(|connection| self.run_queue.schedule_now(Arc::clone(connection)));
            }
        }
        endpoint_woken
    }

    /// Serves the ready connections in turns, and sends their datagrams. Returns true if one has ended. While the
    /// socket is full, connections are served without sending.
    fn serve(&mut self) -> bool {
        let (mut some_ended, mut batches) = (false, 0);
        for place in 0..self.run_queue.ready_count().max(limits::BATCHES_PER_TURN) {
            let Some(connection) = self.run_queue.next() else { break };
            // The clock has just been read for the first connection.
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

    /// Sends a batch, unless the socket is full.
    fn send(&mut self) {
        if let Sent::Blocked = self.outbox.send(&*self.socket) {
            let now = self.shared.clock.now();
            self.outbox.on_full(now);
            self.blocked_until = Some(now + limits::BLOCKED_MAX);
        }
    }

    /// Returns the events to wait for, or `None` if there is something to do now.
    fn rest(&mut self) -> Option<Rest> {
        let (is_blocked, is_backing_off) = (self.blocked_until.is_some(), self.recv_backoff_until.is_some());
        let is_busy = (self.run_queue.ready_count() > 0 && !is_blocked) || (self.receives && !is_backing_off);
        let is_idle = !is_busy && (is_blocked || !self.peers.use_idle_time(&mut self.run_queue));
        if !is_idle || !self.shared.wake_queue.may_sleep() {
            // Trying again whether the socket has room costs only one call, as the driver stays awake.
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

    /// Called after a wait, with the events that have ended it.
    fn resume(&mut self, ready: Ready) {
        self.shared.wake_queue.awake();
        self.receives |= ready.receive;
        // A task gets only one of two simultaneous events, so after either one the send is tried again.
        self.blocked_until = self.blocked_until.filter(|_| !ready.send && !ready.receive);
    }
}
