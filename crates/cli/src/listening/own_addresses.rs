//! Addresses of this machine at which others can reach a listener.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::limits::ADDRESSES_SHOWN_MAX;

/// Reachable addresses of a listener.
#[derive(Debug, Default)]
pub(crate) struct Reachable {
    /// Addresses with the port, as typed on another machine; the most likely ones first, IPv4 before IPv6. At least one
    /// address, and at most [`ADDRESSES_SHOWN_MAX`] per IP version.
    pub(crate) places: Vec<String>,
    /// Number of omitted addresses.
    pub(crate) left_out: usize,
    /// True if no other machine can reach any of the addresses.
    pub(crate) is_only_here: bool,
    /// Error of listing the interfaces, if any; addresses may be missing.
    pub(crate) unlisted: Option<io::Error>,
}

impl Reachable {
    /// Finds the reachable addresses of a listener at `listening`. No packet is sent.
    #[must_use]
    pub(crate) fn of(listening: SocketAddr) -> Self {
        let (own, unlisted) = match if listening.ip().is_unspecified() { list() } else { Ok(Vec::new()) } {
            Ok(own) => (own, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let preferred: Vec<IpAddr> = FAR.iter().filter_map(|far| source_towards(far)).collect();
        Self { unlisted, ..choose(listening, &own, &preferred) }
    }

    /// Returns the address that most likely works.
    #[must_use]
    pub(crate) fn first(&self) -> &str {
        self.places.first().map_or("THIS-MACHINE", String::as_str)
    }
}

/// Documentation addresses (RFC 5737, RFC 3849), used as arbitrary remote destinations.
const FAR: [&str; 2] = ["192.0.2.1:9", "[2001:db8::1]:9"];

/// Returns the source address that the routing table selects for `far`, if there is a route.
fn source_towards(far: &str) -> Option<IpAddr> {
    let any = if far.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
}

/// Address of an interface that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    ip: IpAddr,
    /// True for a temporary address (RFC 8981): it changes within hours and is meant for outgoing connections.
    is_temporary: bool,
    /// True for a deprecated address (RFC 4862), or one still under duplicate detection.
    is_unusable: bool,
}

/// Selects the addresses of `own` at which others reach a listener. `preferred` are the source addresses of outgoing
/// connections.
fn choose(listening: SocketAddr, own: &[Own], preferred: &[IpAddr]) -> Reachable {
    let port = listening.port();
    if !listening.ip().is_unspecified() {
        let is_only_here = listening.ip().to_canonical().is_loopback();
        return Reachable { places: vec![place(listening.ip(), port)], is_only_here, ..Reachable::default() };
    }
    let mut candidates: Vec<Own> = own.to_vec();
    for &ip in preferred {
        if !candidates.iter().any(|own| own.ip == ip) {
            candidates.push(Own { ip, is_temporary: false, is_unusable: false });
        }
    }
    // A socket on 0.0.0.0 accepts no IPv6.
    let is_of_version = |ip: IpAddr| listening.is_ipv6() || ip.is_ipv4();
    candidates.retain(|own| is_of_version(own.ip) && !own.is_unusable && !own.ip.is_unspecified());
    let network = |ip: IpAddr| match ip {
        IpAddr::V6(ip) => ip.to_bits() >> 64,
        IpAddr::V4(ip) => ip.to_bits().into(),
    };
    let stable: Vec<u128> = candidates.iter().filter(|own| !own.is_temporary).map(|own| network(own.ip)).collect();
    candidates.retain(|own| !own.is_temporary || !stable.contains(&network(own.ip)));
    let mut ranked: Vec<(Rank, IpAddr)> = candidates.iter().map(|own| (Rank::of(own.ip, preferred), own.ip)).collect();
    let mut seen = BTreeSet::new();
    ranked.retain(|&(_, ip)| seen.insert(ip));
    // The sort is stable: within a rank, the system's order remains.
    ranked.sort_by_key(|&(rank, _)| rank);
    // Show IPv6 link-local and loopback addresses only if there are no better ones.
    let least = ranked.iter().map(|(rank, _)| rank.last_resort()).min().unwrap_or_default();
    ranked.retain(|(rank, _)| rank.last_resort() == least);
    let shown = |is_v4: bool| ranked.iter().filter(move |(_, ip)| ip.is_ipv4() == is_v4).take(ADDRESSES_SHOWN_MAX);
    let mut shown: Vec<_> = shown(true).chain(shown(false)).collect();
    shown.sort_by_key(|(rank, _)| rank);
    let places: Vec<String> = shown.iter().map(|&&(_, ip)| place(ip, port)).collect();
    let left_out = ranked.len() - places.len();
    Reachable { places, left_out, is_only_here: least == Rank::Loopback.last_resort(), unlisted: None }
}

/// Display order of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    PreferredV4,
    V4,
    PreferredV6,
    V6,
    /// IPv4 link-local address (RFC 3927).
    LinkLocalV4,
    LinkLocalV6,
    Loopback,
}

impl Rank {
    fn of(ip: IpAddr, preferred: &[IpAddr]) -> Self {
        match ip {
            _ if ip.is_loopback() => Self::Loopback,
            IpAddr::V4(v4) if v4.is_link_local() => Self::LinkLocalV4,
            IpAddr::V6(v6) if v6.is_unicast_link_local() => Self::LinkLocalV6,
            IpAddr::V4(_) if preferred.contains(&ip) => Self::PreferredV4,
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) if preferred.contains(&ip) => Self::PreferredV6,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the rank among fallbacks; 0 for an address that needs no further configuration.
    fn last_resort(self) -> u8 {
        match self {
            Self::LinkLocalV6 => 1,
            Self::Loopback => 2,
            _ => 0,
        }
    }
}

/// Formats the address as typed on another machine, whose interface names may differ.
fn place(ip: IpAddr, port: u16) -> String {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => format!("[{v6}%INTERFACE]:{port}"),
        _ => SocketAddr::new(ip, port).to_string(),
    }
}

/// Lists the addresses of all interfaces that are up and have a carrier.
#[cfg(unix)]
fn list() -> io::Result<Vec<Own>> {
    use nix::ifaddrs::getifaddrs;
    use nix::net::if_::InterfaceFlags;
    let is_up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let marks = marks();
    let ips = getifaddrs()?.filter(|it| it.flags.contains(is_up)).filter_map(|it| {
        let address = it.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
    });
    Ok(ips
        .map(|ip| {
            let marks = marks.iter().find(|(marked, _)| ip == *marked).map_or(0, |(_, marks)| *marks);
            Own { ip, is_temporary: marks & TEMPORARY != 0, is_unusable: marks & UNUSABLE != 0 }
        })
        .collect())
}

#[cfg(not(unix))]
fn list() -> io::Result<Vec<Own>> {
    Err(io::ErrorKind::Unsupported.into())
}

// `IFA_F_*` of <linux/if_addr.h>.
const TEMPORARY: u8 = 0x01;
/// Flags of an address that is deprecated, tentative, or found to be another machine's.
const UNUSABLE: u8 = 0x20 | 0x40 | 0x08;

/// Returns the flags of each local IPv6 address on Linux; empty where the system does not publish them.
fn marks() -> Vec<(Ipv6Addr, u8)> {
    std::fs::read_to_string("/proc/net/if_inet6").map(|text| parse_marks(&text)).unwrap_or_default()
}

/// Parses lines of address, interface index, prefix length, scope, flags and name; all but the name are hexadecimal.
fn parse_marks(text: &str) -> Vec<(Ipv6Addr, u8)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        Some((Ipv6Addr::from_bits(address), u8::from_str_radix(words.nth(3)?, 16).ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &str = "[::]:4433";

    fn usual(ip: &str) -> Own {
        Own { ip: ip.parse().unwrap(), is_temporary: false, is_unusable: false }
    }

    fn chosen(listening: &str, own: &[Own], preferred: &[&str]) -> Reachable {
        let preferred: Vec<IpAddr> = preferred.iter().map(|ip| ip.parse().unwrap()).collect();
        choose(listening.parse().unwrap(), own, &preferred)
    }

    #[test]
    fn addresses_that_others_reach_are_shown_ipv4_first_and_that_of_the_default_route_before_the_rest() {
        let own = ["127.0.0.1", "::1", "172.17.0.1", "2001:db8::7", "fe80::7", "169.254.3.4", "192.0.2.7", "fd00::7"];
        let own = own.map(usual);
        let shown = chosen(ANY, &own, &["192.0.2.7", "2001:db8::7"]);
        let expected =
            ["192.0.2.7:4433", "172.17.0.1:4433", "[2001:db8::7]:4433", "[fd00::7]:4433", "169.254.3.4:4433"];
        assert_eq!(
            (&shown.places[..], shown.left_out, shown.is_only_here),
            (&expected.map(String::from)[..], 0, false)
        );
        let shown = chosen("0.0.0.0:4433", &own, &["192.0.2.7", "2001:db8::7"]);
        assert_eq!(shown.places, ["192.0.2.7:4433", "172.17.0.1:4433", "169.254.3.4:4433"]);
        assert_eq!(chosen("192.0.2.9:1", &own, &["192.0.2.7"]).places, ["192.0.2.9:1"]);
        assert!(chosen("127.0.0.1:1", &own, &["192.0.2.7"]).is_only_here);
    }

    #[test]
    fn link_local_and_loopback_addresses_are_shown_where_there_is_nothing_else() {
        let own = ["127.0.0.1", "::1", "fe80::7", "fe80::8"].map(usual);
        let shown = chosen(ANY, &own, &[]);
        assert_eq!(shown.places, ["[fe80::7%INTERFACE]:4433", "[fe80::8%INTERFACE]:4433"]);
        assert!(!shown.is_only_here);
        let shown = chosen(ANY, &own[..2], &[]);
        assert_eq!(
            (&shown.places[..], shown.is_only_here),
            (&["127.0.0.1:4433".to_owned(), "[::1]:4433".to_owned()][..], true)
        );
        let nothing = chosen(ANY, &[], &[]);
        assert!(nothing.places.is_empty() && nothing.first() == "THIS-MACHINE");
    }

    #[test]
    fn temporary_addresses_give_way_to_stable_ones_of_their_network_and_old_ones_are_left_out() {
        let temporary = |ip| Own { is_temporary: true, ..usual(ip) };
        let old = |ip| Own { is_unusable: true, ..usual(ip) };
        let own = [
            temporary("2001:db8::a"),
            usual("2001:db8::7"),
            old("2001:db8::9"),
            temporary("2001:db8:1::a"),
            old("192.0.2.9"),
        ];
        // The system prefers the temporary address for outgoing calls.
        let shown = chosen(ANY, &own, &["2001:db8::a"]);
        assert_eq!(shown.places, ["[2001:db8::7]:4433", "[2001:db8:1::a]:4433"]);
    }

    #[test]
    fn the_list_is_bounded_and_has_each_address_once() {
        let own: Vec<Own> = (1..=250).map(|last| usual(&format!("10.0.0.{last}"))).collect();
        let shown = chosen(ANY, &[&own[..], &own[..1], &[usual("2001:db8::7")]].concat(), &["10.0.0.200"]);
        assert_eq!((shown.places.len(), shown.left_out), (ADDRESSES_SHOWN_MAX + 1, 250 - ADDRESSES_SHOWN_MAX));
        assert_eq!(shown.places[..2], ["10.0.0.200:4433", "10.0.0.1:4433"]);
        assert_eq!(shown.places[ADDRESSES_SHOWN_MAX], "[2001:db8::7]:4433", "not crowded out");
    }

    #[test]
    fn addresses_are_shown_where_interfaces_are_not_listed() {
        let shown = chosen(ANY, &[], &["192.0.2.7", "2001:db8::7"]);
        assert_eq!(shown.places, ["192.0.2.7:4433", "[2001:db8::7]:4433"]);
    }

    #[test]
    fn linux_tells_which_addresses_are_temporary_or_old() {
        let text = "20010db8000000000000000000000007 02 40 00 80     eth0\n\
                    20010db800000000000000000000000a 02 40 00 01     eth0\n\
                    fe800000000000000000000000000007 02 40 20 e0     eth0\n\
                    strange\n";
        let marks = parse_marks(text);
        let marks: Vec<_> =
            marks.iter().map(|(ip, marks)| (ip.to_string(), marks & TEMPORARY, marks & UNUSABLE)).collect();
        let expected = [("2001:db8::7", 0, 0), ("2001:db8::a", 1, 0), ("fe80::7", 0, 0x60)];
        assert_eq!(marks, expected.map(|(ip, temporary, unusable)| (ip.to_owned(), temporary, unusable)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_lists_loopback_and_what_is_listed_is_shown() {
        assert!(list().unwrap().iter().any(|own| own.ip.is_loopback()));
        let shown = Reachable::of(ANY.parse().unwrap());
        assert!(shown.unlisted.is_none() && !shown.places.is_empty(), "{shown:?}");
        for place in &shown.places {
            assert!(
                place.contains("%INTERFACE") || place.parse::<SocketAddr>().is_ok_and(|it| it.port() == 4433),
                "{place}"
            );
        }
    }
}
