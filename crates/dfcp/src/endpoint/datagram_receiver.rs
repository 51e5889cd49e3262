//! Receives datagrams and delivers each to its connection. A datagram is decrypted and decoded in the buffer into which
//! it was received.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dfcp_proto::{DATAGRAM_BUFFER_BYTES, Handle, Origin, Routed};
use dfcp_time::Time;
use quinn_udp::Transmit;

use crate::activity::Activity;
use crate::connection::Shared;
use crate::endpoint::peers::Peers;
use crate::endpoint::run_queue::RunQueue;
use crate::endpoint::{EndpointShared, Entrance, Table};
use crate::limits;
use crate::outbox::BatchSocket;
use crate::socket::{Arrival, ReceiveBuffers, Socket};

/// Parts of an endpoint that the receiver uses.
pub(super) struct Recipients<'a> {
    pub(super) shared: &'a EndpointShared,
    pub(super) activity: &'a mut Activity,
    pub(super) run_queue: &'a mut RunQueue,
    pub(super) peers: &'a mut Peers,
}

/// Receives from one socket, for an endpoint's driver.
#[derive(Debug)]
pub(super) struct DatagramReceiver {
    buffers: ReceiveBuffers,
    todo: Todo,
    /// Wake waiting tasks before anything is sent, so that data written by them leaves in the same batch.
    wakes_first: bool,
    has_woken: bool,
    /// The endpoint was rebound to another socket: connections opened through this one send from the new one.
    is_retired: bool,
}

/// Work that is found under the table's lock and done after its release.
#[derive(Debug, Default)]
struct Todo {
    replies: Vec<Reply>,
    opened: Vec<Arc<Shared>>,
    deliveries: Vec<Delivery>,
}

/// A reply that needs no connection. It is sent to the source address of the request.
#[derive(Debug)]
struct Reply {
    destination: SocketAddr,
    src_ip: Option<IpAddr>,
    contents: Vec<u8>,
}

/// Datagrams for one connection.
#[derive(Debug)]
struct Delivery {
    connection: Arc<Shared>,
    remote: SocketAddr,
    arrival: Arrival,
}

impl DatagramReceiver {
    /// With `wakes_first`, waiting tasks are woken as soon as datagrams have been processed, not at the connection's
    /// next service.
    pub(super) fn new(socket: &Socket, wakes_first: bool) -> Self {
        Self {
            buffers: ReceiveBuffers::new(socket),
            todo: Todo::default(),
            wakes_first,
            has_woken: false,
            is_retired: false,
        }
    }

    /// Marks this socket as replaced by a rebind.
    pub(super) fn retire(mut self) -> Self {
        self.is_retired = true;
        self
    }

    /// Returns true if a task has been woken since the last call.
    pub(super) fn has_woken(&mut self) -> bool {
        std::mem::take(&mut self.has_woken)
    }

    /// Returns the buffers to the pool, as the driver is about to wait.
    pub(super) fn release(&mut self) {
        self.buffers.release();
    }

    /// Receives until the socket is empty (returns true), or for [`limits::RECEIVE_CALLS_PER_TURN`] calls (returns
    /// false). Afterwards, connections that got datagrams are ready in the run queue.
    ///
    /// # Errors
    /// Any error of the socket except refused, reset and interrupted, which are skipped.
    pub(super) fn receive(&mut self, socket: &Socket, recipients: &mut Recipients<'_>) -> io::Result<bool> {
        let shared = recipients.shared;
        for _ in 0..limits::RECEIVE_CALLS_PER_TURN {
            let count = match self.buffers.try_receive(socket) {
                Ok(count) => count,
                Err(error) if is_transient(&error) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            let now = shared.clock.now();
            {
                let mut table = shared.table();
                for arrival in self.buffers.arrivals(count) {
                    let local_ip = arrival.local_ip.filter(|_| !self.is_retired);
                    let place = (local_ip, now);
                    route(shared, &mut table, place, &arrival, self.buffers.bytes(&arrival), &mut self.todo);
                }
            }
            self.carry_out(socket, now, recipients);
            if !self.buffers.were_all_filled(count) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn carry_out(&mut self, socket: &Socket, now: Time, recipients: &mut Recipients<'_>) {
        let Recipients { shared, activity, run_queue, peers } = recipients;
        self.todo.opened.drain(..).for_each(|connection| run_queue.schedule_now(connection));
        for Reply { destination, src_ip, contents } in self.todo.replies.drain(..) {
            let transmit = Transmit { destination, ecn: None, contents: &contents, segment_size: None, src_ip };
            if let Err(error) = socket.try_send(&transmit, shared.accepted_dscp.modern) {
                tracing::debug!(%error, remote = %destination, "an answer was not sent");
            }
        }
        let mut rest = self.todo.deliveries.as_slice();
        while let Some(first) = rest.first() {
            let (group, later) = rest.split_at(group_of(first, rest));
            let peer = peers.of(&first.connection);
            let queue_bytes = || activity.on_received(now, &mut peer.heard_in);
            // Process them while they are in the processor's cache.
            let waiters = first.connection.take_in(now, queue_bytes, |connection, now| {
                for Delivery { remote, arrival, .. } in group {
                    let origin = Origin { remote: *remote, ecn: arrival.ecn };
                    for datagram in self.buffers.bytes_mut(arrival).chunks_mut(arrival.stride) {
                        connection.handle_datagram(now, origin, datagram);
                    }
                }
            });
            self.has_woken |= self.wakes_first && waiters.wake();
            run_queue.schedule_now(Arc::clone(&first.connection));
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

/// Returns the number of leading deliveries for the same connection, limited so that others do not wait too long for
/// its lock.
fn group_of(first: &Delivery, deliveries: &[Delivery]) -> usize {
    let mut datagrams = 0;
    let same = deliveries.iter().take_while(|delivery| {
        let is_next = datagrams < limits::DATAGRAMS_PER_LOCK && Arc::ptr_eq(&delivery.connection, &first.connection);
        datagrams += delivery.arrival.count();
        is_next
    });
    same.count()
}

/// Splits a run of datagrams into runs of one connection each. New connections send from `own_ip`.
fn route(
    shared: &EndpointShared,
    table: &mut Table,
    (own_ip, now): (Option<IpAddr>, Time),
    arrival: &Arrival,
    bytes: &[u8],
    todo: &mut Todo,
) {
    let Arrival { remote, local_ip, stride, .. } = *arrival;
    let mut run: Option<(Handle, SocketAddr, usize)> = None;
    let mut reply = [0; DATAGRAM_BUFFER_BYTES];
    for (index, datagram) in bytes.chunks(stride).enumerate() {
        let offset = index * stride;
        let handle = match table.proto.handle_datagram(now, remote, datagram, &mut reply) {
            Routed::Connection(handle, remote) => Some((handle, remote)),
            Routed::Opened(handle, mut connection) => {
                if table.released {
                    // No listener is left: abort, so that the initiator does not take the connection for established.
                    connection.abort();
                }
                // Over raw IP only DFCP's header has the port.
                let remote = table.proto.remote(handle).unwrap_or(remote);
                // A listener on [::] also has IPv4 peers, with a shorter header.
                connection.set_overhead_bytes(shared.socket().carrier().overhead_bytes(remote));
                todo.opened.push(shared.enter(
                    table,
                    handle,
                    connection,
                    remote,
                    Entrance::Accepted { local_ip: own_ip },
                ));
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

/// Queues the delivery of a run to its connection: the datagrams from the run's start to `end`.
fn end_run(table: &Table, arrival: &Arrival, run: Option<(Handle, SocketAddr, usize)>, end: usize, todo: &mut Todo) {
    let Some((handle, remote, start)) = run else { return };
    let Some(connection) = table.connections.get(handle.index()).and_then(Option::as_ref) else { return };
    todo.deliveries.push(Delivery { connection: Arc::clone(connection), remote, arrival: arrival.part(start..end) });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dfcp_proto::{Accept, Config, Connection, Endpoint, PeerKey, StreamId};
    use dfcp_wire::Unverified;
    use dfcp_wire::segment::{Address, Reset, ResetReason, Segment};

    use super::*;
    use crate::carrier::Carrier;
    use crate::clock::Clock;
    use crate::connection::{Local, Path};
    use crate::outbox::Departure;
    use crate::wake_queue::WakeQueue;

    const CLIENT: ([u8; 4], u16) = ([192, 0, 2, 1], 40_000);
    const SERVER: ([u8; 4], u16) = ([192, 0, 2, 2], 9_000);

    /// Returns the connection's next datagram, at the earliest time permitted by its pacer.
    fn sent(connection: &mut Connection, now: Time) -> Vec<u8> {
        let mut out = [0; DATAGRAM_BUFFER_BYTES];
        let transmit = (0..100).find_map(|ms| connection.poll_transmit(now + Duration::from_millis(ms), &mut out));
        out[..transmit.unwrap().length].to_vec()
    }

    /// Returns a client and the server's end of the same connection.
    fn sealed_pair(now: Time) -> (Connection, Handle, Connection) {
        let config = || Config::sealed(PeerKey::Any);
        let mut server = Endpoint::new(SERVER.1, Some(Accept::from(config())), [2; 32]);
        let (_, mut client) = Endpoint::new(CLIENT.1, None, [1; 32]).connect(now, SERVER.into(), config()).unwrap();
        let mut reply = [0; DATAGRAM_BUFFER_BYTES];
        let syn = sent(&mut client, now);
        let answer = server.handle_datagram(now, CLIENT.into(), &syn, &mut reply);
        let Routed::Reply(length) = answer else { panic!("{answer:?}") };
        client.handle_datagram(now, SocketAddr::from(SERVER), &mut reply[..length]);
        let third = sent(&mut client, now);
        let opened = server.handle_datagram(now, CLIENT.into(), &third, &mut reply);
        let Routed::Opened(handle, connection) = opened else { panic!("{opened:?}") };
        (client, handle, connection)
    }

    #[test]
    fn a_forged_datagram_with_a_connection_s_id_is_not_heard_from_its_peer() {
        let mut now = Time::from_s(1);
        let (mut client, handle, connection) = sealed_pair(now);
        let path = Path { carrier: Carrier::Udp, remote: CLIENT.into() };
        let local = Local { address: SERVER.into(), departure: Departure::default() };
        let queue = Arc::new(WakeQueue::of_task());
        let server = Shared::new(connection, Clock::start(), queue, handle, (path, local), true);
        let mut heard = |mut datagram: Vec<u8>| {
            now += Duration::from_millis(10);
            let mut counted = 0;
            let count = || {
                counted += 1;
                1_000
            };
            drop(server.take_in(now, count, |connection, now| {
                connection.handle_datagram(now, Origin::from(SocketAddr::from(CLIENT)), &mut datagram)
            }));
            counted == 1
        };
        let at = Time::from_s(1);
        client.streams().write(at, StreamId::FIRST, &[7; 5_000]).unwrap();
        let genuine: Vec<_> = std::iter::from_fn(|| Some(sent(&mut client, at)))
            .filter(|datagram| matches!(Unverified::read(datagram), Ok(Unverified::Sealed(_))))
            .take(2)
            .collect();
        let mut forged = genuine[0].clone();
        *forged.last_mut().unwrap() ^= 1;
        let Ok(Unverified::Sealed(header)) = Unverified::read(&forged) else { panic!("it is sealed") };
        let (mut reset, address) = ([0; DATAGRAM_BUFFER_BYTES], Address::Connection(header.connection_id()));
        let segment = Segment::Reset(Reset { reason: ResetReason::Unspecified });
        let length = segment.begin_clear(address, 0, &mut reset).finish();
        for (what, datagram) in
            [("a damaged tag", forged), ("an RST", reset[..length].to_vec()), ("noise", vec![9; 100])]
        {
            assert!(!heard(datagram), "{what} was counted as heard from the peer");
        }
        assert!(heard(genuine[0].clone()));
        assert!(!heard(genuine[0].clone()), "a replay was counted as heard from the peer");
        assert!(heard(genuine[1].clone()));
    }
}
