//! Malicious handshakes: amplification, half-open connections, cookies, forged proofs.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use dfcp_end_to_end_tests::forge::{fit_crc, mutated, noise};
use dfcp_end_to_end_tests::puppet::{MODEST, Puppet, first_contact, pinned};
use dfcp_end_to_end_tests::world::{World, stranger};
use dfcp_proto::{Accept, Config, Cookies, Credentials, PeerKey, PreSharedKey, State, StaticKey, Verifier, limits};
use dfcp_secure::InitiatorKeys;
use dfcp_testkit::raw::{self, Header};
use dfcp_testkit::{Packet, client_address, server_address};
use dfcp_time::Time;
use dfcp_wire::{Flags, Profile};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Padding sizes of SYNs, bytes: none, some, and much. An honest SYN is padded to 256 bytes in total.
const PADDINGS: [usize; 3] = [0, 150, 900];

fn server_key() -> StaticKey {
    StaticKey::from_seed(&[9; 32])
}

/// Server that accepts static keys except one, and one pre-shared key.
fn server() -> Accept {
    let unwanted = StaticKey::from_seed(&[13; 32]).public();
    let credentials = Credentials {
        key: Some(server_key()),
        pre_shared: Some(PreSharedKey::from_bytes(&[7; 32])),
        peer: PeerKey::Verified(Verifier::new(move |key| *key != unwanted)),
        ..Credentials::default()
    };
    Accept::from(Config::sealed(credentials))
}

/// All kinds of handshake starts: with right and wrong keys.
fn ways() -> Vec<(&'static str, InitiatorKeys)> {
    let pinned = |seed, responder: StaticKey| pinned(seed, responder.public());
    vec![
        ("first contact", first_contact(1)),
        ("pinned", pinned(1, server_key())),
        ("pinned, wrong key", pinned(1, StaticKey::from_seed(&[8; 32]))),
        ("pinned, not admitted", pinned(13, server_key())),
        ("pre-shared", InitiatorKeys::PreShared(PreSharedKey::from_bytes(&[7; 32]))),
        ("pre-shared, wrong key", InitiatorKeys::PreShared(PreSharedKey::from_bytes(&[6; 32]))),
    ]
}

/// Runs a server alone for this time, with everything that it sends.
fn rest(world: &mut World, duration: Duration) {
    let until = world.now + duration;
    world.run_until(until);
}

fn give(world: &mut World, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
    let now = world.now;
    world.server.receive(now, from, datagram)
}

#[track_caller]
fn assert_not_amplified(world: &World, from: SocketAddr, what: &str) {
    let (sent, received) = (world.server.sent_to(from.ip()), world.server.received_from(from.ip()));
    assert!(sent <= received, "{what}: {sent} bytes went to an unproven address which had sent {received}");
}

#[test]
fn no_more_bytes_go_to_an_unproven_address_than_came_from_it() {
    for cookies in [Cookies::UnderLoad, Cookies::Always] {
        let mut world = World::new(1, Accept { cookies, ..server() });
        world.server.job.send_bytes = 1_000_000;
        let mut number = 0;
        let mut answered = 0;
        for (name, keys) in ways() {
            for padding in PADDINGS {
                number += 1;
                let from = stranger(number);
                let puppet = Puppet::new(number.into(), keys.clone(), [number as u8; 32], &MODEST).unwrap();
                for copy in 0..20 {
                    let cookie = [1; 17];
                    let shown = (copy % 3 == 2).then_some(cookie.as_slice());
                    let answer = give(&mut world, from, &puppet.syn(shown, padding).unwrap());
                    answered += u64::from(answer.is_some());
                    let honest = answer.as_deref().and_then(Puppet::cookie);
                    if let Some(cookie) = honest {
                        answered +=
                            u64::from(give(&mut world, from, &puppet.syn(Some(&cookie), padding).unwrap()).is_some());
                    }
                    assert_not_amplified(&world, from, &format!("{name}, {padding} bytes of padding, {cookies:?}"));
                    rest(&mut world, Duration::from_millis(300));
                    assert_not_amplified(&world, from, &format!("{name}, {padding} bytes of padding, {cookies:?}"));
                }
            }
        }
        assert!(answered > 200, "only {answered} SYNs were answered: nothing was tested");
        assert_eq!(world.server.connected, 0);
    }
}

#[test]
fn refusals_of_other_profiles_versions_and_codes_are_not_amplified_either() {
    let mut world = World::new(2, server());
    let mut refused = 0;
    // Version, profile, code and symbol size are options of 3, 3, 3 and 4 bytes, plus 3 of padding.
    let variants: [fn(&mut Vec<u8>); 5] = [
        |options| options[2] = 9,
        |options| options[8] = 77,
        |options| options[11..13].copy_from_slice(&[0, 1]),
        |options| {
            options.drain(3..6);
            options.truncate(12);
        },
        |_| {},
    ];
    for (number, change) in (1_u16..).zip(variants) {
        for profile in [Profile::Modern, Profile::Classic] {
            let from = stranger(number);
            let puppet = Puppet::new(u32::from(number), first_contact(1), [number as u8; 32], &MODEST).unwrap();
            let syn = puppet.syn(None, 0).unwrap();
            let segment = raw::read(&syn).unwrap();
            let mut options = segment.options.to_vec();
            change(&mut options);
            if profile == Profile::Classic {
                options.clear();
            }
            let head = Header { profile, s1: 1, s2: 2, s3: 3, ..segment.header };
            let payload = if profile == Profile::Classic { &[] } else { segment.payload };
            let changed = raw::write(&head, &options, payload);
            refused += u64::from(give(&mut world, from, &changed).is_some());
            rest(&mut world, Duration::from_secs(5));
            assert_not_amplified(&world, from, &format!("variant {number} {profile:?}"));
        }
    }
    assert!(refused >= 5, "only {refused} were refused with an answer");
}

#[test]
fn an_unsealed_listener_does_not_amplify() {
    let mut world = World::new(3, Config::danger_unsealed());
    world.server.job.send_bytes = 1_000_000;
    world.connect(Config::danger_unsealed()).unwrap();
    let syn = world.client.transmit(world.now).unwrap().bytes;
    for copies in 1..30 {
        give(&mut world, stranger(1), &syn);
        rest(&mut world, Duration::from_millis(1_500));
        assert_not_amplified(&world, stranger(1), &format!("{copies} copies of an unsealed SYN"));
    }
    assert!(world.server.sent_to(stranger(1).ip()) > 0, "nothing was answered: nothing was tested");
}

#[test]
fn random_and_mutated_datagrams_are_not_amplified() {
    for seed in 0..4 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut world = World::new(seed, server());
        let puppet = Puppet::new(5, first_contact(1), [3; 32], &MODEST).unwrap();
        let syn = puppet.syn(None, 150).unwrap();
        for _ in 0..5_000 {
            let from = stranger(random.random_range(0..50));
            let datagram = if random.random_bool(0.3) { noise(&mut random) } else { mutated(&mut random, &syn) };
            give(&mut world, from, &datagram);
        }
        rest(&mut world, Duration::from_secs(60));
        for number in 0..50 {
            assert_not_amplified(&world, stranger(number), &format!("seed {seed}"));
        }
    }
}

#[test]
fn an_honest_half_open_connection_takes_half_a_kilobyte() {
    for trust in [PeerKey::Any, PeerKey::Known(server_key().public())] {
        let mut world = World::new(4, server());
        world.connect(Config::sealed(trust.clone())).unwrap();
        let syn = world.client.transmit(world.now).unwrap().bytes;
        give(&mut world, stranger(1), &syn).unwrap();
        let stats = world.server.host.endpoint.stats();
        assert_eq!(stats.half_open, 1);
        assert!(stats.half_open_bytes <= limits::HALF_OPEN_BYTES_MAX, "{trust:?}: {stats:?}");
    }
}

/// The payload of XX's first message is in plaintext and must be kept, so a long one could cost memory.
#[test]
fn a_half_open_connection_takes_half_a_kilobyte_however_long_its_first_message() {
    let bytes = [0, 100, 400, 1_000].map(|extra_bytes| {
        let mut world = World::new(4, server());
        let puppet = Puppet::with_extra(1, first_contact(1), [5; 32], &MODEST, extra_bytes).unwrap();
        give(&mut world, stranger(1), &puppet.syn(None, 150).unwrap());
        world.server.host.endpoint.stats().half_open_bytes
    });
    // Keeping no state for such a sender is also permitted.
    assert!(bytes.iter().all(|bytes| *bytes <= limits::HALF_OPEN_BYTES_MAX), "{bytes:?}");
}

#[test]
fn past_the_threshold_nothing_is_kept_without_a_cookie() {
    let mut world = World::new(4, server());
    let ways = ways();
    for number in 0..2_000_u16 {
        let (_, keys) = &ways[usize::from(number) % 2 * 4];
        let puppet = Puppet::new(u32::from(number) + 1, keys.clone(), [5; 32], &MODEST).unwrap();
        let answer = give(&mut world, stranger(number), &puppet.syn(None, 150).unwrap());
        let stats = world.server.host.endpoint.stats();
        assert!(stats.half_open <= limits::HALF_OPEN_WITHOUT_COOKIE_MAX, "{stats:?}");
        let asked = answer.as_deref().and_then(Puppet::cookie).is_some();
        assert_eq!(asked, usize::from(number) >= limits::HALF_OPEN_WITHOUT_COOKIE_MAX, "SYN {number}");
    }
    let full = world.server.host.endpoint.stats();
    assert_eq!((full.connections, full.cookies_sent), (0, 2_000 - 256));
    // With cookies, the same number of further half-open connections is permitted.
    for number in 0..400_u16 {
        let from = stranger(10_000 + number);
        let puppet = Puppet::new(u32::from(number) + 50_000, first_contact(1), [5; 32], &MODEST).unwrap();
        let answer = give(&mut world, from, &puppet.syn(None, 150).unwrap()).unwrap();
        let cookie = Puppet::cookie(&answer).unwrap();
        give(&mut world, from, &puppet.syn(Some(&cookie), 150).unwrap());
    }
    assert_eq!(world.server.host.endpoint.stats().half_open, 512);
    // Entries expire, and an honest client gets in.
    rest(&mut world, limits::HALF_OPEN_TIMEOUT + Duration::from_secs(1));
    world.connect(Config::sealed(PeerKey::Any)).unwrap();
    world.client.job.send_bytes = 100_000;
    world.finish(world.now + Duration::from_secs(10)).unwrap();
    assert!(world.server.host.endpoint.stats().half_open <= 1);
}

/// A single real address that answers cookies and takes every place that becomes free.
#[test]
fn an_honest_client_gets_in_while_one_address_begins_handshakes_without_end() {
    let mut world = World::new(11, server());
    world.client.job.send_bytes = 20_000;
    let mut id = 0;
    let end = Time::from_s(35);
    let mut connecting = false;
    while world.client.connected == 0 && world.now < end {
        // A hundred handshakes per second, each with its cookie: twice the rate at which places become free.
        {
            id += 1;
            let puppet = Puppet::new(id, first_contact(1), [5; 32], &MODEST).unwrap();
            let answer = give(&mut world, stranger(1), &puppet.syn(None, 150).unwrap());
            if let Some(cookie) = answer.as_deref().and_then(Puppet::cookie) {
                give(&mut world, stranger(1), &puppet.syn(Some(&cookie), 150).unwrap());
            }
        }
        if !connecting && world.now >= Time::from_s(3) {
            connecting = true;
            world.connect(Config::sealed(PeerKey::Any)).unwrap();
        }
        rest(&mut world, Duration::from_millis(10));
    }
    let (ended, stats) = (&world.client.ended, world.server.host.endpoint.stats());
    assert!(world.client.connected == 1, "shut out by one address: {ended:?} {stats:?}");
}

#[test]
fn cookies_are_for_one_address_one_id_one_message_and_a_while() {
    let mut world = World::new(5, Accept { cookies: Cookies::Always, ..server() });
    let puppet = Puppet::new(1, first_contact(1), [5; 32], &MODEST).unwrap();
    let answer = give(&mut world, stranger(1), &puppet.syn(None, 150).unwrap()).unwrap();
    let cookie = Puppet::cookie(&answer).unwrap();
    assert_eq!(world.server.host.endpoint.stats().half_open, 0, "nothing is kept");
    let asks_again = |world: &mut World, from: SocketAddr, puppet: &Puppet, cookie: &[u8]| {
        let answer = give(world, from, &puppet.syn(Some(cookie), 150).unwrap()).unwrap();
        Puppet::cookie(&answer).is_some()
    };
    let mut other_port = stranger(1);
    other_port.set_port(7_001);
    assert!(asks_again(&mut world, stranger(2), &puppet, &cookie), "another address");
    assert!(asks_again(&mut world, other_port, &puppet, &cookie), "another port");
    let other_id = Puppet::new(2, first_contact(1), [5; 32], &MODEST).unwrap();
    assert!(asks_again(&mut world, stranger(1), &other_id, &cookie), "another id");
    let other_message = Puppet::new(1, first_contact(1), [6; 32], &MODEST).unwrap();
    assert!(asks_again(&mut world, stranger(1), &other_message, &cookie), "another message");
    for byte in 0..cookie.len() {
        for bit in 0..8 {
            let mut changed = cookie.clone();
            changed[byte] ^= 1 << bit;
            assert!(asks_again(&mut world, stranger(1), &puppet, &changed), "bit {bit} of byte {byte}");
        }
    }
    rest(&mut world, Duration::from_secs(14));
    let stats = world.server.host.endpoint.stats();
    assert_eq!((stats.half_open, stats.cookies_sent), (0, 5 + 8 * cookie.len() as u64), "nothing is kept");
    assert!(!asks_again(&mut world, stranger(1), &puppet, &cookie), "a cookie holds for 15 s at least");
    // The entry that the cookie opened has expired as well.
    world.now += limits::HALF_OPEN_TIMEOUT;
    assert!(asks_again(&mut world, stranger(1), &puppet, &cookie), "a cookie holds for 30 s at most");
    assert_eq!(world.server.host.endpoint.stats().cookies_sent, stats.cookies_sent + 1);
}

#[test]
fn an_honest_client_gets_in_where_everybody_is_asked_for_a_cookie() {
    let mut world = World::new(6, Accept { cookies: Cookies::Always, ..server() });
    world.connect(Config::sealed(PeerKey::Known(server_key().public()))).unwrap();
    (world.client.job.send_bytes, world.server.job.send_bytes) = (300_000, 200_000);
    world.finish(Time::from_s(20)).unwrap();
    assert!(world.server.host.endpoint.stats().cookies_sent > 0);
}

/// Opens a connection from `from`; returns true if the server accepted it.
fn opens(world: &mut World, id: u32, from: SocketAddr) -> bool {
    let mut puppet = Puppet::new(id, first_contact(1), [5; 32], &MODEST).unwrap();
    let mut answer = give(world, from, &puppet.syn(None, 150).unwrap());
    if let Some(cookie) = answer.as_deref().and_then(Puppet::cookie) {
        answer = give(world, from, &puppet.syn(Some(&cookie), 150).unwrap());
    }
    let Some(third) = answer.and_then(|answer| puppet.take_answer(&answer).ok()?) else { return false };
    let before = world.server.host.connections.len();
    give(world, from, &third);
    world.server.host.connections.len() > before
}

/// A host with an IPv6 address usually has the 2⁶⁴ addresses of its prefix: they count as one.
#[test]
fn one_ipv6_prefix_does_not_take_every_connection() {
    let mut world = World::new(16, server());
    let from = |prefix: u16, n: u32| {
        let [high, low] = [(n >> 16) as u16, n as u16];
        SocketAddr::new(Ipv6Addr::new(0x2001, 0xdb8, 0, prefix, 0, 0, high, low).into(), 7_000)
    };
    let opened = (1..=1_322).filter(|&n| opens(&mut world, n, from(1, n))).count();
    assert_eq!(opened, limits::CONNECTIONS_PER_ADDRESS_DEFAULT);
    assert!(opens(&mut world, 2_000, from(2, 1)) && opens(&mut world, 2_001, stranger(1)), "others get in");
}

/// Different unreadable first messages, each with its cookie, from one address; and an honest client that knows the server's key.
#[test]
fn an_honest_client_gets_in_while_one_address_sends_first_messages_which_cannot_be_read() {
    let mut world = World::new(17, Accept { cookies: Cookies::Always, ..server() });
    let mut puppet = Puppet::new(1, pinned(1, StaticKey::from_seed(&[8; 32]).public()), [5; 32], &MODEST).unwrap();
    (world.client.job.send_bytes, world.server.job.send_bytes) = (20_000, 20_000);
    let messages = 2_000;
    for id in 1..=messages {
        if id == messages / 2 {
            world.connect(Config::sealed(PeerKey::Known(server_key().public()))).unwrap();
        }
        puppet.id = id;
        puppet.spoil_first(id);
        let asked = give(&mut world, stranger(1), &puppet.syn(None, 150).unwrap()).unwrap();
        let cookie = Puppet::cookie(&asked).unwrap();
        for _ in 0..10 {
            give(&mut world, stranger(1), &puppet.syn(Some(&cookie), 150).unwrap());
        }
        rest(&mut world, Duration::from_millis(1));
    }
    assert_eq!((world.client.connected, world.server.connected), (1, 1));
    world.finish(Time::from_s(20)).unwrap();
    let seconds = messages / 1_000;
    let computed_max = (limits::FIRST_MESSAGES_FAILED_BURST + seconds * limits::FIRST_MESSAGES_FAILED_PER_S) / 4 + 1;
    let computed = world.server.host.endpoint.stats().first_messages_computed;
    assert!(computed <= computed_max.into(), "{computed} first messages were computed on, of {computed_max}");
}

/// True if a genuine third message is accepted `wait` after `forgeries` forged ones, each of which arrived as soon as the gate opened.
fn is_taken_after(forgeries: u32, wait: Duration) -> bool {
    let mut world = World::new(7, server());
    let mut puppet = Puppet::new(1, first_contact(1), [5; 32], &MODEST).unwrap();
    let answer = give(&mut world, stranger(1), &puppet.syn(None, 150).unwrap()).unwrap();
    let third = puppet.take_answer(&answer).unwrap().unwrap();
    for number in 0..forgeries {
        let mut forged = [0x42; 64];
        forged[63] = number as u8;
        give(&mut world, stranger(2), &puppet.third(&forged).unwrap());
        world.now += if number + 1 < forgeries { gate(number + 1) } else { wait };
    }
    give(&mut world, stranger(1), &third);
    world.server.host.connections.len() == 1
}

/// Time for which third messages are dropped unread after `forgeries` forged ones.
fn gate(forgeries: u32) -> Duration {
    (limits::PROOF_RETRY_MIN * (1 << (forgeries - 1).min(16))).min(limits::PROOF_RETRY_MAX)
}

/// Each check costs three multiplications on the curve: a half-open connection gets six checks in its first 63 ms, and then sixteen per
/// second, however many forgeries arrive.
#[test]
fn forged_proofs_are_looked_at_ever_more_rarely_and_do_not_shut_the_honest_out() {
    assert!(is_taken_after(0, Duration::ZERO));
    for forgeries in 1..12 {
        let gate = gate(forgeries);
        assert!(
            !is_taken_after(forgeries, gate - Duration::from_nanos(1)),
            "after {forgeries} it was looked at too soon"
        );
        assert!(is_taken_after(forgeries, gate), "after {forgeries} the genuine one was not taken");
    }
    let in_its_life = (1..).scan(Duration::ZERO, |at, forgeries| {
        *at += gate(forgeries);
        Some(*at)
    });
    let looks = in_its_life.take_while(|at| *at < limits::HALF_OPEN_TIMEOUT).count();
    assert!(looks < 520, "{looks} looks in the life of a half-open connection");
}

/// An attacker who changes options or messages on the path, and is faster, can only cause delay: any change is detected.
#[test]
fn handshake_segments_changed_on_the_way_open_nothing_else() {
    for seed in 0..40 {
        let mut world = World::new(seed, server());
        (world.client.job.send_bytes, world.server.job.send_bytes) = (20_000, 20_000);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut left = 12;
        world.tap = Box::new(move |_, packet| {
            let sealed = raw::read(&packet.bytes).is_some_and(|it| it.header.is_sealed());
            if sealed || left == 0 {
                return vec![packet];
            }
            left -= 1;
            let mut bytes = packet.bytes.clone();
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
            fit_crc(&mut bytes);
            // Only the changed segment arrives; the genuine one is lost.
            vec![Packet { bytes, ..packet }]
        });
        world.connect(Config::sealed(PeerKey::Known(server_key().public()))).unwrap();
        world.finish(Time::from_s(40)).unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        assert!(world.server.connected >= 1 && world.client.connected == 1, "seed {seed}");
    }
}

/// An attacker sees the SYN. Its own SYN, with the same id and another first message, reaches the server earlier.
#[test]
fn a_forged_syn_which_comes_first_delays_and_no_more() {
    let mut world = World::new(9, server());
    (world.client.job.send_bytes, world.server.job.send_bytes) = (20_000, 20_000);
    let mut forged = false;
    world.tap = Box::new(move |_, packet| {
        let syn = raw::read(&packet.bytes).filter(|it| it.header.flags == Flags::SYN);
        let id = syn.and_then(|it| dfcp_wire::handshake::Payload::decode(it.payload).ok()?.connection_id);
        let Some(id) = id.filter(|_| !forged) else { return vec![packet] };
        forged = true;
        let own = Puppet::new(id, first_contact(3), [5; 32], &MODEST).unwrap().syn(None, 150).unwrap();
        vec![Packet { bytes: own, ..packet.clone() }, packet]
    });
    world.connect(Config::sealed(PeerKey::Any)).unwrap();
    world.finish(Time::from_s(35)).unwrap();
    let took = world.now.since(Time::from_s(1));
    assert!(took < Duration::from_secs(20), "it took {took:?}");
}

#[test]
fn answers_which_nobody_vouches_for_do_not_end_an_attempt_at_once() {
    // RST, SYNACK with garbage and cookies, all with the right id, before each genuine answer.
    for kind in 0..3 {
        let mut world = World::new(10 + kind, server());
        (world.client.job.send_bytes, world.server.job.send_bytes) = (20_000, 20_000);
        world.tap = Box::new(move |_, packet| {
            let Some(segment) = raw::read(&packet.bytes) else { return vec![packet] };
            if segment.header.flags != Flags::SYN | Flags::ACK {
                return vec![packet];
            }
            let id = segment.header.connection_id();
            let payload = match kind {
                0 => Vec::new(),
                1 => [128, 0, 90].into_iter().chain([1; 90]).collect(),
                _ => [16, 0, 16].into_iter().chain([1; 16]).collect(),
            };
            let flags = if kind == 0 { Flags::RST } else { Flags::SYN | Flags::ACK };
            let bytes = raw::write(&Header::modern(flags, id), &[], &payload);
            let forged = Packet { bytes, ..packet.clone() };
            vec![forged.clone(), forged.clone(), forged, packet]
        });
        world.connect(Config::sealed(PeerKey::Known(server_key().public()))).unwrap();
        world.finish(Time::from_s(30)).unwrap_or_else(|error| panic!("kind {kind}: {error:#}"));
        let emitted = world.client.sent_datagrams[&server_address()];
        assert!(emitted < 200, "forged answers made the client send {emitted} datagrams");
        assert_eq!(world.server.received_bytes.keys().collect::<Vec<_>>(), [&client_address()]);
    }
}

#[test]
fn a_whole_recorded_session_opens_nothing_when_it_is_replayed() {
    let mut recorded = Vec::new();
    let mut world = World::new(14, server());
    (world.client.job.send_bytes, world.server.job.send_bytes) = (50_000, 50_000);
    world.connect(Config::sealed(PeerKey::Known(server_key().public()))).unwrap();
    while world.server.read_to_end == 0 || world.client.read_to_end == 0 {
        assert!(world.step(Time::from_s(20)));
        recorded.extend(world.delivered.iter().filter(|packet| packet.to == server_address()).cloned());
    }
    assert!(recorded.len() > 40, "{}", recorded.len());
    // Replayed to the same server after the end, and to another with the same key, from the same and from other
    // addresses.
    let mut fresh = World::new(15, server());
    fresh.server.job.send_bytes = 1_000_000;
    world.run_until(world.now + Duration::from_secs(120));
    let (before, connected) = (world.server.sent_bytes.values().sum::<u64>(), world.server.connected);
    for replayed in [&mut world, &mut fresh] {
        for from in [client_address(), stranger(1)] {
            for packet in recorded.iter().chain(recorded.iter().rev()) {
                give(replayed, from, &packet.bytes);
            }
            rest(replayed, Duration::from_secs(60));
        }
    }
    assert_eq!((world.server.connected, fresh.server.connected), (connected, 0));
    assert_eq!(world.server.state(), State::Closed);
    for (server, already) in [(&world.server, before), (&fresh.server, 0)] {
        let sent = server.sent_bytes.values().sum::<u64>() - already;
        let syns = recorded.iter().filter(|it| raw::read(&it.bytes).is_some_and(|it| it.header.flags == Flags::SYN));
        let asked: usize = syns.map(|packet| packet.bytes.len()).sum();
        assert!(sent > 0 && sent <= 4 * asked as u64, "{sent} bytes for {asked} bytes of SYNs, four times each");
    }
}
