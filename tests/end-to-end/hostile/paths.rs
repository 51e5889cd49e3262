//! Real and pretended changes of addresses.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use dfcp_end_to_end_tests::world::{World, stranger};
use dfcp_proto::{Config, PeerKey, Rate};
use dfcp_testkit::{Packet, client_address, raw, server_address};
use dfcp_time::Time;

/// Bytes of an encrypted ACK with a challenge.
const CHALLENGE_BYTES: usize = 40;

fn config() -> Config {
    Config::sealed(PeerKey::Any).with_rate(Rate::Fixed { rate_bps: 20_000_000 })
}

fn world(seed: u64, up: u64, down: u64) -> World {
    let mut world = World::new(seed, config());
    (world.client.job.send_bytes, world.server.job.send_bytes) = (up, down);
    world.connect(config()).unwrap();
    world
}

fn is_sealed(datagram: &[u8]) -> bool {
    raw::read(datagram).is_some_and(|it| it.header.is_sealed())
}

/// The attacker's copy of each client datagram arrives first, from his own address or a victim's.
#[test]
fn copies_sent_from_elsewhere_neither_divert_data_nor_amplify() {
    for addresses in [1_u16, 3, 50] {
        let mut world = world(1, 1_000_000, 1_000_000);
        let mut count = 0_u16;
        world.tap = Box::new(move |_, packet| {
            if packet.to != server_address() || !is_sealed(&packet.bytes) {
                return vec![packet];
            }
            count = count.wrapping_add(1);
            vec![Packet { from: stranger(count % addresses), ..packet.clone() }, packet]
        });
        world.finish(Time::from_s(20)).unwrap_or_else(|error| panic!("{addresses} addresses: {error:#}"));
        for number in 0..addresses {
            let ip = stranger(number).ip();
            let (sent, received) = (world.server.sent_to(ip), world.server.received_from(ip));
            assert!(sent <= received, "{sent} bytes went to {ip}, from which {received} had come");
            assert!(sent < 40_000, "{sent} bytes went to {ip}");
        }
        let moved = world.server.host.connections.values().any(|connection| connection.remote() != client_address());
        assert!(!moved, "the server sends elsewhere");
        assert!(world.elsewhere.iter().all(|packet| packet.bytes.len() < 100), "data went elsewhere");
    }
}

/// Copies that arrive after the genuine datagrams, and copies of old ones, do not even cause a challenge.
#[test]
fn late_copies_from_elsewhere_are_not_answered() {
    let mut world = world(2, 500_000, 500_000);
    let mut held: Vec<Packet> = Vec::new();
    world.tap = Box::new(move |_, packet| {
        let mut out = vec![packet.clone()];
        if packet.to == server_address() && is_sealed(&packet.bytes) {
            out.extend(held.iter().rev().take(3).cloned());
            held.push(Packet { from: stranger(5), ..packet });
        }
        out
    });
    world.finish(Time::from_s(20)).unwrap();
    assert_eq!(world.server.sent_to(stranger(5).ip()), 0);
    assert!(world.server.received_from(stranger(5).ip()) > 500_000);
}

/// A NAT that repeatedly gives the client another address.
#[test]
fn a_transfer_follows_a_client_whose_address_changes() {
    let mut world = world(3, 2_000_000, 2_000_000);
    let outward = |now: Time| -> SocketAddr {
        let moves = now.since(Time::from_s(1)).as_millis() / 200;
        let mut address = client_address();
        address.set_port(40_000 + moves as u16);
        address
    };
    let lost = Rc::new(RefCell::new(0));
    let counter = Rc::clone(&lost);
    // Time and length of each server datagram, by destination.
    let sent: Rc<RefCell<BTreeMap<SocketAddr, Vec<_>>>> = Rc::default();
    let record = Rc::clone(&sent);
    world.tap = Box::new(move |now, packet| {
        let outside = outward(now);
        if packet.from == client_address() {
            return vec![Packet { from: outside, ..packet }];
        }
        record.borrow_mut().entry(packet.to).or_default().push((now, packet.bytes.len()));
        if packet.to == outside {
            return vec![Packet { to: client_address(), ..packet }];
        }
        // Sent to an address that the NAT has forgotten.
        *counter.borrow_mut() += 1;
        Vec::new()
    });
    let mut proven = vec![client_address()];
    while world.server.read_to_end == 0 || world.client.read_to_end == 0 {
        assert!(world.step(Time::from_s(20)), "not done: {:?}", world.server.ended);
        if let Some(connection) = world.server.connection()
            && proven.last() != Some(&connection.remote())
        {
            // Data moves only after the address is validated: a challenge must have been sent there, and answered.
            assert!(world.server.sent_bytes.contains_key(&connection.remote()));
            proven.push(connection.remote());
        }
    }
    assert!(world.server.corrupt_at.is_none() && world.client.corrupt_at.is_none());
    assert_eq!((world.server.read, world.client.read), (2_000_000, 2_000_000));
    assert!(proven.len() >= 4, "{proven:?}");
    assert_eq!(world.server.stats().path_changes, proven.len() as u64 - 1);
    let sent = sent.borrow();
    for (old, new) in proven.iter().zip(&proven[1..]) {
        let (first, bytes) = sent[new][0];
        assert_eq!(bytes, CHALLENGE_BYTES, "the first datagram to an unproven address is a challenge");
        let (last_to_old, _) = sent[old].last().unwrap();
        let after = last_to_old.since(first);
        assert!(after <= Duration::from_millis(12), "data went to the old address for {after:?} after the challenge");
    }
    assert!(*lost.borrow() > 0, "nothing was lost by the moves");
}

/// Before an unvalidated address has answered, it gets only challenges, and no more bytes than arrived from it.
#[test]
fn data_moves_only_to_an_address_which_answers() {
    let mut world = world(4, 3_000_000, 3_000_000);
    let moved_at = Time::from_s(1) + Duration::from_millis(300);
    let elsewhere = stranger(9);
    world.tap = Box::new(move |now, packet| {
        if packet.from == client_address() && now >= moved_at {
            return vec![Packet { from: elsewhere, ..packet }]; // datagrams to `elsewhere` are lost
        }
        vec![packet]
    });
    world.run_until(Time::from_s(3));
    let (sent, received) = (world.server.sent_to(elsewhere.ip()), world.server.received_from(elsewhere.ip()));
    assert!(sent > 0 && sent <= received, "{sent} bytes to an address from which {received} had come");
    assert!(world.elsewhere.iter().all(|packet| packet.bytes.len() <= 64), "something else than a question went there");
    assert_eq!(world.server.connection().unwrap().remote(), client_address());
    assert_eq!(world.server.connection().unwrap().stats().path_changes, 0);
}

/// An attacker who copies datagrams, is faster, and forwards the server's challenge to the client and the answer back, is on the path: he
/// gets the traffic that he forwards. When he stops, the connection returns to its path.
#[test]
fn who_forwards_a_question_holds_the_path_only_as_long_as_he_forwards() {
    let mut world = world(5, 2_000_000, 2_000_000);
    let until = Time::from_s(1) + Duration::from_millis(400);
    let attacker = stranger(6);
    world.tap = Box::new(move |now, packet| {
        if now >= until {
            return vec![packet];
        }
        if packet.to == attacker {
            return vec![Packet { from: attacker, to: client_address(), ..packet }];
        }
        if packet.from == client_address() && is_sealed(&packet.bytes) {
            let to = server_address();
            let copy = Packet { from: attacker, to, ..packet.clone() };
            return if packet.to == attacker { vec![copy] } else { vec![copy, packet] };
        }
        vec![packet]
    });
    world.run_until(until);
    let diverted = world.server.connection().unwrap().remote() == attacker;
    world.finish(Time::from_s(40)).unwrap();
    let lost = world.elsewhere.len();
    assert!(lost < 3_000, "{lost} datagrams were lost to the attacker (diverted: {diverted})");
    for connection in world.server.host.connections.values() {
        assert_eq!(connection.remote(), client_address());
    }
}

/// Another port of the client's own address: a host behind the same NAT, or a forger.
fn neighbour(number: u16) -> SocketAddr {
    let mut address = client_address();
    address.set_port(50_000 + number);
    address
}

/// Server's path statistics (RTT, packet size, loss, rate) while `copies` neighbouring ports send copies of the client's datagrams.
fn known_beside(copies: u16) -> (Duration, u16, f64, u64) {
    let mut world = world(7, 2_000_000, 2_000_000);
    let mut count = 0_u16;
    world.tap = Box::new(move |_, packet| {
        if copies == 0 || packet.to != server_address() || !is_sealed(&packet.bytes) {
            return vec![packet];
        }
        count = count.wrapping_add(1);
        vec![Packet { from: neighbour(count % copies), ..packet.clone() }, packet]
    });
    world.finish(Time::from_s(20)).unwrap();
    for number in 0..copies {
        let to = neighbour(number);
        let sent = world.server.sent_bytes.get(&to).copied().unwrap_or_default();
        let received = world.server.received_bytes.get(&to).copied().unwrap_or_default();
        assert!(sent <= received, "{sent} bytes went to {to}, from which {received} had come");
    }
    assert!(world.elsewhere.iter().all(|packet| packet.bytes.len() <= CHALLENGE_BYTES), "data went elsewhere");
    let stats = world.server.stats();
    assert_eq!(stats.path_changes, 0);
    (stats.rtt, stats.packet_bytes, stats.loss, stats.rate_bps)
}

/// An attacker at another port of the same address gets challenges, and path statistics stay unchanged.
#[test]
fn copies_from_another_port_of_the_same_address_get_no_data_and_change_nothing_that_is_known() {
    let (rtt, packet_bytes, loss, rate_bps) = known_beside(0);
    for copies in [1, 3, 50] {
        let seen = known_beside(copies);
        assert_eq!((seen.1, seen.3), (packet_bytes, rate_bps), "{copies} copies");
        assert!(
            seen.0.abs_diff(rtt) < rtt / 20 && (seen.2 - loss).abs() < 0.01,
            "{copies} copies: {seen:?}, {rtt:?}, {loss}"
        );
    }
}

/// An attacker who also forwards challenge and answer owns the port as long as he does, and no statistics are reset, then or later.
#[test]
fn a_neighbour_who_forwards_a_question_resets_nothing() {
    let mut world = world(8, 2_000_000, 2_000_000);
    let until = Time::from_s(1) + Duration::from_millis(400);
    let attacker = neighbour(6);
    world.tap = Box::new(move |now, packet| {
        if now >= until {
            return vec![packet];
        }
        if packet.to == attacker {
            return vec![Packet { from: attacker, to: client_address(), ..packet }];
        }
        if packet.from == client_address() && is_sealed(&packet.bytes) {
            let copy = Packet { from: attacker, to: server_address(), ..packet.clone() };
            return if packet.to == attacker { vec![copy] } else { vec![copy, packet] };
        }
        vec![packet]
    });
    let mut moves = 0;
    while world.now < until {
        if !world.step(until) {
            break;
        }
        let Some(connection) = world.server.connection() else { continue };
        let stats = connection.stats();
        if stats.path_changes > moves {
            moves = stats.path_changes;
            let rtt_us = stats.rtt.as_micros();
            assert!((9_500..12_500).contains(&rtt_us), "a round trip of {rtt_us} us after {moves} moves");
        }
    }
    world.finish(Time::from_s(40)).unwrap();
    assert!(world.server.host.connections.values().all(|connection| connection.remote() == client_address()));
}
