//! What connections really take, by an allocator which counts. A binary of its own, with one test, as nothing else may
//! allocate meanwhile.

#[expect(dead_code, reason = "the other test binary needs more of it")]
mod support;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use dfcp_proto::{Config, Connection, Credentials, Handle, PeerKey, PreSharedKey, Read, State, StaticKey, limits};
use dfcp_time::Time;
use dfcp_wire::StreamId;
use dfcp_wire::segment::{Ack, Segment};
use support::{Caller, ClassicRogue, Rogue, Server, classic, unsealed};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn allocated_bytes() -> u64 {
    ALLOCATOR.allocated() as u64
}

/// Per connection which has nothing to do; with everything that small tables can be made to hold.
fn idle_connection_bytes(busy: bool) -> u64 {
    const CONNECTIONS: u32 = 200;
    let mut server = Server::new(unsealed(1 << 30));
    let before = allocated_bytes();
    for n in 0..CONNECTIONS {
        let mut rogue = Rogue::new(n);
        assert!(rogue.open(&mut server));
        let Some(handle) = rogue.handle else { continue };
        if !busy {
            continue;
        }
        for round in 0..200 {
            // Out of order, so that lateness is measured; every one is owed a report.
            rogue.number += if round % 2 == 0 { 500 } else { 0 };
            for number in [rogue.number, rogue.number - 100] {
                rogue.number = number;
                let keep_alive = rogue.segment(Segment::Ack(Ack::KeepAlive { stream: StreamId::FIRST }), &[]);
                server.take(rogue.address, &keep_alive);
            }
            rogue.number += 200;
            let syn = rogue.syn();
            server.take(rogue.address, &syn);
            server.now += Duration::from_millis(1);
            server.sent(handle);
        }
    }
    (allocated_bytes() - before) / u64::from(CONNECTIONS)
}

/// An idle sealed connection takes no more, itself included: what it needs for its handshake, for more data or on a bad
/// path, it has only then.
const IDLE_SEALED_BYTES_MAX: u64 = 5_640;

/// Lets a caller and the server speak for 30 ms.
fn exchange(server: &mut Server, caller: &mut Caller, handle: &mut Option<Handle>) {
    for _ in 0..30 {
        caller.connection.handle_timeout(server.now);
        while let Some(datagram) = caller.datagram(server.now) {
            let (opened, reply) = server.take(caller.address, &datagram);
            *handle = handle.or(opened);
            reply.into_iter().for_each(|reply| caller.take(server.now, reply));
        }
        let answers = handle.map_or_else(Vec::new, |handle| server.sent(handle));
        answers.into_iter().for_each(|answer| caller.take(server.now, answer));
        server.wait(Duration::from_millis(1));
    }
}

/// Per accepted sealed connection which has nothing to do, itself included; perhaps after a byte each way.
fn idle_sealed_bytes(listener: Config, caller: &Config, has_spoken: bool) -> u64 {
    const CONNECTIONS: u32 = 20;
    let mut server = Server::new(listener);
    for n in 1..=CONNECTIONS {
        let (mut caller, mut handle) = (Caller::new(n, caller.clone()), None);
        exchange(&mut server, &mut caller, &mut handle);
        let Some(handle) = handle.filter(|_| has_spoken) else { continue };
        assert_eq!(caller.connection.write(server.now, b"a"), Ok(1));
        exchange(&mut server, &mut caller, &mut Some(handle));
        assert_eq!(server.read(handle), 1);
        let now = server.now;
        let answered = server.host.connections.get_mut(&handle).map(|connection| connection.write(now, b"b"));
        assert_eq!(answered, Some(Ok(1)));
        exchange(&mut server, &mut caller, &mut Some(handle));
        assert_eq!(caller.connection.read(server.now, &mut [0; 2]), Ok(Read::Bytes(1)));
        exchange(&mut server, &mut caller, &mut Some(handle));
    }
    let connections: Vec<_> = std::mem::take(&mut server.host.connections).into_values().collect();
    assert_eq!(connections.len(), CONNECTIONS as usize);
    assert!(connections.iter().all(|connection| connection.state() == State::Established));
    let before = allocated_bytes();
    drop(connections);
    (before - allocated_bytes()) / u64::from(CONNECTIONS)
}

/// Rogues which leave blocks open in every way that costs most: what is allocated, beside what is counted for it.
fn modern_blocks(k: u16, symbols: u32) -> (u64, u64) {
    let mut server = Server::new(unsealed(64 << 20));
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let (allocated, counted) = (allocated_bytes(), server.stats().memory_bytes);
    for block_id in 1..2_000 {
        (0..symbols).for_each(|esi| rogue.symbol(&mut server, block_id, k, 1_000 + esi));
    }
    (allocated_bytes() - allocated, server.stats().memory_bytes - counted)
}

/// Per half-open sealed connection: what is allocated, and what is counted. The endpoint's tables begin empty and grow by
/// doubling.
fn half_open_bytes(listener: Config, caller: &Config) -> (usize, usize) {
    const CALLERS: u32 = 200;
    let syns: Vec<_> = (1..=CALLERS)
        .map(|n| {
            let mut caller = Caller::new(n, caller.clone());
            (caller.address, caller.datagram(Time::from_s(1)).unwrap_or_default())
        })
        .collect();
    let mut server = Server::new(listener);
    let before = allocated_bytes();
    for (address, syn) in &syns {
        assert!(server.take(*address, syn).1.is_some());
    }
    let stats = server.stats();
    assert_eq!(stats.half_open, CALLERS as usize);
    ((allocated_bytes() - before) as usize / CALLERS as usize, stats.half_open_bytes / CALLERS as usize)
}

fn classic_blocks(segments: u32) -> (u64, u64) {
    let mut server = Server::new(classic(64 << 20));
    let mut rogue = ClassicRogue::new(1);
    assert!(rogue.open(&mut server));
    let (allocated, counted) = (allocated_bytes(), server.stats().memory_bytes);
    for block_id in 1..128 {
        (0..segments).for_each(|_| rogue.data(&mut server, block_id));
    }
    (allocated_bytes() - allocated, server.stats().memory_bytes - counted)
}

#[test]
fn nothing_takes_more_than_is_counted_for_it() {
    // The first of everything, tables of the codes included, is nobody's.
    modern_blocks(2, 2);
    classic_blocks(48);
    let (idle, busy) = (idle_connection_bytes(false), idle_connection_bytes(true));
    let figures = format!("a connection takes {idle} bytes idle, {busy} at the most");
    assert!(busy <= limits::CONNECTION_BYTES_MAX && idle <= busy + 64, "{figures}");
    assert!(idle > 1_000, "{figures}: the allocator counts");
    for (k, symbols) in [(256, 1), (256, 255), (45, 44), (45, 1), (2, 1), (1, 1)] {
        let (allocated, counted) = modern_blocks(k, symbols);
        assert!(allocated <= counted + 65_536, "K = {k}, {symbols} symbols: {allocated} taken, {counted} counted");
    }
    let key = StaticKey::from_seed(&[5; 32]);
    let public = key.public();
    let shared = PreSharedKey::from_bytes(&[7; 32]);
    let with_key = |peer: PeerKey| Config::sealed(Credentials { key: Some(key.clone()), ..peer.into() });
    for (listener, caller) in [
        (with_key(PeerKey::Any), Config::sealed(PeerKey::Any)),
        (with_key(PeerKey::Any), Config::sealed(PeerKey::Known(public))),
        (Config::sealed(shared.clone()), Config::sealed(shared)),
    ] {
        let (allocated, counted) = half_open_bytes(listener.clone(), &caller);
        let figures = format!("{allocated} bytes allocated, {counted} counted per half-open connection");
        assert!(allocated <= counted + 160 && counted <= limits::HALF_OPEN_BYTES_MAX, "{figures}");
        assert!(allocated <= limits::HALF_OPEN_BYTES_MAX, "{figures}");
        let [silent, idle] = [false, true].map(|has_spoken| idle_sealed_bytes(listener.clone(), &caller, has_spoken));
        let figures = format!("an idle sealed connection takes {silent} bytes, {idle} after a byte each way");
        assert!(silent > size_of::<Connection>() as u64, "{figures}: the allocator counts");
        assert!(silent.max(idle) <= IDLE_SEALED_BYTES_MAX, "{figures}");
    }
    for segments in [1, 20, 46, 60] {
        let (allocated, counted) = classic_blocks(segments);
        assert!(allocated <= counted + 65_536, "{segments} segments: {allocated} taken, {counted} counted");
    }
    let stats = Server::new(Config::danger_unsealed()).stats();
    assert!(stats.memory_bytes_max >= stats.connections_max as u64 * busy + limits::ENDPOINT_MEMORY_BYTES_DEFAULT);
}
