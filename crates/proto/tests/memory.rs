//! Memory of connections, measured by a counting allocator. A separate binary with a single test, since nothing else
//! may allocate meanwhile.

#[expect(dead_code, reason = "the other test binary needs more of it")]
mod support;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use dfcp_proto::{
    Accept, Config, Connection, Credentials, Handle, PeerKey, PreSharedKey, Read, State, StaticKey, limits,
};
use dfcp_time::Time;
use dfcp_wire::segment::{Ack, Coverage, Message, MessageGroup, MessageInfo, Segment};
use dfcp_wire::{Features, StreamId};
use support::{Caller, ClassicRogue, Rogue, Server, classic, unsealed};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

fn allocated_bytes() -> u64 {
    ALLOCATOR.allocated() as u64
}

/// Returns the bytes of memory that one idle connection takes. With `busy`, its small tables are filled as far as a peer
/// can fill them.
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
            // Out of order, so that lateness is measured. Each keep-alive requires a report.
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

/// Maximum memory of an idle sealed connection, bytes, the connection object included. Memory for the handshake, for
/// data, and for a bad path exists only while it is needed.
const IDLE_SEALED_BYTES_MAX: u64 = 6_000;

/// Lets a caller and the server exchange datagrams for 30 ms.
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

/// Returns the bytes of memory that one idle accepted sealed connection takes, the connection object included. With
/// `has_spoken`, the connection has exchanged data before.
fn idle_sealed_bytes(listener: Config, caller: &Config, has_spoken: bool) -> u64 {
    const CONNECTIONS: u32 = 20;
    let mut server = Server::new(listener);
    for n in 1..=CONNECTIONS {
        let (mut caller, mut handle) = (Caller::new(n, caller.clone()), None);
        exchange(&mut server, &mut caller, &mut handle);
        let Some(handle) = handle.filter(|_| has_spoken) else { continue };
        assert_eq!(caller.connection.streams().write(server.now, StreamId::FIRST, b"a"), Ok(1));
        exchange(&mut server, &mut caller, &mut Some(handle));
        assert_eq!(server.read(handle), 1);
        let now = server.now;
        let answered = server
            .host
            .connections
            .get_mut(&handle)
            .map(|connection| connection.streams().write(now, StreamId::FIRST, b"b"));
        assert_eq!(answered, Some(Ok(1)));
        exchange(&mut server, &mut caller, &mut Some(handle));
        assert_eq!(caller.connection.streams().read(server.now, StreamId::FIRST, &mut [0; 2]), Ok(Read::Bytes(1)));
        exchange(&mut server, &mut caller, &mut Some(handle));
    }
    let connections: Vec<_> = std::mem::take(&mut server.host.connections).into_values().collect();
    assert_eq!(connections.len(), CONNECTIONS as usize);
    assert!(connections.iter().all(|connection| connection.state() == State::Established));
    let before = allocated_bytes();
    drop(connections);
    (before - allocated_bytes()) / u64::from(CONNECTIONS)
}

/// Makes a hostile peer leave many blocks open, each with `symbols` received symbols. Returns the allocated bytes, and the
/// bytes charged for these blocks.
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

/// Returns the bytes allocated, and the bytes counted, per half-open sealed connection. The endpoint's tables start
/// empty and grow by doubling.
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

/// A kind of message segment that a hostile peer sends repeatedly, so that the server keeps it: a name, and a function
/// from the datagram number to the segment and its payload length, bytes.
type MessageLie = (&'static str, fn(u32) -> (Message, usize));

/// Lies in plaintext sessions. `tests/end-to-end/hostile/messages.rs` has the same lies in sealed sessions.
const MESSAGE_LIES: [MessageLie; 8] = [
    ("known messages without a byte", |number| (one(number, 1, 0), 0)),
    ("known messages of 20 bytes", |number| (one(number, 1, 20), 20)),
    ("known messages of a symbol", |number| (one(number, 1, 1_396), 1_396)),
    ("messages of two bytes, one of each", |number| (Message { esi: number % 2 * 2, ..one(number, 2, 2) }, 1)),
    ("messages of 256 KiB, one symbol of each", |number| (one(number, 200, 1_300 * 200), 1_300)),
    ("all symbols of messages of 100 except one", |number| {
        (Message { esi: number % 99, ..one(number / 99, 100, 100 * 300) }, 300)
    }),
    ("groups of two", |number| (group(number / 2 * 2, 2, 5), 12)),
    ("groups of 250 that overlap", |number| (group(number / 2, 250, 256 + number % 2), 300)),
];

fn one(id: u32, k: u16, length_bytes: u32) -> Message {
    let coverage = Coverage::One(MessageInfo { k, length_bytes });
    Message { id, esi: 0, coverage, clock_us: 0, age_us: 0, lifetime_us: Message::LIFETIME_UNLIMITED - 1 }
}

fn group(id: u32, count: u16, esi: u32) -> Message {
    let coverage = Coverage::Several(MessageGroup { count, source_symbols: count });
    Message { esi, coverage, ..one(id, 1, 0) }
}

/// Permitted uncharged memory of a session with messages. Together with an idle session's 5.5 KiB it is less than
/// `CONNECTION_BYTES_MAX`.
const MESSAGES_SLACK_BYTES: u64 = 10 << 10;

/// Memory for the id of a message, without proofs, bytes. Charged from the session's beginning, as part of its reserve.
const MESSAGE_ID_BYTES: u64 = 5;

/// Returns two maxima for a lie about messages: the bytes kept in excess of the charged bytes, and the charged bytes.
fn message_bytes((_, lie): MessageLie, is_read: bool) -> (u64, u64) {
    let config = Config::danger_unsealed().with_messages(true);
    let mut server = Server::new(Accept { memory_bytes_max: Some(64 << 20), ..config.into() });
    let features = Features::MESSAGES.union(Features::LOSS_RUNS);
    let mut rogue = Rogue { features, ..Rogue::new(1) };
    assert!(rogue.open(&mut server));
    let Some(handle) = rogue.handle else { panic!("the server takes messages in plaintext") };
    assert!(server.connection(handle).messages().is_some_and(|messages| messages.are_taken()));
    let (allocated, counted) = (allocated_bytes(), server.stats().memory_bytes);
    let (mut uncounted, mut most, mut ids) = (0, 0, 0);
    for round in 0..30_000 {
        // Jump far ahead once, so that room is made for all ids below.
        rogue.number += if round == 20_000 { 16_000 } else { 0 };
        let (message, bytes) = lie(rogue.number);
        let count = if let Coverage::Several(group) = message.coverage { group.count } else { 1 };
        ids = ids.max(u64::from(message.id) + u64::from(count));
        let reserved = MESSAGE_ID_BYTES * ids.next_power_of_two().min(limits::MESSAGE_IDS_MAX as u64);
        let datagram = rogue.segment(Segment::Message(message), &vec![7; bytes]);
        server.take(rogue.address, &datagram);
        server.wait(Duration::from_micros(10));
        server.sent(handle);
        if is_read && let Some(mut messages) = server.connection(handle).messages() {
            while messages.receive().is_some() {}
        }
        let now_counted = server.stats().memory_bytes - counted;
        drop(datagram);
        most = most.max(now_counted);
        uncounted = uncounted.max((allocated_bytes() - allocated).saturating_sub(now_counted + reserved));
    }
    (uncounted, most)
}

#[test]
fn nothing_takes_more_than_is_counted_for_it() {
    // First-time allocations, such as the codes' tables, belong to no connection.
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
    println!("| lie about messages, in plaintext | counted at the most, KiB | kept beyond that |\n|---|---|---|");
    for lie in MESSAGE_LIES {
        for is_read in [true, false] {
            let (uncounted, counted) = message_bytes(lie, is_read);
            let unread = if is_read { "" } else { ", never read" };
            println!("| {}{unread} | {} | {uncounted} |", lie.0, counted >> 10);
            let figures = format!("{}{unread}: {uncounted} bytes kept beyond {counted} that are counted", lie.0);
            assert!(uncounted <= MESSAGES_SLACK_BYTES, "{figures}");
            // Incomplete and potentially useful messages, and messages waiting for the application, with 256 bytes each
            // for their places.
            let unread_bytes_max = limits::MESSAGES_UNREAD_BYTES_MAX + 256 * limits::MESSAGES_UNREAD_MAX;
            let bytes_max = limits::MESSAGES_HELD_BYTES_MAX + unread_bytes_max;
            assert!(counted > 80_000 && counted <= bytes_max as u64, "{figures}");
        }
    }
    let stats = Server::new(Config::danger_unsealed()).stats();
    assert!(stats.memory_bytes_max >= stats.connections_max as u64 * busy + limits::ENDPOINT_MEMORY_BYTES_DEFAULT);
}
