//! Strangers that fill the table of half-open connections beyond its limits: the cost that each may cause, and access
//! for honest callers (`spec/protocol.md` §2.4).

#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

#[expect(dead_code, reason = "another test binary needs more of it")]
mod support;

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use dfcp_proto::{
    Accept, Config, ConnectionError, Cookies, Credentials, Event, PeerKey, PreSharedKey, State, StaticKey, limits,
};
use dfcp_wire::handshake::Payload;
use dfcp_wire::segment::{Reset, ResetReason, Segment, Syn};
use support::{Caller, Server, address, decode, rewritten, syn_options};

const STEP: Duration = Duration::from_micros(500);
const MS: Duration = Duration::from_millis(1);

/// Returns the `n`th address of a host that has several.
type AddressOf = fn(u32) -> SocketAddr;

fn sealed() -> Config {
    Config::sealed(PeerKey::Any)
}

/// A server with a small table: 40 places, of which 20 need no cookie.
fn small() -> Server {
    Server::new(Accept { half_open_max: 20, ..sealed().into() })
}

fn caller(n: u32, from: SocketAddr) -> Caller {
    Caller { address: from, ..Caller::new(n, sealed()) }
}

/// Sends the SYN, with a cookie if the server requires one. Returns the third message, if the SYN was answered.
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

/// Returns the datagram with one bit of its payload changed, and a correct CRC.
fn forged(datagram: &[u8]) -> Vec<u8> {
    let (_, received) = decode(datagram);
    let mut payload = received.payload.to_vec();
    payload[20] ^= 1;
    rewritten(datagram, &received.segment, &payload)
}

/// Returns the number of false proofs that are checked in two seconds, while these callers send nothing else.
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
    assert!(
        server.take(honest.address, &third).0.is_some(),
        "a caller without a false proof does not wait for the others"
    );
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
fn a_proof_is_taken_for_as_long_as_it_is_repeated_and_not_longer() {
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
    // One network of 2⁶⁴ addresses.
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
        let mut late = Caller { address: from(98), ..Caller::calling_at(server.now, 98, sealed()) };
        assert!(begin(&mut server, &mut late).is_some(), "expired entries do not count");
    }
}

/// Fills the table from many addresses. Returns the first one's address and proof.
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

/// [open-32]: an attacker that fills its address's share must not lock out others at this address for the lifetime of
/// an entry.
#[test]
fn an_address_with_its_whole_share_displaces_its_own_oldest_entry_alone() {
    let mut server = small();
    let others: Vec<_> = (1..=10).map(|n| begin(&mut server, &mut caller(n, address(n))).unwrap()).collect();
    let from = |n: u32| SocketAddr::new(address(99).ip(), n as u16);
    let own: Vec<_> = (11..=20).map(|n| begin(&mut server, &mut caller(n, from(n))).unwrap()).collect();
    server.now += limits::HALF_OPEN_SPARED - MS;
    assert!(begin(&mut server, &mut caller(21, from(21))).is_none(), "all of its own are spared");
    server.now += MS;
    assert!(begin(&mut server, &mut caller(22, from(22))).is_some());
    assert_eq!(server.stats().half_open, 20);
    assert!(server.take(from(11), &own[0]).0.is_none(), "displaced");
    assert!(server.take(from(12), &own[1]).0.is_some());
    assert!(
        others.iter().zip(1..).all(|(proof, n)| server.take(address(n), proof).0.is_some()),
        "others keep their places"
    );
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

/// A caller whose first message is for a static key that the server does not have: it costs computation, and is
/// refused.
fn unreadable(n: u32, from: SocketAddr) -> Caller {
    let wrong = PeerKey::Known(StaticKey::from_seed(&[77; 32]).public());
    Caller { address: from, ..Caller::new(n, Config::sealed(wrong)) }
}

/// A server with a static key that requires a cookie from everybody.
fn asks_for_cookies() -> Server {
    let credentials = Credentials { key: Some(server_key()), ..PeerKey::Any.into() };
    Server::new(Accept { cookies: Cookies::Always, ..Config::sealed(credentials).into() })
}

fn server_key() -> StaticKey {
    StaticKey::from_seed(&[9; 32])
}

/// Returns the SYN with the cookie that the server requires.
fn with_cookie(server: &mut Server, caller: &mut Caller) -> Vec<u8> {
    let syn = caller.datagram(server.now).unwrap();
    let asked = server.take(caller.address, &syn).1.unwrap();
    caller.take(server.now, asked);
    caller.datagram(server.now).unwrap()
}

fn reason_of_reset(answer: &[u8]) -> Option<ResetReason> {
    match decode(answer).1.segment {
        Segment::Reset(Reset { reason }) => Some(reason),
        _ => None,
    }
}

/// [open-39]
#[test]
fn copies_of_a_first_message_which_cannot_be_read_cost_one_computation() {
    let mut server = asks_for_cookies();
    let mut stranger = unreadable(1, address(1));
    let syn = with_cookie(&mut server, &mut stranger);
    for _ in 0..20_000 {
        let answer = server.take(stranger.address, &syn).1.unwrap();
        assert_eq!(
            reason_of_reset(&answer),
            Some(ResetReason::CannotRead),
            "each copy is refused as the first one was"
        );
    }
    assert_eq!(server.stats().first_messages_computed, 1);
    let known = Config::sealed(PeerKey::Known(server_key().public()));
    let mut honest = Caller { address: SocketAddr::new(address(1).ip(), 5_000), ..Caller::new(2, known) };
    assert!(begin(&mut server, &mut honest).is_some(), "they used up nothing of their address's share");
}

/// [open-39]: an ephemeral key that makes any shared secret zero. Pattern 1 carries it in the clear.
#[test]
fn a_weak_key_in_a_first_message_costs_nothing() {
    let mut server = Server::new(sealed());
    let mut stranger = caller(1, address(1));
    let segment_of = stranger.datagram(server.now).unwrap();
    let (_, received) = decode(&segment_of);
    let payload = Payload::decode(received.payload).unwrap();
    let (pattern, message) = payload.noise.unwrap();
    let weak = [&[0; 32], &message[32..]].concat();
    let mut changed = [0; 1_400];
    let length = Payload { noise: Some((pattern, &weak)), ..payload }.encode(&mut changed).unwrap();
    let syn = rewritten(&segment_of, &received.segment, &changed[..length]);
    assert_eq!(syn.len(), segment_of.len(), "only the key is another");
    (0..20_000).for_each(|_| assert_eq!(server.take(stranger.address, &syn).1, None));
    assert_eq!((server.stats().first_messages_computed, server.stats().half_open), (0, 0));
    assert!(begin(&mut server, &mut caller(2, address(2))).is_some());
}

/// [open-39]: returns the number of first messages from these addresses that are computed in two seconds.
fn computed(server: &mut Server, from: AddressOf, first: u32) -> u64 {
    let before = server.stats().first_messages_computed;
    for n in 0..1_000 {
        let mut stranger = unreadable(first + n, from(first + n));
        let syn = with_cookie(server, &mut stranger);
        assert_eq!(
            server.take(stranger.address, &syn).1.and_then(|answer| reason_of_reset(&answer)),
            Some(ResetReason::CannotRead)
        );
        server.now += 2 * MS;
    }
    server.stats().first_messages_computed - before
}

const FAILED_PER_S: u64 = limits::FIRST_MESSAGES_FAILED_PER_S as u64;
const FAILED_BURST: u64 = limits::FIRST_MESSAGES_FAILED_BURST as u64;

/// [open-39]
#[test]
fn first_messages_of_one_address_which_cannot_be_read_are_bounded() {
    let share = limits::ADDRESS_SHARE as u64;
    let in_two_seconds = (2 * FAILED_PER_S + FAILED_BURST) / share;
    let ports: AddressOf = |n| SocketAddr::new(address(1).ip(), 1_000 + n as u16);
    let prefix: AddressOf = |n| SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 5, 6, 7, n as u16).into(), 9);
    for from in [ports, prefix] {
        let mut server = asks_for_cookies();
        let computed = computed(&mut server, from, 1);
        assert!((in_two_seconds - 3..=in_two_seconds).contains(&computed), "{computed} were computed on");
        // Other addresses are served meanwhile; and so are honest callers of this address, once there is a token again.
        let known = || Config::sealed(PeerKey::Known(server_key().public()));
        assert!(begin(&mut server, &mut Caller { address: address(9), ..Caller::new(3_000, known()) }).is_some());
        server.now += MS * (1_000 / (FAILED_PER_S / share) as u32);
        assert!(begin(&mut server, &mut Caller { address: from(999), ..Caller::new(3_001, known()) }).is_some());
    }
}

/// [open-39]
#[test]
fn first_messages_of_all_which_cannot_be_read_are_bounded() {
    let mut server = asks_for_cookies();
    let computed = computed(&mut server, address, 1);
    let in_two_seconds = 2 * FAILED_PER_S + FAILED_BURST;
    assert!((in_two_seconds - 3..=in_two_seconds).contains(&computed), "{computed} were computed on");
}

/// [open-39]: without tokens, an honest initiator at the attacker's address is told that its message cannot be read. It
/// retries with pattern 1, whose first message costs nothing until it is known to be well-formed.
#[test]
fn whoever_shares_an_address_with_an_attacker_gets_in_by_asking_for_the_key() {
    let mut server = asks_for_cookies();
    let from: AddressOf = |n| SocketAddr::new(address(1).ip(), 1_000 + n as u16);
    let drain = |server: &mut Server, first| {
        for n in first..first + 20 {
            let mut stranger = unreadable(n, from(n));
            let syn = with_cookie(server, &mut stranger);
            server.take(stranger.address, &syn);
        }
    };
    drain(&mut server, 1);
    let mut honest =
        Caller { address: from(99), ..Caller::new(99, Config::sealed(PeerKey::Known(server_key().public()))) };
    let syn = with_cookie(&mut server, &mut honest);
    let refusal = server.take(honest.address, &syn).1.unwrap();
    assert_eq!(reason_of_reset(&refusal), Some(ResetReason::CannotRead));
    honest.take(server.now, refusal);
    server.now += limits::DOUBT;
    honest.connection.handle_timeout(server.now);
    let events: Vec<_> = std::iter::from_fn(|| honest.connection.poll_event()).collect();
    assert!(events.contains(&Event::Closed(Some(ConnectionError::PinnedKeyRefused))), "{events:?}");
    drain(&mut server, 200);
    let by_fingerprint = Config::sealed(PeerKey::Fingerprint(server_key().public().fingerprint()));
    assert!(begin(&mut server, &mut Caller { address: from(100), ..Caller::new(100, by_fingerprint) }).is_some());
}

/// [open-39]: without a cookie, the source address may be forged.
#[test]
fn spoofed_messages_take_nothing_from_the_address_which_they_name() {
    let credentials = Credentials { key: Some(server_key()), ..PeerKey::Any.into() };
    let mut server = Server::new(Config::sealed(credentials));
    for n in 1..=400 {
        let mut stranger = unreadable(n, address(1));
        let syn = stranger.datagram(server.now).unwrap();
        server.take(stranger.address, &syn);
    }
    assert_eq!(server.stats().first_messages_computed, limits::FIRST_MESSAGES_FAILED_MAX.into());
    let known = Config::sealed(PeerKey::Known(server_key().public()));
    let honest = &mut Caller { address: address(1), ..Caller::new(999, known) };
    assert!(begin(&mut server, honest).is_some(), "the victim's first message is read");
}

/// [open-39]: an attacker cannot have an honest first message refused by sending a changed or truncated copy before it.
#[test]
fn a_changed_copy_which_is_refused_takes_nothing_from_the_genuine_one() {
    let mut server = asks_for_cookies();
    let mut honest = Caller::new(1, Config::sealed(PeerKey::Known(server_key().public())));
    let genuine = with_cookie(&mut server, &mut honest);
    let (_, received) = decode(&genuine);
    let payload = Payload::decode(received.payload).unwrap();
    let other_id = Payload { connection_id: Some(77), ..payload };
    let without_padding = Payload { padding_bytes: None, ..payload };
    let other_size = Segment::Syn(Syn { options: Some(syn_options(700)) });
    let variants = [(received.segment, other_id, 1), (other_size, payload, 2), (received.segment, without_padding, 3)];
    for (segment, payload, computed) in variants {
        let mut bytes = [0; 1_500];
        let from = address(2);
        let syn = |cookie: Option<&[u8]>, bytes: &mut [u8]| {
            let length = Payload { cookie, ..payload }.encode(bytes).unwrap();
            rewritten(&genuine, &segment, &bytes[..length])
        };
        let first = syn(None, &mut bytes);
        let answer = server.take(from, &first).1.unwrap();
        let asked = Payload::decode(decode(&answer).1.payload).unwrap();
        let shown = syn(asked.cookie, &mut bytes);
        server.take(from, &shown);
        assert_eq!(server.stats().first_messages_computed, computed);
    }
    assert!(server.take(honest.address, &genuine).1.is_some_and(|answer| reason_of_reset(&answer).is_none()));
}

/// Answers to an attacker that replays the first message of an initiator which knew the server's key ([trust-2],
/// `SECURITY.md`).
#[test]
fn what_a_replayed_first_message_tells() {
    let own = StaticKey::from_seed(&[1; 32]);
    let initiator = Credentials { key: Some(own.clone()), ..PeerKey::Known(server_key().public()).into() };
    let syn = Caller::new(1, Config::sealed(initiator)).datagram(dfcp_time::Time::from_s(1)).unwrap();
    let server = |key: StaticKey, peer| Config::sealed(Credentials { key: Some(key), peer, ..Credentials::default() });
    let other = || StaticKey::from_seed(&[8; 32]);
    let pre_shared = PreSharedKey::from_bytes(&[7; 32]);
    let cases = [
        ("it has the key, and admits the initiator", server(server_key(), PeerKey::Known(own.public())), None),
        (
            "it does not admit it",
            server(server_key(), PeerKey::Known(other().public())),
            Some(ResetReason::NotAdmitted),
        ),
        (
            "it has another key, and admits it",
            server(other(), PeerKey::Known(own.public())),
            Some(ResetReason::CannotRead),
        ),
        (
            "it has another key, and does not admit it",
            server(other(), PeerKey::Known(other().public())),
            Some(ResetReason::CannotRead),
        ),
        (
            "it admits a pre-shared key alone",
            Config::sealed(Credentials::from(pre_shared)),
            Some(ResetReason::NotAdmitted),
        ),
    ];
    for (what, config, reset) in cases {
        for from in [address(1), address(2)] {
            let mut server = Server::new(config.clone());
            let (opened, answer) = server.take(from, &syn);
            assert_eq!((opened, reason_of_reset(&answer.unwrap())), (None, reset), "{what}");
        }
    }
}

/// Messages too long to be kept, or in datagrams too short to be answered, are dropped before anything is computed.
#[test]
fn what_cannot_be_answered_is_not_computed_on() {
    let mut server = Server::new(sealed());
    let mut honest = caller(1, address(1));
    let syn = honest.datagram(server.now).unwrap();
    let (_, received) = decode(&syn);
    let payload = Payload::decode(received.payload).unwrap();
    let (pattern, message) = payload.noise.unwrap();
    let long = [message, &[0, 0, 200], &[0; 200]].concat();
    let variants = [
        Payload { padding_bytes: None, ..payload },
        Payload { padding_bytes: Some(150), noise: Some((pattern, &long)), ..payload },
    ];
    for variant in variants {
        let mut bytes = [0; 1_500];
        let length = variant.encode(&mut bytes).unwrap();
        let changed = rewritten(&syn, &received.segment, &bytes[..length]);
        assert_eq!(server.take(address(2), &changed), (None, None));
    }
    assert_eq!(server.stats().first_messages_computed, 0);
    assert!(server.take(honest.address, &syn).1.is_some());
    assert_eq!(server.stats().first_messages_computed, 1);
}

/// [noise-11]: the attack that RFC 9257 calls Selfie.
#[test]
fn an_endpoint_does_not_answer_its_own_syn_with_a_pre_shared_key() {
    let shared = || Config::sealed(Credentials::from(PreSharedKey::from_bytes(&[7; 32])));
    let mut server = Server::new(shared());
    let (_, mut own) = server.host.endpoint.connect(server.now, address(5), shared()).unwrap();
    let mut out = [0; dfcp_proto::DATAGRAM_BUFFER_BYTES];
    let length = own.poll_transmit(server.now, &mut out).unwrap().length;
    assert_eq!(server.take(address(5), &out[..length]), (None, None), "it was reflected");
    assert_eq!((server.stats().half_open, server.stats().refused), (0, 1));
    let mut other = Caller::new(6, shared());
    let syn = other.datagram(server.now).unwrap();
    assert!(server.take(other.address, &syn).1.is_some(), "another's is answered");
}
