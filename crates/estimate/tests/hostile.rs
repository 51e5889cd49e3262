//! Tests: answers that strangers, forgers and misbehaving peers can draw from a server of test packets (`spec/estimation.md` §2).
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use dfcp_estimate::probing::{Answer, Change, Reason, Request, Server, ServerConfig, Step};
use dfcp_time::Time;
use proptest::prelude::*;

const INTERVAL_US: u32 = 100_000;

fn server() -> Server {
    Server::new(ServerConfig::default(), [3; 32])
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, host), port))
}

/// Decoded answer of the server.
fn ask(server: &mut Server, now: Time, from: SocketAddr, request: Request) -> Option<Answer> {
    let answer = server.receive(now, from, request.encode().as_ref()).answer;
    answer.map(|answer| Answer::decode(answer.as_ref()).unwrap())
}

fn cookie(server: &mut Server, now: Time, from: SocketAddr, session: u64) -> [u8; 17] {
    match ask(server, now, from, Request::Call { session }) {
        Some(Answer::Challenge { cookie, .. }) => cookie,
        other => panic!("no challenge: {other:?}"),
    }
}

fn start(session: u64, cookie: [u8; 17]) -> Request {
    Request::Start { session, interval_us: INTERVAL_US, cookie }
}

/// Starts a session as an honest client does.
fn begin(server: &mut Server, now: Time, from: SocketAddr, session: u64) {
    let cookie = cookie(server, now, from, session);
    assert_eq!(ask(server, now, from, start(session, cookie)), None);
}

/// Number of test packets sent until `end`, by address.
fn sent(server: &mut Server, end: Time) -> BTreeMap<SocketAddr, usize> {
    let mut probes = BTreeMap::new();
    while let Some(next) = server.next_time().filter(|&next| next <= end) {
        match server.poll(next) {
            Some(Step::Send(to, _)) => *probes.entry(to).or_default() += 1,
            Some(Step::Ended(_)) => {}
            None => panic!("nothing to do at {next}"),
        }
    }
    probes
}

#[test]
fn an_address_that_has_not_proven_itself_gets_no_more_than_it_sent() {
    // [estimate-5]: calls, starts with forged cookies, and starts with foreign cookies, all with a victim's source address.
    let mut server = server();
    let victim = address(1, 53);
    let stolen = cookie(&mut server, Time::ZERO, address(66, 1_000), 7);
    let (mut in_bytes, mut out_bytes, mut answers) = (0, 0, 0);
    for round in 0..3_000_u64 {
        let now = Time::from_ms(round);
        for request in [
            Request::Call { session: round },
            start(round, [round as u8; 17]),
            start(7, stolen),
            Request::Stop { session: round },
        ] {
            let datagram = request.encode();
            in_bytes += datagram.as_ref().len();
            let received = server.receive(now, victim, datagram.as_ref());
            assert_eq!(received.change, None);
            if let Some(answer) = received.answer {
                assert!(answer.as_ref().len() < datagram.as_ref().len());
                assert!(matches!(Answer::decode(answer.as_ref()), Some(Answer::Challenge { .. })));
                (out_bytes, answers) = (out_bytes + answer.as_ref().len(), answers + 1);
            }
        }
    }
    assert!(out_bytes < in_bytes && answers == 9_000, "{out_bytes} bytes for {in_bytes}");
    // No state is kept, and nothing follows.
    assert_eq!((server.clients(), server.next_time()), (0, None));
}

#[test]
fn a_cookie_is_for_one_address_one_session_and_a_while() {
    // [estimate-4]
    let mut server = server();
    let own = address(1, 1_000);
    let cookie = cookie(&mut server, Time::ZERO, own, 7);
    for (from, session, after_s) in [(address(2, 1_000), 7, 0), (address(1, 1_001), 7, 0), (own, 8, 0), (own, 7, 30)] {
        let answer = ask(&mut server, Time::from_s(after_s), from, start(session, cookie));
        assert!(matches!(answer, Some(Answer::Challenge { .. })), "{from} {session} {after_s}");
    }
    assert_eq!(server.clients(), 0);
    assert_eq!(ask(&mut server, Time::from_s(29), own, start(7, cookie)), None);
    assert_eq!(server.clients(), 1);
}

#[test]
fn a_client_that_is_gone_gets_no_more_than_ten_seconds_of_probes() {
    // [estimate-7]
    let mut server = server();
    let client = address(1, 1_000);
    begin(&mut server, Time::ZERO, client, 7);
    assert_eq!(sent(&mut server, Time::MAX), BTreeMap::from([(client, 100)]));
    assert_eq!((server.clients(), server.next_time()), (0, None));
}

#[test]
fn a_session_ends_when_its_own_client_says_so() {
    let mut server = server();
    let client = address(1, 1_000);
    begin(&mut server, Time::ZERO, client, 7);
    for (from, session) in [(client, 8), (address(1, 1_001), 7), (address(2, 1_000), 7)] {
        assert_eq!(ask(&mut server, Time::from_ms(1), from, Request::Stop { session }), None);
        assert_eq!(server.clients(), 1, "{from} {session}");
    }
    let stop = Request::Stop { session: 7 }.encode();
    assert_eq!(server.receive(Time::from_ms(2), client, stop.as_ref()).change, Some(Change::Ended));
    assert_eq!((server.clients(), server.next_time()), (0, None));
}

#[test]
fn sessions_are_bounded_and_one_address_has_one() {
    // [estimate-6], [estimate-8]
    let mut server = Server::new(ServerConfig { clients_max: 3, ..ServerConfig::default() }, [3; 32]);
    for session in 0..10 {
        begin(&mut server, Time::ZERO, address(1, 1_000), session);
        assert_eq!(server.clients(), 1);
    }
    for host in 2..4 {
        begin(&mut server, Time::ZERO, address(host, 1_000), 1);
    }
    let fourth = address(4, 1_000);
    let own = cookie(&mut server, Time::ZERO, fourth, 1);
    let refused = Some(Answer::Refused { session: 1, reason: Reason::TooManyClients });
    assert_eq!(ask(&mut server, Time::ZERO, fourth, start(1, own)), refused);
    assert_eq!(sent(&mut server, Time::from_ms(950)).into_values().collect::<Vec<_>>(), [10, 10, 10]);
    // Clients with a place may renew.
    begin(&mut server, Time::from_s(1), address(2, 1_000), 2);
    assert_eq!(server.clients(), 3);
}

/// Clients that the server serves, after each has sent an honest request.
fn served(server: &mut Server, now: Time, from: &[SocketAddr]) -> Vec<SocketAddr> {
    let asks = |&address: &SocketAddr| {
        let own = cookie(server, now, address, 1);
        ask(server, now, address, start(1, own)).is_none()
    };
    from.iter().copied().filter(asks).collect()
}

#[test]
fn one_address_with_every_place_keeps_nobody_out() {
    // [estimate-8]: 64 ports of one IPv4 address, of its mapped form, or 64 addresses of one IPv6 network.
    let ports = |ip: std::net::IpAddr| (1..=64).map(|port| SocketAddr::from((ip, port))).collect::<Vec<_>>();
    let mapped = Ipv4Addr::new(192, 0, 2, 66).to_ipv6_mapped();
    let network = |host: u16| SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, 1, host, 2, 3, 4), 9));
    for attacker in [ports(Ipv4Addr::new(192, 0, 2, 66).into()), ports(mapped.into()), (0..64).map(network).collect()] {
        let mut server = server();
        assert_eq!(served(&mut server, Time::ZERO, &attacker).len(), 64);
        let honest: Vec<_> = (1..=20).map(|host| address(host, 1_000)).collect();
        assert_eq!(served(&mut server, Time::from_ms(1), &honest), honest, "{}", attacker[0]);
        // Displaced clients send requests again, and regain nothing.
        served(&mut server, Time::from_ms(2), &attacker);
        assert_eq!(server.clients(), 64);
        let probes = sent(&mut server, Time::from_ms(990));
        assert!(honest.iter().all(|client| probes.get(client) == Some(&10)), "{probes:?}");
    }
}

#[test]
fn addresses_share_the_places_alike_and_none_makes_room_for_one_that_has_as_many() {
    let mut server = Server::new(ServerConfig { clients_max: 6, ..ServerConfig::default() }, [3; 32]);
    let of = |host: u8, count: u16| (1..=count).map(|port| address(host, port)).collect::<Vec<_>>();
    assert_eq!(served(&mut server, Time::ZERO, &of(1, 6)).len(), 6);
    assert_eq!(served(&mut server, Time::ZERO, &of(2, 6)).len(), 3, "as many as are left to the first one");
    assert_eq!(served(&mut server, Time::ZERO, &of(3, 6)).len(), 2);
    for host in 4..7 {
        assert_eq!(served(&mut server, Time::ZERO, &of(host, 6)).len(), 1);
    }
    assert_eq!(served(&mut server, Time::ZERO, &of(7, 6)).len(), 0, "each has one");
    assert_eq!(server.clients(), 6);
}

#[test]
fn the_client_which_has_been_silent_for_the_longest_makes_room_and_the_server_says_so() {
    let mut server = Server::new(ServerConfig { clients_max: 3, ..ServerConfig::default() }, [3; 32]);
    let all: Vec<_> = (1..=3).map(|port| address(1, port)).collect();
    let cookies = all.iter().map(|&client| cookie(&mut server, Time::ZERO, client, 1)).collect::<Vec<_>>();
    for (&client, &own) in all.iter().zip(&cookies) {
        assert_eq!(ask(&mut server, Time::ZERO, client, start(1, own)), None);
    }
    for number in [0, 2] {
        assert_eq!(ask(&mut server, Time::from_s(2), all[number], start(1, cookies[number])), None);
    }
    let newcomer = address(2, 1);
    let own = cookie(&mut server, Time::from_s(3), newcomer, 1);
    let received = server.receive(Time::from_s(3), newcomer, start(1, own).encode().as_ref());
    assert_eq!((received.displaced, server.clients()), (Some(all[1]), 3));
    // The displaced client is refused at its next request.
    let refused = Some(Answer::Refused { session: 1, reason: Reason::TooManyClients });
    assert_eq!(ask(&mut server, Time::from_s(4), all[1], start(1, cookies[1])), refused);
}

#[test]
fn a_session_is_prolonged_only_by_who_still_receives_at_its_address() {
    // [estimate-6]: an attacker once held an address, started a session there, and prolongs it in the name of the next host.
    let mut server = server();
    let victim = address(1, 1_000);
    let stolen = cookie(&mut server, Time::ZERO, victim, 7);
    assert_eq!(ask(&mut server, Time::ZERO, victim, start(7, stolen)), None);
    let mut probes = 0;
    for second in 0..120 {
        let now = Time::from_s(second);
        for forged in [stolen, [0; 17], [second as u8; 17]] {
            let answer = server.receive(now, victim, start(7, forged).encode().as_ref()).answer;
            // The victim gets at most a challenge.
            assert!(
                answer
                    .is_none_or(|answer| answer.as_ref().len() < Request::Call { session: 7 }.encode().as_ref().len())
            );
        }
        probes += sent(&mut server, now).into_values().sum::<usize>();
    }
    assert!(probes <= 400, "{probes} test packets, of ten a second, in the 40 s for which the cookie and a lease last");
    assert_eq!(server.clients(), 0);
}

#[test]
fn an_honest_session_lasts_although_each_of_its_cookies_does_not() {
    let mut server = server();
    let client = address(1, 1_000);
    let mut own = cookie(&mut server, Time::ZERO, client, 7);
    let mut probes = 0;
    // The client renews every 2 s; every second request or its answer is lost.
    for round in 0..150_u64 {
        let now = Time::from_s(2 * round);
        if round % 2 == 0
            && let Some(answer) = ask(&mut server, now, client, start(7, own))
        {
            let Answer::Challenge { session: 7, cookie } = answer else { panic!("{answer:?}") };
            if round % 4 == 0 {
                own = cookie;
            }
        }
        probes += sent(&mut server, now).into_values().sum::<usize>();
    }
    assert_eq!(probes, 2_981, "one each 100 ms for 298 s");
}

#[test]
fn nobody_gets_probes_more_often_than_the_server_permits() {
    let mut server = server();
    let client = address(1, 1_000);
    let cookie = cookie(&mut server, Time::ZERO, client, 7);
    for interval_us in [0, 1, 9_999, 10_000_001, u32::MAX] {
        let answer = ask(&mut server, Time::ZERO, client, Request::Start { session: 7, interval_us, cookie });
        assert_eq!(answer, Some(Answer::Refused { session: 7, reason: Reason::Interval }), "{interval_us}");
    }
    // Repeated restarts draw no more packets either.
    let mut probes = 0;
    for round in 0..1_000 {
        let now = Time::from_ms(round);
        begin(&mut server, now, client, round);
        probes += sent(&mut server, now).into_values().sum::<usize>();
    }
    assert!(probes <= 11, "{probes} probes in a second, of one each 100 ms");
}

#[test]
fn a_server_that_is_late_sends_no_burst() {
    // [estimate-9]
    let mut server = server();
    begin(&mut server, Time::ZERO, address(1, 1_000), 7);
    let now = Time::from_s(5);
    let Some(Step::Send(_, first)) = server.poll(now) else { panic!("nothing is due") };
    let Some(Answer::Probe(first)) = Answer::decode(first.as_ref()) else { panic!("no probe") };
    assert_eq!((first.number, first.sent), (0, now));
    assert_eq!((server.poll(now), server.next_time()), (None, Some(now + Duration::from_millis(100))));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_answered_by_a_challenge_at_the_most(
        datagrams in prop::collection::vec((any::<u64>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..80)), 0..50),
    ) {
        let mut server = server();
        let mut now = Time::ZERO;
        for (step_ns, host, mut bytes) in datagrams {
            now += Duration::from_nanos(step_ns % 10_000_000_000);
            if host % 2 == 0 {
                // The header is valid.
                let head = b"DFBE\x01";
                let length = head.len().min(bytes.len());
                bytes[..length].copy_from_slice(&head[..length]);
            }
            let received = server.receive(now, address(host, 1), &bytes);
            if let Some(answer) = received.answer {
                prop_assert!(answer.as_ref().len() < bytes.len());
            }
            prop_assert!(server.clients() == 0 && server.next_time().is_none());
        }
    }
}
