//! Peers that exceed each limit of an endpoint: the promises of `docs/limits.md` hold.

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[expect(dead_code, reason = "another test binary needs more of it")]
mod support;

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use dfcp_proto::{
    Accept, ClassicSettings, Config, ConnectionError, Event, PeerKey, PeerMisbehaved, Rate, Read, limits,
};
use dfcp_wire::feedback::{REPORT_BYTES, Report, ReportWriter, Run, StreamState};
use dfcp_wire::segment::{Data, Fin, ReportHeader, Segment, SynOptions};
use dfcp_wire::{BlockInfo, Fragment, Opener, StreamId, StreamKind, StreamLimits};
use support::{
    Caller, ClassicRogue, Rogue, SYMBOL_SIZE, Server, address, classic, classic_datagram, decode, renew_crc, unsealed,
};

const MS: Duration = Duration::from_millis(1);
const GIB: u64 = 1 << 30;
/// Reports from a receiver that lacks the first block.
const REPORT: Segment = Segment::Report(ReportHeader { receive_queue_kib: 0 });

// ---- which connections are accepted ----

#[test]
fn connections_stop_at_the_configured_number() {
    let mut server = Server::new(Accept { connections_max: 5, ..unsealed(GIB) });
    let opened = (0..50).filter(|&n| Rogue::new(n).open(&mut server)).count();
    assert_eq!((opened, server.stats().connections, server.stats().refused), (5, 5, 45));
    assert_eq!(server.stats().connections_max, 5);
}

#[test]
fn one_address_gets_its_share_of_connections_and_no_more() {
    let mut server = Server::new(Accept { connections_per_address_max: 3, ..unsealed(GIB) });
    let opened = (0..20).filter(|&n| Rogue { address: address(1), ..Rogue::new(n) }.open(&mut server)).count();
    assert_eq!(opened, 3);
    assert!(Rogue::new(99).open(&mut server), "others have theirs");
    let handle = *server.host.connections.keys().next().unwrap();
    server.host.forget(handle);
    assert!(Rogue { address: address(1), ..Rogue::new(50) }.open(&mut server), "what is over does not count");
}

/// A host with an IPv6 address usually owns all 2⁶⁴ addresses of its prefix.
#[test]
fn an_ipv6_prefix_gets_one_address_s_share_of_connections() {
    let from = |prefix: u16, n: u32| {
        let [high, low] = [(n >> 16) as u16, n as u16];
        SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, prefix, 5, 6, high, low).into(), 4_000)
    };
    let mut server = Server::new(unsealed(16 * GIB));
    let opened = (0..1_322).filter(|&n| Rogue { address: from(1, n), ..Rogue::new(n) }.open(&mut server)).count();
    assert_eq!(opened, limits::CONNECTIONS_PER_ADDRESS_DEFAULT);
    assert!(Rogue { address: from(2, 1), ..Rogue::new(9_999) }.open(&mut server), "another prefix has its own share");
    let handle = *server.host.connections.keys().next().unwrap();
    server.host.forget(handle);
    assert!(Rogue { address: from(1, 2_000), ..Rogue::new(2_000) }.open(&mut server), "a closed one does not count");
}

/// A listener on `[::]` sees IPv4 peers as mapped addresses.
#[test]
fn a_mapped_address_counts_as_the_ipv4_address_in_it() {
    let v4 = |n: u32| address(n);
    let mapped = |n: u32| match address(n) {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        v6 @ SocketAddr::V6(_) => v6,
    };
    let mut server = Server::new(Accept { connections_per_address_max: 2, ..unsealed(GIB) });
    let mut open = |n: u32, from: SocketAddr| Rogue { address: from, ..Rogue::new(n) }.open(&mut server);
    assert_eq!([open(1, v4(1)), open(2, mapped(1)), open(3, v4(1)), open(4, mapped(1))], [true, true, false, false]);
    assert!(open(5, mapped(2)) && open(6, mapped(3)), "each IPv4 address has its own share");
}

#[test]
fn unsealed_syns_from_nowhere_stop_at_the_half_open_limit() {
    let mut server = Server::new(unsealed(16 * GIB));
    for n in 0..limits::HALF_OPEN_MAX as u32 + 100 {
        let syn = Rogue::new(n).syn();
        server.take(address(n), &syn);
    }
    assert_eq!((server.stats().half_open, server.stats().refused), (limits::HALF_OPEN_MAX, 100));
}

#[test]
fn unsealed_syns_from_nowhere_reserve_a_quarter_of_the_memory_at_the_most() {
    for (accept, classic) in [(unsealed(GIB), false), (classic(GIB), true)] {
        let mut server = Server::new(accept);
        for n in 0..2_000 {
            let classic_syn =
                classic_datagram(&dfcp_wire::classic::Segment::Syn { initial: [5_000, 5_001, 5_002] }, &[]);
            let syn = if classic { classic_syn } else { Rogue::new(n).syn() };
            server.take(address(n), &syn);
        }
        let stats = server.stats();
        assert!(stats.half_open > 10 && stats.refused > 0, "{stats:?}");
        assert!(stats.memory_bytes <= GIB / limits::HALF_OPEN_MEMORY_SHARE, "{stats:?}");
    }
}

#[test]
fn sealed_syns_are_kept_up_to_a_number_then_asked_for_cookies_and_then_take_the_oldest_ones_place() {
    let mut server = Server::new(Accept { half_open_max: 20, ..Config::sealed(PeerKey::Any).into() });
    let now = server.now;
    let (mut answers, mut cookies) = (Vec::new(), 0);
    for n in 1..=60 {
        let mut caller = Caller::new(n, Config::sealed(PeerKey::Any));
        let syn = caller.datagram(now).unwrap();
        let answer = server.take(caller.address, &syn).1.unwrap();
        assert!(answer.len() <= syn.len() && syn.len() >= limits::SEALED_SYN_BYTES_MIN, "nothing is amplified");
        answers.push((caller, answer));
    }
    assert_eq!((server.stats().half_open, server.stats().cookies_sent), (20, 40), "40 took no memory at all");
    server.wait(limits::HALF_OPEN_SPARED);
    for (caller, answer) in &mut answers[20..] {
        caller.take(now, answer.clone());
        let Some(syn) = caller.datagram(now) else { continue };
        cookies += usize::from(server.take(caller.address, &syn).1.is_some());
    }
    let stats = server.stats();
    assert_eq!((stats.half_open, cookies, stats.refused), (40, 40, 0), "as many again with a cookie, and no more");
    assert!(stats.half_open_bytes <= stats.half_open * limits::HALF_OPEN_BYTES_MAX, "{stats:?}");
    assert!(stats.memory_bytes_max >= stats.memory_bytes + stats.half_open_bytes as u64);
    server.wait(limits::HALF_OPEN_TIMEOUT + MS);
    let mut late = Caller::new(99, Config::sealed(PeerKey::Any));
    let syn = late.datagram(now).unwrap();
    assert!(server.take(late.address, &syn).1.is_some());
    assert_eq!(server.stats().half_open, 1, "initiators that never came back are forgotten");
}

#[test]
fn false_proofs_cost_a_bounded_number_of_multiplications() {
    let mut server = Server::new(Config::sealed(PeerKey::Any));
    let mut caller = Caller::new(1, Config::sealed(PeerKey::Any));
    let syn = caller.datagram(server.now).unwrap();
    let answer = server.take(caller.address, &syn).1.unwrap();
    caller.take(server.now, answer);
    let mut proof = caller.datagram(server.now).unwrap();
    let last = proof.len() - 1;
    proof[last - 6] ^= 1;
    // Without a correct CRC, the proof would be dropped unchecked.
    renew_crc(&mut proof);
    for _ in 0..10_000 {
        server.take(caller.address, &proof);
        server.now += Duration::from_micros(100);
    }
    // Waits of 1, 2, 4, … 64 ms, then 64 ms each: in one second at most 6 + 16 checks, and one more.
    let looked_at = server.stats().proofs_failed;
    assert!((10..=23).contains(&looked_at), "{looked_at} of 10 000 proofs were looked at");
}

#[test]
fn first_messages_which_cannot_be_read_cost_little_before_cookies_are_asked_for() {
    let mut server = Server::new(Config::sealed(PeerKey::Any));
    let wrong = Config::sealed(PeerKey::Known(dfcp_proto::StaticKey::from_seed(&[5; 32]).public()));
    for n in 1..=400 {
        let mut caller = Caller::new(n, wrong.clone());
        let syn = caller.datagram(server.now).unwrap();
        assert!(server.take(caller.address, &syn).1.is_some());
    }
    let stats = server.stats();
    assert_eq!(stats.cookies_sent, 400 - u64::from(limits::FIRST_MESSAGES_FAILED_MAX));
    assert_eq!((stats.half_open, stats.half_open_bytes), (0, 0));
    server.wait(limits::COOKIE_STEP);
    let mut honest = Caller::new(999, Config::sealed(PeerKey::Any));
    let syn = honest.datagram(server.now).unwrap();
    server.take(honest.address, &syn);
    assert_eq!(server.stats().half_open, 1, "that is over with the time step");
}

// ---- memory of blocks ----

#[test]
fn a_connection_which_gets_no_reserve_is_not_accepted() {
    let mut server = Server::new(unsealed(10 << 20));
    let mut rogues: Vec<_> = (0..100).map(Rogue::new).collect();
    let opened = rogues.iter_mut().map(|rogue| rogue.open(&mut server)).filter(|&opened| opened).count();
    let stats = server.stats();
    assert_eq!(opened, stats.connections_max);
    assert!((10..20).contains(&opened) && stats.refused == 100 - opened as u64, "{stats:?}");
    assert!(stats.memory_bytes <= 10 << 20);
    let handle = rogues[0].handle.unwrap();
    server.host.forget(handle);
    assert!(rogues[0].open(&mut server), "what ended has given its reserve back");
    for handle in server.host.connections.keys().copied().collect::<Vec<_>>() {
        server.host.forget(handle);
    }
    assert_eq!(server.stats().memory_bytes, 0);
}

#[test]
fn too_little_memory_for_one_block_is_a_configuration_error() {
    assert!(unsealed(1 << 19).validate().is_err());
    assert!(classic(1 << 20).validate().is_err());
    assert!(unsealed(1 << 20).validate().is_ok());
}

#[test]
fn peers_which_never_finish_a_block_fill_the_budget_and_not_more_while_others_go_on_block_by_block() {
    const BUDGET: u64 = 64 << 20;
    let mut server = Server::new(unsealed(BUDGET));
    let mut rogues: Vec<_> = (0..20).map(Rogue::new).collect();
    for rogue in &mut rogues {
        assert!(rogue.open(&mut server));
        for block_id in 1..200 {
            rogue.symbol(&mut server, block_id, 256, 999);
        }
        assert!(server.stats().memory_bytes <= BUDGET);
    }
    let refused: u64 = server.host.connections.values().map(|it| it.stats().received.refused).sum();
    assert!(refused > 20 * 100, "{refused}: the test fills it");
    let mut honest = Rogue::new(99);
    assert!(honest.open(&mut server));
    let handle = honest.handle.unwrap();
    for block_id in 0..50 {
        honest.block(&mut server, block_id, 256);
        assert_eq!(server.read(handle), 256 * usize::from(SYMBOL_SIZE), "block {block_id}");
        assert!(server.stats().memory_bytes <= BUDGET);
    }
    for rogue in &rogues {
        server.host.forget(rogue.handle.unwrap());
    }
    assert!(server.stats().memory_bytes < 1 << 20, "only the honest one's reserve is left");
}

/// The application does not read, and the peer sends further blocks. The peer must wait until the application reads.
#[test]
fn unread_blocks_count_until_they_are_read() {
    let mut server = Server::new(unsealed(4 << 20));
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let handle = rogue.handle.unwrap();
    for block_id in 0..64 {
        rogue.block(&mut server, block_id, 64);
    }
    let decoded = server.connection(handle).stats().blocks_decoded;
    assert!((4..64).contains(&decoded), "{decoded}");
    assert!(server.stats().memory_bytes <= 4 << 20);
    assert_eq!(server.read(handle), decoded as usize * 64 * usize::from(SYMBOL_SIZE));
    let reserve_only = server.stats().memory_bytes;
    assert!(reserve_only < 1 << 20, "{reserve_only}");
    rogue.block(&mut server, decoded as u32, 64);
    assert_eq!(server.read(handle), 64 * usize::from(SYMBOL_SIZE));
}

#[test]
fn many_tiny_blocks_count_as_what_their_decoders_take() {
    let config = Config::danger_unsealed().with_window_blocks(limits::WINDOW_BLOCKS_MAX);
    let mut server = Server::new(Accept { memory_bytes_max: Some(8 << 20), ..config.into() });
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    for block_id in 1..limits::WINDOW_BLOCKS_MAX {
        // Two symbols of 711 bytes, of which one arrives.
        let info = BlockInfo { k: 2, length_bytes: 1_421, end_of_stream: false };
        rogue.data(&mut server, block_id, info, 9, 711);
    }
    assert!(server.stats().memory_bytes <= 8 << 20);
    assert!(server.connection(rogue.handle.unwrap()).stats().received.refused > 10_000);
}

#[test]
fn receive_memory_of_one_connection_holds_at_three_times_its_bytes() {
    const MEMORY: u64 = limits::RECEIVE_MEMORY_BYTES_MIN * 4;
    let config = Config::danger_unsealed().with_receive_memory_bytes(MEMORY);
    let mut server = Server::new(config);
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let reserve = server.stats().memory_bytes;
    for block_id in (0..100).rev() {
        rogue.symbol(&mut server, block_id, 256, 999);
    }
    let taken = server.stats().memory_bytes - reserve;
    assert!(taken <= 3 * MEMORY && taken > 2 * MEMORY, "{taken} of {MEMORY}");
    // Decoded blocks use only their own bytes. Blocks that found no room get none by becoming the needed ones.
    for block_id in 0..100 {
        (1_000..1_255).for_each(|esi| rogue.symbol(&mut server, block_id, 256, esi));
    }
    let taken = server.stats().memory_bytes - reserve;
    assert!(taken <= MEMORY && taken > MEMORY / 2, "{taken} of {MEMORY}");
}

/// Receive memory with a cap far above what a peer may make the receiver hold.
const FAR_BYTES: u64 = 1 << 30;

/// A listener for the tests of [window-6], with a peer. Its window has room for every block of a test.
fn with_far_memory() -> (Server, Rogue) {
    let config = Config::danger_unsealed()
        .with_receive_memory_bytes(FAR_BYTES)
        .with_window_blocks(limits::WINDOW_BLOCKS_MAX)
        .with_streams(StreamLimits { bidirectional: 0, one_way: 64 });
    let mut server = Server::new(Accept { memory_bytes_max: Some(8 << 30), ..config.into() });
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    (server, rogue)
}

/// Bytes of the blocks in the tests of [window-6].
const LARGE_BLOCK_BYTES: u64 = 256 * SYMBOL_SIZE as u64;

/// Sends one symbol of each block. Returns the bytes of the blocks that the receiver has begun.
fn begun_bytes(server: &mut Server, rogue: &mut Rogue, blocks: std::ops::Range<u32>) -> u64 {
    let handle = rogue.handle.unwrap();
    let refused = |server: &mut Server| server.connection(handle).stats().received.refused;
    let before = refused(server);
    let count = blocks.len() as u64;
    blocks.for_each(|block_id| rogue.symbol(server, block_id, 256, 999));
    (count - (refused(server) - before)) * LARGE_BLOCK_BYTES
}

/// [window-6]: a peer starts fast and then finishes no block. Whatever it has brought, and whether or not the
/// application has read it, unfinished and unread blocks together take no more than four times the decoded bytes.
#[test]
fn unfinished_blocks_after_a_fast_start_take_what_the_decoded_ones_have_earned() {
    for (decoded, is_read) in [(0, true), (5, true), (14, true), (14, false), (60, true), (60, false)] {
        let (mut server, mut rogue) = with_far_memory();
        let handle = rogue.handle.unwrap();
        let reserves_bytes = server.stats().memory_bytes;
        for block_id in 0..decoded {
            rogue.block(&mut server, block_id, 256);
            if is_read {
                server.read(handle);
            }
        }
        let decoded_bytes = u64::from(decoded) * LARGE_BLOCK_BYTES;
        let begun = begun_bytes(&mut server, &mut rogue, decoded + 1..decoded + 2_000);
        let unread = if is_read { 0 } else { decoded_bytes };
        let earned = limits::WINDOW_BYTES_START.max(4 * decoded_bytes);
        assert!(begun + unread <= earned, "{begun} of {earned} after {decoded} blocks, read: {is_read}");
        let memory_bytes = server.stats().memory_bytes - reserves_bytes;
        assert!(memory_bytes <= 3 * earned, "{memory_bytes} of {earned} after {decoded} blocks, read: {is_read}");
    }
}

/// [window-6]: unfinished blocks come first, and all their symbols but one follow. They earn nothing until they are
/// complete, and then as much as other blocks.
#[test]
fn blocks_that_lack_a_symbol_earn_no_memory() {
    let (mut server, mut rogue) = with_far_memory();
    let fits = (limits::WINDOW_BYTES_START / LARGE_BLOCK_BYTES) as u32;
    assert_eq!(begun_bytes(&mut server, &mut rogue, 0..1_000), u64::from(fits) * LARGE_BLOCK_BYTES);
    for block_id in 0..fits {
        (1..255).for_each(|esi| rogue.symbol(&mut server, block_id, 256, esi));
    }
    let handle = rogue.handle.unwrap();
    server.read(handle);
    assert_eq!(begun_bytes(&mut server, &mut rogue, 1_000..2_000), 0);
    for block_id in 0..fits {
        rogue.symbol(&mut server, block_id, 256, 0);
    }
    let begun = begun_bytes(&mut server, &mut rogue, 2_000..3_000) / LARGE_BLOCK_BYTES;
    let earned = 4 * u64::from(fits.div_ceil(2));
    assert_eq!(begun + u64::from(fits), earned, "begun and unread blocks, after half of the first window was decoded");
}

/// [window-6]: on each of many streams, the application reads the first source symbols of a block that lacks its last
/// one. What is read of them earns nothing.
#[test]
fn unfinished_blocks_of_many_streams_earn_no_memory_although_they_are_read() {
    let (mut server, mut rogue) = with_far_memory();
    let fits = (limits::WINDOW_BYTES_START / LARGE_BLOCK_BYTES) as u32;
    let handle = rogue.handle.unwrap();
    let block = BlockInfo { k: 256, length_bytes: LARGE_BLOCK_BYTES as u32, end_of_stream: false };
    let mut buffer = vec![0; 1 << 19];
    for index in 0..fits {
        let stream = StreamId::new(Opener::Initiator, StreamKind::OneWay, index).unwrap();
        for esi in 0..255 {
            let data = Data { stream, block_id: 0, esi, block, fragment: Fragment::WHOLE };
            let datagram = rogue.segment(Segment::Data(data), &[1; SYMBOL_SIZE as usize]);
            server.take(rogue.address, &datagram);
        }
        let now = server.now;
        let read = server.connection(handle).streams().read(now, stream, &mut buffer);
        assert_eq!(read, Ok(Read::Bytes(255 * usize::from(SYMBOL_SIZE))));
    }
    let begun = begun_bytes(&mut server, &mut rogue, 0..1_000);
    // Each stream has one symbol free, and a KiB ([window-1]).
    let own = u64::from(fits + 1) * (u64::from(SYMBOL_SIZE) + 1_023);
    let taken = u64::from(fits) * LARGE_BLOCK_BYTES + begun;
    assert!(taken <= limits::WINDOW_BYTES_START + own, "{taken} bytes are held");
}

#[test]
fn a_block_larger_than_any_symbol_allows_ends_the_connection_and_takes_nothing() {
    let absurd = [(256, (1 << 19) - 1), (1, 1 << 18), (256, 1)];
    for (k, length_bytes) in absurd {
        let mut server = Server::new(unsealed(GIB));
        let mut rogue = Rogue::new(1);
        assert!(rogue.open(&mut server));
        let before = server.stats().memory_bytes;
        rogue.data(&mut server, 0, BlockInfo { k, length_bytes, end_of_stream: false }, 0, SYMBOL_SIZE.into());
        assert_eq!(server.stats().memory_bytes, before, "K = {k}, L = {length_bytes}");
        let why = server.closed(rogue.handle.unwrap());
        let expected = PeerMisbehaved::InconsistentBlock { block_id: 0 };
        assert_eq!(why, Some(Event::Closed(Some(ConnectionError::PeerMisbehaved(expected)))));
    }
}

/// [stream-2]: a sender may cut smaller symbols than the connection's, down to a quarter of the size.
#[test]
fn a_block_may_have_four_times_as_many_symbols_as_its_length_calls_for() {
    let z = u32::from(SYMBOL_SIZE);
    let taken = [(1, 1), (4, 1), (4, z), (2, z + 1), (8, 2 * z), (256, 64 * z), (256, 256 * z)];
    let refused = [(5, 1), (5, z), (1, z + 1), (9, 2 * z), (256, 63 * z)];
    for (is_taken, (k, length_bytes)) in taken.map(|it| (true, it)).into_iter().chain(refused.map(|it| (false, it))) {
        let mut server = Server::new(unsealed(GIB));
        let mut rogue = Rogue::new(1);
        assert!(rogue.open(&mut server));
        let info = BlockInfo { k, length_bytes, end_of_stream: false };
        for esi in 0..k.into() {
            rogue.data(&mut server, 0, info, esi, length_bytes.div_ceil(k.into()) as usize);
        }
        let handle = rogue.handle.unwrap();
        let expected = if is_taken { length_bytes as usize } else { 0 };
        assert_eq!(server.read(handle), expected, "K = {k}, L = {length_bytes}");
        assert_eq!(server.closed(handle).is_none(), is_taken, "K = {k}, L = {length_bytes}");
    }
}

#[test]
fn segments_which_a_classic_receiver_keeps_are_bounded_per_block_and_by_the_budget() {
    const BUDGET: u64 = 48 << 20;
    let most = limits::REDUNDANCY_BYTES.1 as u32;
    let config =
        Config::danger_classic().with_classic(ClassicSettings { redundancy_bytes: most, ..ClassicSettings::default() });
    let mut server = Server::new(Accept { classic: Some(config), ..classic(BUDGET) });
    let mut rogue = ClassicRogue::new(1);
    assert!(rogue.open(&mut server));
    // One block: the receiver keeps a limited number of its segments.
    for _ in 0..limits::CLASSIC_SEGMENTS_PER_BLOCK_MAX + 50 {
        rogue.data(&mut server, 0);
    }
    let stats = server.connection(rogue.handle.unwrap()).stats().received;
    assert_eq!((stats.useful, stats.late + stats.refused), (limits::CLASSIC_SEGMENTS_PER_BLOCK_MAX as u64, 50));
    // Many blocks.
    for block_id in 1..128 {
        (0..20).for_each(|_| rogue.data(&mut server, block_id));
        assert!(server.stats().memory_bytes <= BUDGET);
    }
    let refused = server.connection(rogue.handle.unwrap()).stats().received.refused;
    assert!(refused > 1_000, "{refused}: the test fills it");
    let handle = rogue.handle.unwrap();
    server.host.forget(handle);
    assert_eq!(server.stats().memory_bytes, 0);
}

// ---- cost of a datagram ----

fn report(highest: u32, received: u32) -> Report {
    Report { highest_datagram: highest, datagrams_received: received, memory_kib: u32::MAX, ..Report::default() }
}

fn report_payload(report: &Report, runs: impl Iterator<Item = Run>) -> Vec<u8> {
    let mut out = [0; SYMBOL_SIZE as usize];
    let mut writer = ReportWriter::new(&mut out, report).unwrap();
    let mut record = writer.stream(&StreamState::default()).unwrap();
    for run in runs {
        if !record.push(run) {
            break;
        }
    }
    record.finish();
    let length = writer.finish();
    out[..length].to_vec()
}

#[test]
fn a_report_of_full_length_names_more_than_there_is_and_changes_nothing_or_ends_the_connection() {
    let mut server = Server::new(unsealed(GIB));
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let handle = rogue.handle.unwrap();
    let before = server.connection(handle).stats().acks_received;
    for _ in 0..1_000 {
        let empty = report_payload(&report(0, 0), std::iter::repeat(Run::Empty(64)));
        assert!(empty.len() > REPORT_BYTES + 1_000 || empty.len() == usize::from(SYMBOL_SIZE), "{}", empty.len());
        let datagram = rogue.segment(REPORT, &empty);
        server.take(rogue.address, &datagram);
    }
    assert_eq!(server.connection(handle).stats().acks_received - before, 1_000);
    assert_eq!(server.closed(handle), None, "empty blocks may be named beforehand");
    let complete = report_payload(&report(0, 0), std::iter::repeat(Run::Complete(64)));
    let datagram = rogue.segment(REPORT, &complete);
    server.take(rogue.address, &datagram);
    let why = server.closed(handle);
    let misbehaved = matches!(
        why,
        Some(Event::Closed(Some(ConnectionError::PeerMisbehaved(PeerMisbehaved::ReportOfUnsentBlocks { .. }))))
    );
    assert!(misbehaved, "{why:?}");
}

#[test]
fn our_own_reports_fit_a_datagram_however_many_blocks_are_open() {
    let config = Config::danger_unsealed().with_window_blocks(limits::WINDOW_BLOCKS_MAX);
    let mut server = Server::new(config);
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let handle = rogue.handle.unwrap();
    for block_id in (1..8_000).step_by(2) {
        rogue.symbol(&mut server, block_id, 2, 0);
    }
    server.wait(MS * 50);
    let sent = server.sent(handle);
    assert!(sent.iter().any(|it| matches!(decode(it).1.segment, Segment::Report(_))));
    assert!(sent.iter().all(|it| it.len() <= dfcp_wire::DATAGRAM_BYTES_MAX));
    assert!(sent.len() < 10, "{} answers", sent.len());
}

/// [report-9], [close-2]: a report that was overtaken on its way is no sign of progress.
#[test]
fn reports_which_are_ignored_do_not_prolong_the_end() {
    for (is_stale, given_up) in [(true, true), (false, false)] {
        let mut server = Server::new(unsealed(GIB));
        let mut rogue = Rogue::new(1);
        assert!(rogue.open(&mut server));
        let handle = rogue.handle.unwrap();
        let now = server.now;
        let connection = server.connection(handle);
        assert_eq!(connection.streams().write(now, StreamId::FIRST, &[7; 10_000]), Ok(10_000));
        connection.streams().finish(now, StreamId::FIRST);
        let highest = server.sent(handle).iter().map(|it| decode(it).1.number).max().unwrap();
        rogue.number = 100_000;
        for second in 0..35 {
            let open = report_payload(&report(highest, 1), std::iter::once(Run::Open { missing: 8 }));
            let datagram = rogue.segment(REPORT, &open);
            server.take(rogue.address, &datagram);
            if second == 0 && is_stale {
                rogue.number = 99_000;
            }
            server.wait(Duration::from_secs(1));
        }
        let why = server.closed(handle);
        let expected = given_up.then_some(Event::Closed(Some(ConnectionError::CloseTimeout)));
        assert_eq!(why, expected, "stale: {is_stale}");
    }
}

/// A peer that reports, as often as it can, that everything was lost.
#[test]
fn a_peer_which_says_that_all_is_lost_gets_a_bounded_number_of_symbols() {
    const K: u64 = 45;
    let config = Config::danger_unsealed().with_rate(Rate::Line);
    let mut server = Server::new(config);
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let handle = rogue.handle.unwrap();
    let now = server.now;
    let block = vec![7; K as usize * usize::from(SYMBOL_SIZE)];
    assert_eq!(server.connection(handle).streams().write(now, StreamId::FIRST, &block), Ok(block.len()));
    server.connection(handle).streams().flush(StreamId::FIRST);
    let (mut data, mut highest) = (0, 0);
    const STEPS: u64 = 2_000;
    for _ in 0..STEPS {
        server.wait(MS);
        for datagram in server.sent(handle) {
            let (_, received) = decode(&datagram);
            highest = highest.max(received.number);
            data += u64::from(matches!(received.segment, Segment::Data(_)));
        }
        let all_lost = report_payload(&report(highest, 1), std::iter::once(Run::Open { missing: K as u16 }));
        let datagram = rogue.segment(REPORT, &all_lost);
        server.take(rogue.address, &datagram);
    }
    let ceiling = limits::SYMBOLS_PER_BLOCK_FACTOR * K as f64 / (1.0 - limits::ROUND_LOSS_BELIEVED_MAX);
    let later = STEPS / limits::CAPPED_BLOCK_INTERVAL_MIN.as_millis() as u64;
    assert!(data <= ceiling as u64 + later + 1, "{data} symbols, {ceiling} and {later} allowed");
    assert!(data > K * 4, "{data}: the test gets there");
}

#[test]
fn options_of_full_length_and_of_unknown_kinds_do_no_harm() {
    for kind in 0..=u8::MAX {
        let mut server = Server::new(unsealed(GIB));
        let mut rogue = Rogue::new(1);
        let syn = rogue.syn();
        let options = SynOptions::BYTES;
        // Append unknown options after the SYN's own, up to 36 bytes of options.
        let mut long = syn[..24 + options].to_vec();
        long.truncate(24 + 19);
        let room = 36 - 19 - 2;
        long.extend([kind, room as u8]);
        long.extend(std::iter::repeat_n(0xaa, room));
        long.extend(&syn[24 + options..syn.len() - 4]);
        long[12] = ((24 + 36) / 4) << 4 | (syn[12] & 0xf);
        long.extend([0; 4]);
        renew_crc(&mut long);
        let (opened, _) = server.take(rogue.address, &long);
        // Unknown kinds up to 127 may be ignored. Known kinds must not occur twice, nor have this length.
        assert_eq!(opened.is_some(), (7..128).contains(&kind), "kind {kind}");
    }
}

#[test]
fn copies_of_a_syn_are_owed_eight_answers_at_a_time() {
    let mut server = Server::new(unsealed(GIB));
    let mut rogue = Rogue::new(1);
    let syn = rogue.syn();
    let handle = server.take(rogue.address, &syn).0.unwrap();
    for _ in 0..1_000 {
        let copy = rogue.syn();
        server.take(rogue.address, &copy);
    }
    assert_eq!(server.sent(handle).len(), limits::ANSWERS_OWED_MAX.into());
    assert_eq!(server.stats().connections, 1);
}

#[test]
fn events_which_nobody_polls_are_bounded() {
    let mut server = Server::new(unsealed(GIB));
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let handle = rogue.handle.unwrap();
    for block_id in 0..1_000 {
        rogue.symbol(&mut server, block_id, 1, 0);
        server.read(handle);
    }
    let connection = server.connection(handle);
    let events = std::iter::from_fn(|| connection.poll_event()).count();
    assert!((1..=limits::EVENTS_MAX).contains(&events), "{events}");
}

#[test]
fn fins_and_their_copies_are_answered_a_bounded_number_of_times() {
    let mut server = Server::new(unsealed(GIB));
    let mut rogue = Rogue::new(1);
    assert!(rogue.open(&mut server));
    let handle = rogue.handle.unwrap();
    server.sent(handle);
    for _ in 0..1_000 {
        let fin = rogue.segment(Segment::Fin(Fin { stream: StreamId::FIRST, end: 0, ack_proof: None }), &[]);
        server.take(rogue.address, &fin);
    }
    let answers = server.sent(handle).len();
    assert!(answers <= usize::from(limits::ANSWERS_OWED_MAX) + 2, "{answers}");
}

// ---- configuration ----

#[test]
fn what_is_configured_keeps_to_its_limits() {
    let refused = [
        Config::danger_unsealed().with_window_blocks(limits::WINDOW_BLOCKS_MAX + 1),
        Config::danger_classic().with_window_blocks(limits::CLASSIC_WINDOW_BLOCKS_MAX + 1),
        Config::danger_unsealed().with_receive_memory_bytes(limits::RECEIVE_MEMORY_BYTES_MAX + 1),
        Config::danger_unsealed().with_receive_memory_bytes(limits::RECEIVE_MEMORY_BYTES_MIN - 1),
        Config::danger_classic().with_classic(ClassicSettings {
            redundancy_bytes: limits::REDUNDANCY_BYTES.1 as u32 + 1,
            ..ClassicSettings::default()
        }),
    ];
    for config in refused {
        assert!(config.validate().is_err(), "{config:?}");
    }
    let accept = Accept::from(Config::danger_unsealed());
    assert!(Accept { connections_max: limits::CONNECTIONS_MAX + 1, ..accept.clone() }.validate().is_err());
    assert!(Accept { half_open_max: limits::HALF_OPEN_WITHOUT_COOKIE_MAX + 1, ..accept }.validate().is_err());
}
