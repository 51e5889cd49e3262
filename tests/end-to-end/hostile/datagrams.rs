//! Datagrams of strangers to an encrypted connection: replays, damaged copies, spoofed ones. None may have any effect, in a strict sense:
//! apart from counters of arrivals, no state, timer or statistic changes, and everything that both ends send afterwards is identical, to
//! the byte and the nanosecond, to a run without the attack.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::time::Duration;

use dfcp_end_to_end_tests::forge::{FLAGS, LENGTH_MAX, fit_crc, mutated, noise, spoofed};
use dfcp_end_to_end_tests::world::{World, stranger};
use dfcp_proto::{Config, PeerKey, Rate, State};
use dfcp_testkit::raw::{self, Header};
use dfcp_testkit::{Node, Packet, Trust, client_address, server_address};
use dfcp_time::Time;
use dfcp_wire::Flags;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Configurations of client and server for each of the three patterns.
fn trusts() -> [(Config, Config); 3] {
    let rate = Rate::Fixed { rate_bps: 20_000_000 };
    let at_rate = |security| {
        Config::sealed(PeerKey::Any).with_rate(rate).with_time_wait(Duration::from_secs(2)).with_security(security)
    };
    [Trust::FirstContact, Trust::Pinned, Trust::PreShared].map(|trust| {
        let (client, server) = trust.security();
        (at_rate(client), at_rate(server))
    })
}

fn world(seed: u64, trust: usize, bytes: u64) -> World {
    let (client, server) = trusts()[trust].clone();
    let mut world = World::new(seed, server);
    (world.client.job.send_bytes, world.server.job.send_bytes) = (bytes, bytes / 2);
    world.connect(client).unwrap();
    world
}

/// Runs a transfer to its end twice, once with `attack` called after each step, and checks that the attack changes nothing.
#[track_caller]
fn assert_without_effect(seed: u64, trust: usize, bytes: u64, mut attack: impl FnMut(&mut World)) {
    let end = Time::from_s(60);
    let mut alone = world(seed, trust, bytes);
    alone.run_until(end);
    let mut attacked = world(seed, trust, bytes);
    while attacked.step(end) {
        attack(&mut attacked);
    }
    for it in [&alone, &attacked] {
        assert_eq!((it.client.read, it.server.read), (bytes / 2, bytes), "seed {seed} trust {trust}");
        assert!(
            it.client.host.connections.is_empty() && it.server.host.connections.is_empty(),
            "seed {seed}: not over"
        );
        assert!(it.client.corrupt_at.is_none() && it.server.corrupt_at.is_none(), "seed {seed}: a wrong byte was read");
    }
    assert_eq!(alone.trace(), attacked.trace(), "seed {seed} trust {trust}: the attack has changed what is sent");
}

/// Delivers a datagram to a node, and checks that it has no effect.
#[track_caller]
fn give_in_vain(node: &mut Node, now: Time, from: std::net::SocketAddr, datagram: &[u8], what: &str) {
    let before = node.observable(now);
    let connections = node.host.connections.len();
    let reply = node.receive(now, from, datagram);
    assert_eq!(node.observable(now), before, "{what}");
    assert_eq!(node.host.connections.len(), connections, "{what} opened a connection");
    assert_eq!(reply, None, "{what} was answered");
}

fn is_sealed(datagram: &[u8]) -> bool {
    raw::read(datagram).is_some_and(|it| it.header.is_sealed())
}

#[test]
fn every_datagram_replayed_at_every_later_moment() {
    for trust in 0..3 {
        let mut seen: Vec<Packet> = Vec::new();
        let mut replayed = 0;
        assert_without_effect(20, trust, 60_000, |world| {
            seen.extend(world.delivered.iter().filter(|packet| is_sealed(&packet.bytes)).cloned());
            let now = world.now;
            for packet in &seen {
                let node = if packet.to == server_address() { &mut world.server } else { &mut world.client };
                for from in [packet.from, stranger(1)] {
                    give_in_vain(node, now, from, &packet.bytes, "a replayed datagram");
                    replayed += 1;
                }
                // The datagram is also returned to its sender.
                let node = if packet.to == server_address() { &mut world.client } else { &mut world.server };
                give_in_vain(node, now, packet.to, &packet.bytes, "a reflected datagram");
            }
        });
        assert!(seen.len() > 60 && replayed > 5_000, "{} datagrams, {replayed} replays", seen.len());
    }
}

/// Copies of handshake segments are answered with copies of the answer, and have no other effect.
#[test]
fn handshake_segments_replayed_after_the_handshake() {
    for trust in 0..3 {
        let mut seen: Vec<Packet> = Vec::new();
        let mut given = 0;
        let mut world = world(21, trust, 200_000);
        while world.step(Time::from_s(60)) {
            seen.extend(world.delivered.iter().filter(|packet| !is_sealed(&packet.bytes)).cloned());
            let now = world.now;
            if now < Time::from_s(1) + Duration::from_millis(40) || world.server.host.connections.is_empty() {
                continue;
            }
            for packet in seen.iter().take(30) {
                let node = if packet.to == server_address() { &mut world.server } else { &mut world.client };
                let before = node.observable(now);
                node.receive(now, packet.from, &packet.bytes);
                assert_eq!(node.observable(now), before, "trust {trust}: {:?}", raw::read(&packet.bytes));
                given += 1;
            }
        }
        assert!(given > 100, "{given}");
        assert_eq!((world.client.read, world.server.read), (100_000, 200_000));
        assert_eq!((world.client.connected, world.server.connected), (1, 1), "trust {trust}");
        assert!(world.server.host.endpoint.stats().half_open <= 1);
    }
}

/// Every single bit of one datagram of each kind is flipped, before the genuine one arrives.
#[test]
fn every_bit_of_every_kind_of_sealed_datagram_flipped() {
    let mut kinds: BTreeMap<(bool, u8, u32), u32> = BTreeMap::new();
    for trust in 0..3 {
        let mut world = world(22, trust, 30_000);
        // Sent datagrams wait here until they have been tried with each bit flipped.
        world.tap = Box::new(|_, packet| vec![packet]);
        let end = Time::from_s(30);
        loop {
            let now = world.now;
            let next = || world.client.transmit(now).or_else(|| world.server.transmit(now));
            let sent: Vec<Packet> = std::iter::from_fn(next).collect();
            for packet in sent {
                let segment = raw::read(&packet.bytes).unwrap();
                let kind =
                    (packet.to == server_address(), segment.header.flags.bits(), segment.payload.len() as u32 / 700);
                let seen = kinds.entry(kind).or_default();
                let node = if packet.to == server_address() { &mut world.server } else { &mut world.client };
                if is_sealed(&packet.bytes) && *seen < 2 && !node.host.connections.is_empty() {
                    *seen += 1;
                    for bit in 0..packet.bytes.len() * 8 {
                        let mut bytes = packet.bytes.clone();
                        bytes[bit / 8] ^= 0x80 >> (bit % 8);
                        let what = format!("trust {trust}: bit {bit} of {:?}", segment.header);
                        give_in_vain(node, now, packet.from, &bytes, &what);
                    }
                }
                world.put(packet, Duration::from_millis(5));
            }
            if !world.step(end) {
                break;
            }
        }
        assert_eq!((world.client.read, world.server.read), (15_000, 30_000), "trust {trust}");
    }
    // Data, reports, FIN, FINACK or ACK, in each direction.
    let tried: Vec<_> = kinds.iter().filter(|(_, count)| **count > 0).map(|(kind, _)| kind).collect();
    assert!(tried.len() >= 7, "{tried:?}");
}

#[test]
fn truncated_and_lengthened_at_every_length() {
    for trust in 0..3 {
        let mut tried = 0;
        let mut turn = 0;
        assert_without_effect(23, trust, 40_000, |world| {
            let now = world.now;
            let delivered = std::mem::take(&mut world.delivered);
            for packet in delivered.iter().filter(|packet| is_sealed(&packet.bytes)) {
                turn += 1;
                let node = if packet.to == server_address() { &mut world.server } else { &mut world.client };
                if node.host.connections.is_empty() || turn % 4 > 0 {
                    continue;
                }
                // The number is a future one, so that the datagram is not dropped for its age.
                let mut bytes = packet.bytes.clone();
                bytes[20..24].copy_from_slice(&0x1000_u32.to_be_bytes());
                for length in 0..LENGTH_MAX {
                    let mut cut = bytes.clone();
                    cut.resize(length, 0);
                    give_in_vain(node, now, packet.from, &cut, &format!("length {length}"));
                    tried += 1;
                }
            }
        });
        assert!(tried > 20 * LENGTH_MAX, "{tried}");
    }
}

#[test]
fn noise_mutations_and_spoofs_by_one_who_knows_all_ids() {
    for (seed, trust) in [(30, 0), (31, 1), (32, 2), (33, 0)] {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut tried = 0;
        assert_without_effect(seed, trust, 150_000, |world| {
            let now = world.now;
            for packet in std::mem::take(&mut world.delivered) {
                let Some(id) = raw::read(&packet.bytes).map(|it| it.header.connection_id()) else { continue };
                let node = if packet.to == server_address() { &mut world.server } else { &mut world.client };
                if !is_sealed(&packet.bytes) || node.host.connections.is_empty() {
                    continue;
                }
                for _ in 0..20 {
                    let flags = FLAGS[random.random_range(0..FLAGS.len())];
                    let datagram = match random.random_range(0..3) {
                        0 => noise(&mut random),
                        1 => mutated(&mut random, &packet.bytes),
                        _ if flags == Flags::SYN => continue, // a SYN opens nothing, but may be answered
                        _ => spoofed(&mut random, id, flags),
                    };
                    let from = if random.random_bool(0.5) { packet.from } else { stranger(random.random_range(0..99)) };
                    give_in_vain(node, now, from, &datagram, &format!("seed {seed}: {datagram:02x?}"));
                    tried += 1;
                }
            }
        });
        assert!(tried > 3_000, "{tried}");
    }
}

fn reset(id: u32, sealed: bool, number: u32) -> Vec<u8> {
    let flags = if sealed { Flags::RST | Flags::SEC } else { Flags::RST };
    let head = Header { s3: number, ..Header::modern(flags, id) };
    raw::write(&head, &[], if sealed { &[7; 16] } else { &[] })
}

/// RST without encryption, and encrypted with a wrong tag, with the right id and old, next and far future numbers.
#[test]
fn a_spoofed_reset_in_every_state() {
    for trust in 0..3 {
        let mut states = Vec::new();
        let mut ids = [0; 2];
        let mut world = world(40, trust, 60_000);
        while world.step(Time::from_s(60)) {
            let now = world.now;
            for packet in std::mem::take(&mut world.delivered) {
                let id = raw::read(&packet.bytes).unwrap().header.connection_id();
                if is_sealed(&packet.bytes) {
                    ids[usize::from(packet.to == server_address())] = id;
                }
            }
            for (node, id, from) in
                [(&mut world.client, ids[0], server_address()), (&mut world.server, ids[1], client_address())]
            {
                let state = node.state();
                if id == 0 || node.host.connections.is_empty() {
                    continue;
                }
                for (sealed, number) in [(false, 0), (false, 50), (true, 1), (true, 60), (true, u32::MAX)] {
                    give_in_vain(node, now, from, &reset(id, sealed, number), &format!("an RST in {state:?}"));
                }
                if !states.contains(&state) {
                    states.push(state);
                }
            }
        }
        assert_eq!((world.client.read, world.server.read), (30_000, 60_000), "trust {trust}");
        let expected = [State::Established, State::FinWait1, State::TimeWait];
        assert!(expected.iter().all(|state| states.contains(state)), "only in {states:?}");
    }
}

/// Before the SYN is answered nothing authenticates the peer: an RST is accepted, but only after three seconds in which a genuine answer is
/// preferred, even one delayed by the path or a loss.
#[test]
fn a_spoofed_reset_in_syn_sent_waits_for_the_genuine_answer() {
    for with_answer in [true, false] {
        let mut world = world(41, 0, 10_000);
        world.tap = Box::new(move |now, packet| {
            let Some(segment) = raw::read(&packet.bytes) else { return vec![packet] };
            if segment.header.flags != Flags::SYN {
                return vec![packet];
            }
            let id = dfcp_wire::handshake::Payload::decode(segment.payload).ok().and_then(|it| it.connection_id);
            let spoofed = Packet { from: packet.to, to: packet.from, bytes: reset(id.unwrap_or(1), false, 0) };
            // With `with_answer`, genuine SYNs pass from 2 s after the first one on.
            if with_answer && now >= Time::from_s(3) { vec![spoofed, packet] } else { vec![spoofed] }
        });
        world.run_until(Time::from_s(7));
        if with_answer {
            assert_eq!((world.client.connected, world.server.read), (1, 10_000));
        } else {
            assert_eq!(world.client.ended.len(), 1, "{:?}", world.client.ended);
            assert!(world.client.host.connections.is_empty());
        }
    }
}

/// Datagrams with a damaged tag are only counted, however many there are; memory and timers stay unchanged.
#[test]
fn a_hundred_thousand_forgeries_are_counted_and_forgotten() {
    let mut world = world(42, 0, 1_000_000);
    world.run_until(Time::from_s(1) + Duration::from_millis(200));
    let packets: Vec<Packet> = std::iter::from_fn(|| world.client.transmit(world.now)).collect();
    let genuine = world.delivered.iter().chain(&packets).find(|it| it.to == server_address() && is_sealed(&it.bytes));
    let mut forged = genuine.unwrap().bytes.clone();
    let now = world.now;
    let before = world.server.observable(now);
    let counted = world.server.connection().unwrap().stats();
    for number in 0..100_000_u32 {
        forged[20..24].copy_from_slice(&(100_000 + number).to_be_bytes());
        world.server.receive(now, client_address(), &forged);
    }
    assert_eq!(world.server.observable(now), before);
    let stats = world.server.connection().unwrap().stats();
    assert_eq!(stats.segments_forged - counted.segments_forged, 100_000);
    assert_eq!(stats.segments_dropped - counted.segments_dropped, 100_000);
    for packet in packets {
        world.put(packet, Duration::from_millis(5));
    }
    world.finish(Time::from_s(20)).unwrap();
}

/// Damaged unencrypted segments with a corrected CRC: an unencrypted connection can be falsified, as its name says, but must not crash,
/// hang or grow.
#[test]
fn an_unsealed_connection_ends_in_an_error_at_worst() {
    for seed in 0..30 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut world = World::new(seed, Config::danger_unsealed());
        (world.client.job.send_bytes, world.server.job.send_bytes) = (100_000, 100_000);
        world.tap = Box::new(move |_, packet| {
            if !random.random_bool(0.05) {
                return vec![packet];
            }
            let mut bytes = mutated(&mut random, &packet.bytes);
            fit_crc(&mut bytes);
            vec![Packet { bytes, ..packet.clone() }, packet]
        });
        world.connect(Config::danger_unsealed()).unwrap();
        world.run_until(Time::from_s(200));
        for node in [&world.client, &world.server] {
            // The stream with its headers, and at most one and a half times as much for requests in damaged reports.
            let sent_bytes = node.sent_bytes.values().sum::<u64>();
            assert!(sent_bytes < 250_000, "seed {seed}: {sent_bytes} bytes were sent for a stream of 100 000");
            let open = node.host.connections.values().filter(|it| it.state() != State::Closed).count();
            assert_eq!(open, 0, "seed {seed}: still open after the idle timeout");
        }
    }
}
