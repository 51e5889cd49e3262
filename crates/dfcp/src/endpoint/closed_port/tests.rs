use std::net::IpAddr;

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const RTT: Duration = Duration::from_millis(150);

fn asked() -> Refusals {
    let now = Instant::now();
    Refusals { asked_at: Some(now), ..Refusals::new(now) }
}

/// Binds a socket, and returns it with its address. Once it is dropped, the port is closed, unless the system gives it
/// to another socket.
fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn questions(address: SocketAddr) -> Questions {
    let socket = connected((LOOPBACK, 0).into(), address).unwrap().unwrap();
    // A separate limit for these tests: other tests open connections at the same time.
    static ASKERS: Semaphore = Semaphore::const_new(64);
    Questions::new(socket, &ASKERS).expect("few tests ask at a time")
}

/// An attacker sends any number of forged refusals, at any speed, without knowing the probe.
#[test]
fn refusals_that_do_not_repeat_the_question_are_believed_when_they_are_many_and_go_on() {
    let mut refusals = asked();
    let began = refusals.began;
    (0..100_000).for_each(|_| refusals.add(began, false));
    assert_eq!(refusals.believed_at(), None, "all at once");
    refusals.add(began + CLOSED_PORT_SPAN, false);
    assert_eq!(refusals.believed_at(), Some(began + CLOSED_PORT_SPAN));
    let mut rare = asked();
    rare.add(began, false);
    rare.add(began + CLOSED_PORT_SPAN * 2, false);
    assert_eq!(rare.believed_at(), None, "two only");
}

#[test]
fn one_refusal_that_repeats_the_question_is_believed_after_three_of_its_round_trips() {
    for (took, after) in
        [(Duration::ZERO, CLOSED_PORT_PATIENCE), (RTT, RTT * 3), (Duration::from_secs(9), CLOSED_PORT_SPAN)]
    {
        let mut refusals = asked();
        refusals.add(refusals.began + took, true);
        // Forged refusals do not hasten the decision.
        (0..100).for_each(|_| refusals.add(refusals.began, false));
        assert_eq!(refusals.believed_at(), Some(refusals.began + after), "{took:?}");
    }
}

#[test]
fn a_closed_port_refuses_and_an_open_one_does_not() {
    let (open, address) = bound();
    let mut asking = questions(address);
    asking.serve(asking.next_at);
    assert_eq!(open.recv(&mut [0; 64]).unwrap(), QUESTION_BYTES);
    asking.serve(Instant::now());
    assert_eq!(asking.refusals.count, 0);
    drop((asking, open));
    let mut asking = questions(address);
    asking.serve(asking.next_at);
    assert_eq!(asking.refusals.count, 1, "loopback refuses before it returns");
    assert_eq!(asking.refusals.proven_at.is_some(), cfg!(target_os = "linux"));
}

#[test]
fn a_refusal_is_told_and_nobody_waits_in_vain() {
    let (open, address) = bound();
    drop(open);
    let (waiting, gone) = sync_channel(0);
    assert!(questions(address).wait(&gone), "this machine refuses");
    drop(waiting);
    assert!(!questions(address).wait(&gone), "nobody waits");
}

/// Limits threads and sockets, even if many connections are opened at the same time.
#[test]
fn few_ask_at_a_time() {
    static ASKERS: Semaphore = Semaphore::const_new(CLOSED_PORT_ASKERS_MAX);
    let (_open, address) = bound();
    let socket = || connected((LOOPBACK, 0).into(), address).unwrap().unwrap();
    let mut asking = Vec::new();
    for _ in 0..CLOSED_PORT_ASKERS_MAX * 4 {
        asking.extend(Questions::new(socket(), &ASKERS));
    }
    assert_eq!(asking.len(), CLOSED_PORT_ASKERS_MAX);
    asking.clear();
    assert!(Questions::new(socket(), &ASKERS).is_some(), "an attempt that has ended makes room");
}

#[test]
fn an_address_without_a_way_to_it_is_known_at_once() {
    // Datagrams from loopback addresses cannot leave this machine.
    let error = connected((LOOPBACK, 0).into(), ([192, 0, 2, 1], 9).into()).unwrap_err();
    assert!(error.to_string().starts_with("this machine has no way to 192.0.2.1 ("), "{error}");
    assert_ne!(error.kind(), ErrorKind::InvalidInput, "the next address may have one");
    let error = connected((LOOPBACK, 0).into(), (Ipv6Addr::LOCALHOST, 9).into()).unwrap_err();
    assert!(error.to_string().contains("no way to ::1"), "an IPv4 socket carries no IPv6: {error}");
    let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 9);
    assert!(connected((Ipv6Addr::UNSPECIFIED, 0).into(), mapped).is_ok());
}

#[test]
fn port_0_is_refused_except_directly_over_ip() {
    let (local, here) = (SocketAddr::from((LOOPBACK, 0)), Some(NetworkNamespace::of_this_thread()));
    let error = Questions::to(Carrier::Udp, local, local, here).unwrap_err();
    assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().starts_with("port 0 cannot"), "{error}");
    let raw = Questions::to(Carrier::RawIp { protocol: 253 }, local, local, here);
    assert!(raw.is_ok_and(|asking| asking.is_none()), "there, it is asked nothing");
}

/// A thread may make its socket in one network namespace, and connect in another.
#[test]
fn the_routes_of_another_network_are_not_asked() {
    let (local, remote) = ((LOOPBACK, 0).into(), ([192, 0, 2, 1], 9).into());
    assert!(Questions::to(Carrier::Udp, local, remote, Some(NetworkNamespace::of_this_thread())).is_err());
    let others = [Some(NetworkNamespace::elsewhere()), None];
    for other in others {
        assert!(Questions::to(Carrier::Udp, local, remote, other).is_ok_and(|it| it.is_none()));
    }
}
