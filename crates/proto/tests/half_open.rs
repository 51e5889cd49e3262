//! Strangers who drive the table of half-open connections past its limits: what each may cost, and who still gets in
//! (`spec/protocol.md` §2.4).

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[expect(dead_code, reason = "another test binary needs more of it")]
mod support;

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use dfcp_proto::{
    Accept, Config, ConnectionError, Credentials, Event, PeerKey, PreSharedKey, State, StaticKey, limits,
};
use dfcp_wire::Segment;
use support::{Caller, Server, address, encode};

const STEP: Duration = Duration::from_micros(500);
const MS: Duration = Duration::from_millis(1);

/// The `n`th address of somebody who has several.
type AddressOf = fn(u32) -> SocketAddr;

fn sealed() -> Config {
    Config::sealed(PeerKey::Any)
}

/// A small table: 40 places, 20 of them without a cookie.
fn small() -> Server {
    Server::new(Accept { half_open_max: 20, ..sealed().into() })
}

fn caller(n: u32, from: SocketAddr) -> Caller {
    Caller { address: from, ..Caller::new(n, sealed()) }
}

/// Sends the SYN, with the cookie if one is asked for, and returns the third message if the SYN was answered.
fn begin(server: &mut Server, caller: &mut Caller) -> Option<Vec<u8>> {
    for _ in 0..2 {
        let syn = caller.datagram(server.now)?;
        let answer = server.take(caller.address, &syn).1?;
        caller.take(server.now, answer);
        if caller.connection.state() == State::Established {
            return caller.datagram(server.now);
        }
    }
    None
}

/// A datagram in whose payload one bit is another, and which is whole otherwise.
fn forged(datagram: &[u8]) -> Vec<u8> {
    let segment = Segment::decode(datagram).unwrap();
    let mut payload = segment.payload.to_vec();
    payload[20] ^= 1;
    encode(&segment.header, &segment.options, &payload)
}

/// How many false proofs are looked at in the two seconds in which so many callers send nothing else.
fn looked_at(server: &mut Server, proofs: &[(SocketAddr, Vec<u8>)]) -> u64 {
    let before = server.stats().proofs_failed;
    for _ in 0..4_000 {
        for (from, proof) in proofs {
            server.take(*from, proof);
        }
        server.now += STEP;
    }
    server.stats().proofs_failed - before
}

/// [open-38]
#[test]
fn false_proofs_of_all_together_are_bounded_and_the_first_of_each_is_looked_at() {
    let mut server = Server::new(sealed());
    let proofs: Vec<_> = (1..=200)
        .map(|n| {
            let mut caller = caller(n, address(n));
            (caller.address, forged(&begin(&mut server, &mut caller).unwrap()))
        })
        .collect();
    let looked_at = looked_at(&mut server, &proofs);
    let retries = 2 * u64::from(limits::PROOF_RETRIES_PER_S) + u64::from(limits::PROOF_RETRIES_BURST);
    assert!((200 + retries - 5..=200 + retries).contains(&looked_at), "{looked_at} were looked at");
    let mut honest = caller(999, address(999));
    let third = begin(&mut server, &mut honest).unwrap();
    for (from, proof) in &proofs {
        server.take(*from, proof);
    }
    assert!(server.take(honest.address, &third).0.is_some(), "who had no false proof does not wait for the others");
}

/// [open-38]
#[test]
fn one_address_gets_a_quarter_of_the_retries_and_leaves_the_others_theirs() {
    let mut server = Server::new(sealed());
    let from = |port| SocketAddr::new(address(1).ip(), port);
    let proofs: Vec<_> = (1..=40)
        .map(|n| {
            let mut caller = caller(n, from(n as u16));
            (caller.address, forged(&begin(&mut server, &mut caller).unwrap()))
        })
        .collect();
    let mut victim = caller(99, address(99));
    let third = begin(&mut server, &mut victim).unwrap();
    server.take(victim.address, &forged(&third));
    let looked_at = looked_at(&mut server, &proofs);
    let share = limits::ADDRESS_SHARE as u64;
    let retries = (2 * u64::from(limits::PROOF_RETRIES_PER_S) + u64::from(limits::PROOF_RETRIES_BURST)) / share;
    assert!((40 + retries - 5..=40 + retries).contains(&looked_at), "{looked_at} were looked at");
    assert!(server.take(victim.address, &third).0.is_some(), "one address alone does not use it up");
}

#[test]
fn a_proof_is_taken_for_ten_seconds_and_not_longer() {
    for (late, opened) in [(Duration::ZERO, true), (MS, false)] {
        let mut server = Server::new(sealed());
        let mut caller = caller(1, address(1));
        let third = begin(&mut server, &mut caller).unwrap();
        server.now += limits::HALF_OPEN_TIMEOUT - MS + late;
        assert_eq!(server.take(caller.address, &third).0.is_some(), opened, "{late:?}");
        assert_eq!(server.stats().half_open, 0);
    }
}

/// [open-32]
#[test]
fn one_address_has_a_quarter_of_the_places_half_of_them_without_a_cookie() {
    let v4 = |n: u32| SocketAddr::new(address(1).ip(), n as u16);
    // One network of 2^64 addresses.
    let v6 = |n: u32| SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 5, 6, 7, n as u16).into(), 9);
    let ways: [(AddressOf, SocketAddr); 2] =
        [(v4, address(2)), (v6, SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1).into(), 9))];
    for (from, other) in ways {
        let mut server = small();
        for n in 1..=30 {
            let mut stranger = caller(n, from(n));
            let syn = stranger.datagram(server.now).unwrap();
            server.take(stranger.address, &syn);
        }
        assert_eq!((server.stats().half_open, server.stats().cookies_sent), (5, 25));
        let opened = (31..=60).filter(|&n| begin(&mut server, &mut caller(n, from(n))).is_some()).count();
        assert_eq!((opened, server.stats().half_open), (5, 10));
        let cookies = server.stats().cookies_sent;
        assert!(begin(&mut server, &mut caller(99, other)).is_some(), "others find their place");
        assert_eq!(server.stats().cookies_sent, cookies, "and need no cookie");
        server.now += limits::HALF_OPEN_TIMEOUT;
        assert!(begin(&mut server, &mut caller(98, from(98))).is_some(), "what is over does not count");
    }
}

/// Fills the table from many addresses; returns the first one's proof.
fn fill(server: &mut Server) -> (SocketAddr, Vec<u8>) {
    let proofs: Vec<_> = (1..=40).map(|n| begin(server, &mut caller(n, address(n))).unwrap()).collect();
    assert_eq!(server.stats().half_open, 40);
    (address(1), proofs[0].clone())
}

/// [open-32]
#[test]
fn the_oldest_makes_room_when_it_is_two_seconds_old() {
    let mut server = small();
    let (oldest, proof) = fill(&mut server);
    server.now += limits::HALF_OPEN_SPARED - MS;
    assert!(begin(&mut server, &mut caller(50, address(50))).is_none(), "all are spared");
    server.now += MS;
    assert!(begin(&mut server, &mut caller(51, address(51))).is_some());
    assert_eq!(server.stats().half_open, 40);
    assert!(server.take(oldest, &proof).0.is_none(), "its place is another's");
}

#[test]
fn a_first_message_which_cannot_be_read_costs_nobody_a_place() {
    let mut server = small();
    let (oldest, proof) = fill(&mut server);
    server.now += limits::HALF_OPEN_SPARED;
    let wrong = PeerKey::Known(StaticKey::from_seed(&[77; 32]).public());
    let mut garbage = Caller::new(50, Config::sealed(wrong));
    for _ in 0..2 {
        let syn = garbage.datagram(server.now).unwrap();
        let answer = server.take(garbage.address, &syn).1.unwrap();
        garbage.take(server.now, answer);
    }
    assert_eq!((server.stats().half_open, server.stats().refused), (40, 1), "with its cookie it was read, and refused");
    assert!(server.take(oldest, &proof).0.is_some());
}

#[test]
fn an_initiator_which_is_proven_and_finds_no_room_is_told() {
    let mut server = Server::new(Accept { connections_per_address_max: 1, ..sealed().into() });
    let mut callers = [1, 2].map(|n| caller(n, SocketAddr::new(address(1).ip(), n as u16)));
    let thirds = callers.each_mut().map(|caller| begin(&mut server, caller).unwrap());
    assert!(server.take(callers[0].address, &thirds[0]).0.is_some());
    let (opened, told) = server.take(callers[1].address, &thirds[1]);
    let told = told.unwrap();
    assert!(opened.is_none() && told.len() <= thirds[1].len());
    callers[1].take(server.now, told);
    let events: Vec<_> = std::iter::from_fn(|| callers[1].connection.poll_event()).collect();
    assert!(events.contains(&Event::Closed(Some(ConnectionError::Reset))), "{events:?}");
    let mut late = caller(3, callers[0].address);
    let syn = late.datagram(server.now).unwrap();
    assert_eq!(server.take(late.address, &syn), (None, None), "whose address has no room is not answered at all");
}

/// [noise-11], the attack which RFC 9257 calls Selfie.
#[test]
fn an_endpoint_does_not_answer_its_own_syn_with_a_pre_shared_key() {
    let shared = || Config::sealed(Credentials::from(PreSharedKey::from_bytes(&[7; 32])));
    let mut server = Server::new(shared());
    let (_, mut own) = server.endpoint.connect(server.now, address(5), shared()).unwrap();
    let mut out = [0; dfcp_proto::DATAGRAM_BUFFER_BYTES];
    let length = own.poll_transmit(server.now, &mut out).unwrap().length;
    assert_eq!(server.take(address(5), &out[..length]), (None, None), "it was reflected");
    assert_eq!((server.stats().half_open, server.stats().refused), (0, 1));
    let mut other = Caller::new(6, shared());
    let syn = other.datagram(server.now).unwrap();
    assert!(server.take(other.address, &syn).1.is_some(), "another's is answered");
}
