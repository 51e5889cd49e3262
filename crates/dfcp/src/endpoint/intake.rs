//! What the endpoint's thread does with what arrives: each datagram finds its connection, and is decrypted and decoded in
//! the buffer which it was received into.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dfcp_proto::{DATAGRAM_BUFFER_BYTES, Handle, Routed};
use dfcp_time::Time;
use quinn_udp::Transmit;

use crate::connection::{Shared, Waiters};
use crate::endpoint::activity::Activity;
use crate::endpoint::agenda::Agenda;
use crate::endpoint::peers::Peers;
use crate::endpoint::{EndpointShared, Table};
use crate::limits;
use crate::socket::{Arrival, ReceiveBuffers, Socket};

/// Takes in what arrives.
#[derive(Debug)]
pub(super) struct Intake {
    buffers: ReceiveBuffers,
    activity: Activity,
    todo: Todo,
    /// Whoever waits for what comes is woken before anything is sent.
    wakes_first: bool,
    has_woken: bool,
}

/// What is to be done without the table's lock.
#[derive(Debug, Default)]
struct Todo {
    /// Answers which need no connection.
    replies: Vec<Reply>,
    opened: Vec<Arc<Shared>>,
    deliveries: Vec<Delivery>,
}

/// An answer without a connection, which goes back the way that its question came.
#[derive(Debug)]
struct Reply {
    destination: SocketAddr,
    src_ip: Option<IpAddr>,
    contents: Vec<u8>,
}

/// Datagrams for a connection.
#[derive(Debug)]
struct Delivery {
    connection: Arc<Shared>,
    remote: SocketAddr,
    arrival: Arrival,
}

impl Intake {
    /// `wakes_first`: whoever waits for what comes is woken as soon as it is taken in, and not when the connection is served.
    pub(super) fn new(socket: &Socket, wakes_first: bool) -> Self {
        let activity = Activity::new(socket.receive_queue_bytes());
        let buffers = ReceiveBuffers::new(socket);
        Self { buffers, activity, todo: Todo::default(), wakes_first, has_woken: false }
    }

    /// Whether somebody has been woken since this was asked last.
    pub(super) fn has_woken(&mut self) -> bool {
        std::mem::take(&mut self.has_woken)
    }

    /// Nothing is received for a while.
    pub(super) fn release(&mut self) {
        self.buffers.release();
    }

    /// Receives until nothing is there, which is `true`, or for a while; who gets something is on the agenda then.
    pub(super) fn receive(
        &mut self,
        shared: &EndpointShared,
        agenda: &mut Agenda,
        peers: &mut Peers,
    ) -> io::Result<bool> {
        for _ in 0..limits::RECEIVE_CALLS_PER_TURN {
            let count = match self.buffers.try_receive(&shared.socket) {
                Ok(count) => count,
                Err(error) if is_transient(&error) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            let now = shared.clock.now();
            {
                let mut table = shared.table();
                for arrival in self.buffers.arrivals(count) {
                    route(shared, &mut table, now, &arrival, self.buffers.bytes(&arrival), &mut self.todo);
                }
            }
            self.carry_out(shared, now, agenda, peers);
            if !self.buffers.were_all_filled(count) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn carry_out(&mut self, shared: &EndpointShared, now: Time, agenda: &mut Agenda, peers: &mut Peers) {
        self.todo.opened.drain(..).for_each(|connection| agenda.now(connection));
        for Reply { destination, src_ip, contents } in self.todo.replies.drain(..) {
            let transmit = Transmit { destination, ecn: None, contents: &contents, segment_size: None, src_ip };
            if let Err(error) = shared.socket.try_send(&transmit) {
                tracing::debug!(%error, remote = %destination, "an answer was not sent");
            }
        }
        let mut rest = self.todo.deliveries.as_slice();
        while let Some(first) = rest.first() {
            let (group, later) = rest.split_at(group_of(first, rest));
            let queue_bytes = self.activity.on_received(now, &mut peers.of(&first.connection).heard_in);
            let waiters = deliver(&mut self.buffers, queue_bytes, now, first, group);
            self.has_woken |= self.wakes_first && waiters.wake();
            agenda.now(Arc::clone(&first.connection));
            rest = later;
        }
        self.todo.deliveries.clear();
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// How many deliveries from the first on are for the same connection, without keeping others from it for too long.
fn group_of(first: &Delivery, deliveries: &[Delivery]) -> usize {
    let mut datagrams = 0;
    let same = deliveries.iter().take_while(|delivery| {
        let is_next = datagrams < limits::DATAGRAMS_PER_LOCK && Arc::ptr_eq(&delivery.connection, &first.connection);
        datagrams += delivery.arrival.count();
        is_next
    });
    same.count()
}

/// Lets the connection take datagrams in while they are in the processor's cache.
fn deliver<'a>(
    buffers: &mut ReceiveBuffers,
    queue_bytes: u64,
    at: Time,
    first: &'a Delivery,
    group: &[Delivery],
) -> Waiters<'a> {
    first.connection.take_in(at, queue_bytes, |intake| {
        for Delivery { remote, arrival, .. } in group {
            buffers
                .bytes_mut(arrival)
                .chunks_mut(arrival.stride)
                .for_each(|datagram| intake.datagram(*remote, datagram));
        }
    })
}

/// Splits a run of datagrams into those of one connection each.
fn route(shared: &EndpointShared, table: &mut Table, now: Time, arrival: &Arrival, bytes: &[u8], todo: &mut Todo) {
    let Arrival { remote, local_ip, stride, .. } = *arrival;
    let mut run: Option<(Handle, SocketAddr, usize)> = None;
    let mut reply = [0; DATAGRAM_BUFFER_BYTES];
    for (index, datagram) in bytes.chunks(stride).enumerate() {
        let offset = index * stride;
        let handle = match table.proto.handle_datagram(now, remote, datagram, &mut reply) {
            Routed::Connection(handle, remote) => Some((handle, remote)),
            Routed::Opened(handle, mut connection) => {
                if table.released {
                    // Nobody will accept it: its initiator, which may believe that it is connected, is told.
                    connection.abort();
                }
                // Over raw IP the endpoint alone knows the port.
                let remote = table.proto.remote(handle).unwrap_or(remote);
                // A listener on [::] has IPv4 peers, too.
                connection.set_overhead_bytes(shared.socket.carrier().overhead_bytes(remote));
                todo.opened.push(shared.enter(table, handle, *connection, remote, Some(local_ip)));
                None
            }
            Routed::Reply(length) => {
                let contents = reply.get(..length).unwrap_or_default().to_vec();
                todo.replies.push(Reply { destination: remote, src_ip: local_ip, contents });
                None
            }
            _ => None,
        };
        if run.map(|(handle, remote, _)| (handle, remote)) != handle {
            end_run(table, arrival, run, offset, todo);
            run = handle.map(|(handle, remote)| (handle, remote, offset));
        }
    }
    end_run(table, arrival, run, bytes.len(), todo);
}

/// Datagrams of one connection, from the run's start to `end`, are to be delivered to it.
fn end_run(table: &Table, arrival: &Arrival, run: Option<(Handle, SocketAddr, usize)>, end: usize, todo: &mut Todo) {
    let Some((handle, remote, start)) = run else { return };
    let Some(connection) = table.connections.get(handle.index()).and_then(Option::as_ref) else { return };
    todo.deliveries.push(Delivery { connection: Arc::clone(connection), remote, arrival: arrival.part(start..end) });
}
