//! Destination of the answers that come back through a pipe.
//!
//! UDP proves no address: a datagram that names somebody else as its source would lead a whole stream of answers there. So answers
//! stay with one source until that has been silent for a while, and `--in-from` names the only one that there may be.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use tokio::time::Instant;

use crate::limits::PIPE_SOURCE_SILENCE;

/// The source that `--in-from` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFrom {
    /// Any port of this address.
    Address(IpAddr),
    /// Any port of this address behind the interface of this number.
    Behind(Ipv6Addr, u32),
    /// This port of it, which gets answers from the beginning on.
    Port(SocketAddr),
}

impl InFrom {
    fn is(self, from: SocketAddr) -> bool {
        // An IPv4 address at a socket of both versions is a mapped one.
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

    /// The address, without a port.
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

/// Fate of a datagram that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes through the pipe.
    Carried,
    /// It is dropped: it comes from where none is taken from.
    Dropped,
}

/// Destination of the answers.
#[derive(Debug)]
pub(super) struct Answers {
    only: Option<InFrom>,
    /// The source that has answers, and when it was last heard.
    present: Option<(SocketAddr, Instant)>,
    /// This socket's own address.
    own: SocketAddr,
    /// The address that had this socket's port last, and whether it is one of this machine.
    looked_up: Option<(SocketAddr, bool)>,
}

impl Answers {
    pub(super) fn new(only: Option<InFrom>, own: SocketAddr) -> Self {
        Self { only, present: None, own, looked_up: None }
    }

    /// Notes that a datagram came from `from`.
    pub(super) fn heard(&mut self, from: SocketAddr, now: Instant) -> Verdict {
        // One in our own name would have our answers go round in a circle.
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

    /// True for the address of this socket, which may be at all addresses of this machine. Linux drops a datagram from elsewhere that names
    /// an IPv4 address of this machine as its source, and takes one that names an IPv6 address.
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

    /// Present destination of answers, if there is one.
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

/// True for an address of this machine: datagrams that it sends there come from there, too. Nothing is sent.
fn is_of_this_machine(address: SocketAddr) -> bool {
    let source = || -> io::Result<IpAddr> {
        let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(address)?;
        Ok(socket.local_addr()?.ip())
    };
    // An unreachable address gets no answers either.
    address.ip().to_canonical().is_loopback() || source().is_ok_and(|source| source == address.ip())
}

/// True if an answer would reach one host, and one that wants it: source port 0 says that none is wanted (RFC 768).
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
        // 10 000 forged datagrams, while the source is heard now and then.
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

    /// Second review after the third: one forged datagram made the answers of `--in [::]:5004` go round in a circle.
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
