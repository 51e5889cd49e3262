//! Measures the real memory of an idle accepted connection, with a counting allocator. This is a test binary with a
//! single test, as nothing else may allocate meanwhile.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::alloc::System;

use cap::Cap;
use dfcp::{Accept, Config, Endpoint, Listener, PeerKey, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const CONNECTIONS: usize = 100;

/// Connections before the measurement, whose begin allocates shared buffers and other one-time memory.
const FIRST: usize = 20;

/// Enough data that both ends receive and send in full batches.
const WARM_UP_BYTES: usize = 8 << 20;

/// Bound for an idle connection, bytes: buffers belong to active connections only.
const IDLE_BYTES_MAX: usize = 8 << 10;

fn accept(connections_max: usize) -> Accept {
    Accept { connections_max, ..Config::sealed(PeerKey::Any).into() }
}

fn bound_bytes(connections_max: usize) -> u64 {
    Endpoint::bind(([127, 0, 0, 1], 0).into(), Some(accept(connections_max))).unwrap().stats().memory_bytes_max
}

/// Sends data both ways over a separate connection, and closes it, to fill the buffer pool that all connections of a
/// process share.
async fn fill_shared_buffers() {
    let listener = Listener::bind_with(([127, 0, 0, 1], 0).into(), accept(1)).unwrap();
    let connect = Stream::connect(listener.local_addr().unwrap(), Config::sealed(PeerKey::Any));
    let (near, far) = tokio::join!(connect, listener.accept());
    let exchange = |mut stream: Stream| async move {
        let (mut read, mut write) = tokio::io::split(&mut stream);
        let data = vec![7; WARM_UP_BYTES];
        let mut arrived = vec![0; WARM_UP_BYTES];
        let (sent, received) = tokio::join!(write.write_all(&data), read.read_exact(&mut arrived));
        sent.and(received).unwrap();
        stream.shutdown().await.unwrap();
    };
    tokio::join!(exchange(near.unwrap()), exchange(far.unwrap()));
}

#[tokio::test]
async fn a_connection_takes_no_more_than_the_bound_has_for_it() {
    fill_shared_buffers().await;
    let bound = (bound_bytes(2) - bound_bytes(1)) as usize;
    let listener = Listener::bind_with(([127, 0, 0, 1], 0).into(), accept(FIRST + CONNECTIONS)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = Endpoint::bind(([127, 0, 0, 1], 0).into(), None).unwrap();
    let mut before = 0;
    let mut streams: Vec<Stream> = Vec::with_capacity(2 * (FIRST + CONNECTIONS));
    for n in 0..FIRST + CONNECTIONS {
        if n == FIRST {
            before = ALLOCATOR.allocated();
        }
        let (ours, theirs) = tokio::join!(client.connect(address, Config::sealed(PeerKey::Any)), listener.accept());
        streams.extend([ours.unwrap(), theirs.unwrap()]);
    }
    // Both ends live in this process, and take the same memory.
    let each = (ALLOCATOR.allocated() - before) / (2 * CONNECTIONS);
    assert!(each <= bound, "{each} bytes per idle connection, {bound} in the bound");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes per idle connection");
    assert!(each > 1_000, "{each} bytes per idle connection: the allocator counts");
    assert_eq!(listener.endpoint().stats().connections, FIRST + CONNECTIONS);
}
