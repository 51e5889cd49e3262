//! Destination of datagrams that return through a pipe.
//!
//! UDP source addresses can be forged: a forged one could redirect a whole stream of answers. So answers stay with one source until it has
//! been silent for a while, and `--in-from` fixes the only permitted source.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use tokio::time::Instant;

use crate::limits::PIPE_SOURCE_SILENCE;

/// Source that `--in-from` permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFrom {
    /// Any port of this address.
    Address(IpAddr),
    /// Any port of this address on the interface of this index.
    Behind(Ipv6Addr, u32),
    /// This address and port, which gets answers from the beginning.
    Port(SocketAddr),
}

impl InFrom {
    fn is(self, from: SocketAddr) -> bool {
        // A dual-stack socket reports IPv4 addresses as mapped.
        let same = |ip: IpAddr| ip.to_canonical() == from.ip().to_canonical();
        let behind = |interface: u32| matches!(from, SocketAddr::V6(from) if from.scope_id() == interface);
        match self {
            Self::Address(ip) => same(ip),
            Self::Behind(ip, interface) => same(ip.into()) && behind(interface),
            Self::Port(SocketAddr::V6(address)) if address.scope_id() != 0 => {
                same((*address.ip()).into()) && address.port() == from.port() && behind(address.scope_id())
            }
            Self::Port(address) => same(address.ip()) && address.port() == from.port(),
        }
    }

    /// Returns the address, without a port.
    pub(super) fn ip(self) -> IpAddr {
        match self {
            Self::Address(ip) => ip,
            Self::Behind(ip, _) => ip.into(),
            Self::Port(address) => address.ip(),
        }
    }
}

impl std::fmt::Display for InFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(ip) => ip.fmt(f),
            Self::Behind(ip, interface) => write!(f, "{ip}%{interface}"),
            Self::Port(address) => address.fmt(f),
        }
    }
}

/// Decision about a received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The datagram is sent through the pipe.
    Carried,
    /// The datagram is dropped: its source is not permitted.
    Dropped,
}

/// Tracker of the destination for answers.
#[derive(Debug)]
pub(super) struct Answers {
    only: Option<InFrom>,
    /// Current destination, and the arrival time of its last datagram.
    present: Option<(SocketAddr, Instant)>,
    /// Address of this socket.
    own: SocketAddr,
    /// Cached lookup: the last source with this socket's port, and true if it is a local address.
    looked_up: Option<(SocketAddr, bool)>,
}

impl Answers {
    pub(super) fn new(only: Option<InFrom>, own: SocketAddr) -> Self {
        Self { only, present: None, own, looked_up: None }
    }

    /// Processes the arrival of a datagram from `from`, and decides what to do with it.
    pub(super) fn heard(&mut self, from: SocketAddr, now: Instant) -> Verdict {
        // A datagram with this socket's own address as source would loop the answers.
        if self.is_own(from) || self.only.is_some_and(|only| !only.is(from)) {
            return Verdict::Dropped;
        }
        match &mut self.present {
            Some((present, heard)) if *present == from => *heard = now,
            Some((_, heard)) if now.duration_since(*heard) < PIPE_SOURCE_SILENCE => {}
            _ if !can_be_answered(from) => {}
            _ => self.present = Some((from, now)),
        }
        Verdict::Carried
    }

    /// True if `from` is this socket's address, which may be bound to all local addresses. Linux drops a forged datagram with a local IPv4
    /// source, but accepts one with a local IPv6 source.
    fn is_own(&mut self, from: SocketAddr) -> bool {
        if from.port() != self.own.port() || !self.own.ip().is_unspecified() {
            return from == self.own;
        }
        match self.looked_up {
            Some((known, is_own)) if known == from => is_own,
            _ => {
                let is_own = is_of_this_machine(from);
                self.looked_up = Some((from, is_own));
                is_own
            }
        }
    }

    /// Returns the current destination of answers, if any.
    pub(super) fn to(&self) -> Option<SocketAddr> {
        match (self.only, self.own) {
            (Some(InFrom::Port(SocketAddr::V4(only))), SocketAddr::V6(_)) => {
                Some(SocketAddr::from((only.ip().to_ipv6_mapped(), only.port())))
            }
            (Some(InFrom::Port(only)), _) => Some(only),
            _ => self.present.map(|(present, _)| present),
        }
    }
}

/// Returns true for an address of this machine: the routing table selects it as the source address towards itself. No
/// packet is sent.
fn is_of_this_machine(address: SocketAddr) -> bool {
    let source = || -> io::Result<IpAddr> {
        let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        Ok(socket.local_addr()?.ip())
    };
    // An unreachable address cannot get answers anyway.
    address.ip().to_canonical().is_loopback() || source().is_ok_and(|source| source == address.ip())
}

/// Returns true if `from` is a single host that can receive answers. Source port 0 means that no answer is wanted (RFC
/// 768).
fn can_be_answered(from: SocketAddr) -> bool {
    let is_of_many = match from.ip().to_canonical() {
        IpAddr::V4(ip) => ip.is_broadcast() || ip.is_multicast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    from.port() != 0 && !is_of_many && !from.ip().to_canonical().is_unspecified()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    const OWN: &str = "192.0.2.1:5004";

    #[test]
    fn a_stranger_s_datagram_takes_no_answers_away_until_the_source_is_silent() {
        let mut answers = Answers::new(None, at(OWN));
        assert_eq!(answers.to(), None);
        let (player, stranger, start) = (at("192.0.2.7:1"), at("198.51.100.9:1"), Instant::now());
        // 20 000 forged datagrams within 10 s, while the real source sends every 4.9 s.
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            if ms % 4_900 == 0 {
                assert_eq!(answers.heard(player, now), Verdict::Carried);
            }
            for other in [stranger, at("192.0.2.7:2")] {
                assert_eq!(answers.heard(other, now), Verdict::Carried);
                assert_eq!(answers.to(), Some(player), "{ms} ms");
            }
        }
        let later = start + Duration::from_millis(9_800) + PIPE_SOURCE_SILENCE;
        assert_eq!(answers.heard(stranger, later - Duration::from_millis(1)), Verdict::Carried);
        assert_eq!(answers.to(), Some(player));
        answers.heard(at("192.0.2.7:2"), later);
        assert_eq!(answers.to(), Some(at("192.0.2.7:2")), "a program that was started again");
        answers.heard(player, later);
        assert_eq!(answers.to(), Some(at("192.0.2.7:2")));
    }

    #[test]
    fn the_named_source_alone_is_taken_in_whatever_form_its_address_has() {
        let now = Instant::now();
        for (only, own, from) in [
            (InFrom::Address("192.0.2.7".parse().unwrap()), "[::]:5004", "[::ffff:192.0.2.7]:9"),
            (InFrom::Address("::ffff:192.0.2.7".parse().unwrap()), OWN, "192.0.2.7:9"),
            (InFrom::Address("2001:db8::7".parse().unwrap()), "[::]:5004", "[2001:db8::7]:9"),
            (InFrom::Port(at("192.0.2.7:9")), "[::]:5004", "[::ffff:192.0.2.7]:9"),
            (InFrom::Port(at("192.0.2.7:9")), OWN, "192.0.2.7:9"),
        ] {
            let mut answers = Answers::new(Some(only), at(own));
            let is_port = matches!(only, InFrom::Port(_));
            assert_eq!(answers.to(), is_port.then(|| at(from)), "{only} before it has sent anything");
            for stranger in ["198.51.100.9:9", "[2001:db8::8]:9", "[64:ff9b::192.0.2.7]:9"] {
                assert_eq!(answers.heard(at(stranger), now), Verdict::Dropped);
            }
            let other_port = SocketAddr::new(at(from).ip(), 10);
            assert_eq!(answers.heard(at(from), now), Verdict::Carried);
            assert_eq!(answers.heard(other_port, now), if is_port { Verdict::Dropped } else { Verdict::Carried });
            assert_eq!(answers.to(), Some(at(from)));
        }
    }

    #[test]
    fn nobody_is_answered_at_an_address_that_is_no_host_s_nor_this_socket_itself() {
        let mut answers = Answers::new(None, at(OWN));
        let now = Instant::now();
        for from in [
            "192.0.2.7:0",
            "224.0.0.1:9",
            "255.255.255.255:9",
            "0.0.0.0:9",
            "[ff02::1]:9",
            "[::]:9",
            "[::ffff:224.0.0.1]:9",
            "[::ffff:0.0.0.0]:9",
        ] {
            assert_eq!((answers.heard(at(from), now), answers.to()), (Verdict::Carried, None), "{from}");
        }
        assert_eq!((answers.heard(at(OWN), now), answers.to()), (Verdict::Dropped, None));
        answers.heard(at("192.0.2.7:1"), now);
        assert_eq!(answers.to(), Some(at("192.0.2.7:1")));
    }

    /// Regression test: one forged datagram made the answers of `--in [::]:5004` loop.
    #[test]
    fn a_socket_at_all_addresses_is_known_by_each_of_them() {
        let now = Instant::now();
        for (own, from) in [
            ("[::]:5004", "[::1]:5004"),
            ("[::]:5004", "[::ffff:127.0.0.1]:5004"),
            ("0.0.0.0:5004", "127.0.0.1:5004"),
            ("0.0.0.0:5004", "127.0.0.2:5004"),
        ] {
            let mut answers = Answers::new(None, at(own));
            for _ in 0..2 {
                assert_eq!((answers.heard(at(from), now), answers.to()), (Verdict::Dropped, None), "{from} at {own}");
            }
            let other = SocketAddr::new(at(from).ip(), 5005);
            assert_eq!((answers.heard(other, now), answers.to()), (Verdict::Carried, Some(other)));
        }
        let mut answers = Answers::new(None, at("0.0.0.0:5004"));
        let far = at("192.0.2.7:5004");
        assert_eq!(
            (answers.heard(far, now), answers.to()),
            (Verdict::Carried, Some(far)),
            "many use one port at both ends"
        );
    }
}
