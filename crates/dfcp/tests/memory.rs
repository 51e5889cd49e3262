//! Memory that an idle accepted connection really takes, by an allocator which counts. A binary of its own, with one
//! test, as nothing else may allocate meanwhile.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::alloc::System;

use cap::Cap;
use dfcp::{Accept, Config, Endpoint, Listener, PeerKey, Stream};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const CONNECTIONS: usize = 100;

/// The first ones, with which come buffers and what else there is but once.
const FIRST: usize = 20;

/// A connection which has had nothing to do takes no more: buffers belong to those which are at work.
const IDLE_BYTES_MAX: usize = 8 << 10;

fn accept(connections_max: usize) -> Accept {
    Accept { connections_max, ..Config::sealed(PeerKey::Any).into() }
}

fn bound_bytes(connections_max: usize) -> u64 {
    Endpoint::bind(([127, 0, 0, 1], 0).into(), Some(accept(connections_max))).unwrap().stats().memory_bytes_max
}

#[tokio::test]
async fn a_connection_takes_no_more_than_the_bound_has_for_it() {
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
    // Both ends live here, and take the same.
    let each = (ALLOCATOR.allocated() - before) / (2 * CONNECTIONS);
    assert!(each <= bound, "{each} bytes per idle connection, {bound} in the bound");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes per idle connection");
    assert!(each > 1_000, "{each} bytes per idle connection: the allocator counts");
    assert_eq!(listener.endpoint().stats().connections, FIRST + CONNECTIONS);
}
