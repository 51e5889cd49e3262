//! The endpoint's task: it receives, and hands each datagram to its connection's task.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dfcp_proto::{DATAGRAM_BUFFER_BYTES, Handle, Routed};
use dfcp_time::Time;
use quinn_udp::Transmit;

use crate::connection::driver::Driver;
use crate::connection::{Received, Run, Shared};
use crate::endpoint::activity::Activity;
use crate::endpoint::{EndpointShared, Table};
use crate::limits;
use crate::socket::{Arrival, ReceiveBuffers};

/// What is to be done without the table's lock.
#[derive(Debug, Default)]
struct Todo {
    /// Answers which need no connection.
    replies: Vec<Reply>,
    opened: Vec<Driver>,
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
    /// Nothing else is in the arrival's buffer.
    is_alone: bool,
}

/// Runs until the application has let go of the endpoint and no connection is left.
pub(super) async fn run(shared: Arc<EndpointShared>) {
    let mut buffers = ReceiveBuffers::new(&shared.socket);
    let mut todo = Todo::default();
    let mut activity = Activity::new(shared.socket.receive_queue_bytes());
    loop {
        let readable = tokio::select! {
            readable = shared.socket.readable() => Some(readable),
            () = shared.changed.notified() => None,
        };
        if is_over(&shared) {
            return;
        }
        let result = match readable {
            Some(Ok(())) => receive_some(&shared, &mut buffers, &mut activity, &mut todo),
            Some(Err(error)) => Err(error),
            None => continue,
        };
        match result {
            Ok(()) => tokio::task::yield_now().await,
            // What a router or a peer's system says by ICMP about one datagram is no reason to stop, nor is anything
            // else: the connections' own timeouts decide.
            Err(error) => {
                tracing::debug!(%error, "receiving failed");
                tokio::time::sleep(limits::RECEIVE_ERROR_PAUSE).await;
            }
        }
    }
}

fn is_over(shared: &EndpointShared) -> bool {
    let table = shared.table();
    table.released && table.proto.is_empty()
}

/// Receives until nothing is there, or for a while.
fn receive_some(
    shared: &Arc<EndpointShared>,
    buffers: &mut ReceiveBuffers,
    activity: &mut Activity,
    todo: &mut Todo,
) -> io::Result<()> {
    for _ in 0..limits::RECEIVE_CALLS_PER_TURN {
        let count = match buffers.try_receive(&shared.socket) {
            Ok(count) => count,
            Err(error) if is_transient(&error) => continue,
            Err(error) => {
                buffers.release();
                return if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) };
            }
        };
        let now = shared.clock.now();
        {
            let mut table = shared.table();
            for arrival in buffers.arrivals(count) {
                route(shared, &mut table, now, &arrival, buffers.bytes(&arrival), todo);
            }
        }
        for delivery in &todo.deliveries {
            delivery.connection.share_queue(|seen| activity.on_received(now, seen));
        }
        carry_out(shared, buffers, now, todo);
    }
    Ok(())
}

fn carry_out(shared: &EndpointShared, buffers: &mut ReceiveBuffers, now: Time, todo: &mut Todo) {
    for driver in todo.opened.drain(..) {
        shared.runtime.spawn(driver.run());
    }
    for Reply { destination, src_ip, contents } in todo.replies.drain(..) {
        let transmit = Transmit { destination, ecn: None, contents: &contents, segment_size: None, src_ip };
        if let Err(error) = shared.socket.try_send(&transmit) {
            tracing::debug!(%error, remote = %destination, "an answer was not sent");
        }
    }
    let mut rest = todo.deliveries.as_slice();
    while let Some(first) = rest.first() {
        let (group, later) = rest.split_at(group_of(first, rest));
        deliver(buffers, now, first, group);
        rest = later;
    }
    todo.deliveries.clear();
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

/// Lets the connection take datagrams in while they are in the processor's cache; if it is at work, they wait for it.
fn deliver(buffers: &mut ReceiveBuffers, at: Time, first: &Delivery, group: &[Delivery]) {
    let is_taken = first.connection.handle(at, |intake| {
        for Delivery { remote, arrival, .. } in group {
            intake.datagrams(*remote, buffers.bytes_mut(arrival), arrival.stride);
        }
    });
    for Delivery { connection, remote, arrival, is_alone } in group.iter().filter(|_| !is_taken) {
        let whole = if *is_alone && arrival.len() > limits::COPIED_BYTES_MAX { buffers.take(arrival) } else { None };
        let bytes = match whole {
            Some((buffer, range)) => Run::Whole(buffer, range),
            None => Run::Copied(buffers.bytes(arrival).to_vec()),
        };
        connection.deliver(Received { at, remote: *remote, bytes, stride: arrival.stride });
    }
}

/// Splits a run of datagrams into those of one connection each.
fn route(shared: &Arc<EndpointShared>, table: &mut Table, now: Time, arrival: &Arrival, bytes: &[u8], todo: &mut Todo) {
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
                let (_, driver) = shared.enter(table, handle, *connection, remote, Some(local_ip));
                todo.opened.push(driver);
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
    let part = arrival.part(start..end);
    let is_alone = part.len() == arrival.len();
    todo.deliveries.push(Delivery { connection: Arc::clone(connection), remote, arrival: part, is_alone });
}
