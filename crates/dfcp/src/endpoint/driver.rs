//! The endpoint's task: it receives, and hands each datagram to its connection's task.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dfcp_proto::{DATAGRAM_BUFFER_BYTES, Handle, Routed};
use dfcp_time::Time;
use quinn_udp::Transmit;

use crate::connection::driver::Driver;
use crate::connection::{Received, Shared};
use crate::endpoint::{EndpointShared, Table};
use crate::limits;
use crate::socket::{Arrival, ReceiveBuffers};

/// What is to be done without the table's lock.
#[derive(Debug, Default)]
struct Todo {
    /// Answers which need no connection.
    replies: Vec<Reply>,
    opened: Vec<Driver>,
}

/// An answer without a connection, which goes back the way that its question came.
#[derive(Debug)]
struct Reply {
    destination: SocketAddr,
    src_ip: Option<IpAddr>,
    contents: Vec<u8>,
}

/// Runs until the application has let go of the endpoint and no connection is left.
pub(super) async fn run(shared: Arc<EndpointShared>) {
    let mut buffers = ReceiveBuffers::new(&shared.socket);
    loop {
        let readable = tokio::select! {
            readable = shared.socket.readable() => Some(readable),
            () = shared.changed.notified() => None,
        };
        if is_over(&shared) {
            return;
        }
        let result = match readable {
            Some(Ok(())) => receive_some(&shared, &mut buffers),
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

fn receive_some(shared: &Arc<EndpointShared>, buffers: &mut ReceiveBuffers) -> io::Result<()> {
    for _ in 0..limits::RECEIVE_CALLS_PER_TURN {
        let count = match buffers.try_receive(&shared.socket) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if is_transient(&error) => continue,
            Err(error) => return Err(error),
        };
        let now = shared.clock.now();
        let mut todo = Todo::default();
        {
            let mut table = shared.table();
            for arrival in buffers.filled(count) {
                route(shared, &mut table, now, arrival, &mut todo);
            }
        }
        for driver in todo.opened {
            shared.runtime.spawn(driver.run());
        }
        for Reply { destination, src_ip, contents } in &todo.replies {
            let (destination, src_ip) = (*destination, *src_ip);
            let transmit = Transmit { destination, ecn: None, contents, segment_size: None, src_ip };
            if let Err(error) = shared.socket.try_send(&transmit) {
                tracing::debug!(%error, remote = %destination, "an answer was not sent");
            }
        }
    }
    Ok(())
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Splits a run of datagrams and delivers neighbours of one connection together.
fn route(shared: &Arc<EndpointShared>, table: &mut Table, now: Time, arrival: Arrival<'_>, todo: &mut Todo) {
    let Arrival { remote, local_ip, bytes, .. } = arrival;
    let stride = arrival.stride.max(1);
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
            deliver(table, now, stride, run, bytes.get(..offset));
            run = handle.map(|(handle, remote)| (handle, remote, offset));
        }
    }
    deliver(table, now, stride, run, Some(bytes));
}

/// Hands the bytes from the run's start to the end of `bytes` to its connection.
fn deliver(table: &Table, at: Time, stride: usize, run: Option<(Handle, SocketAddr, usize)>, bytes: Option<&[u8]>) {
    let Some((handle, remote, start)) = run else { return };
    let connection: Option<&Arc<Shared>> = table.connections.get(handle.index()).and_then(Option::as_ref);
    if let (Some(connection), Some(bytes)) = (connection, bytes.and_then(|bytes| bytes.get(start..))) {
        connection.deliver(Received { at, remote, bytes: bytes.to_vec(), stride });
    }
}
