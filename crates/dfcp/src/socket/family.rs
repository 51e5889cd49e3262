//! Conversion of addresses to and from the IP version of a socket.

use std::net::{IpAddr, SocketAddr};

/// Returns the IPv4 address of an IPv4-mapped IPv6 address, and any other address unchanged, including its zone.
/// Connections store canonical addresses of their peers, so that a socket of the other IP version can replace a socket.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip.is_ipv4() => SocketAddr::new(ip, address.port()),
        _ => address,
    }
}

/// IP versions that a socket reaches, which also determine the form of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6 {
        /// True if the socket reaches IPv6 only, without IPv4-mapped addresses.
        only: bool,
    },
}

impl Family {
    /// Returns the family of a socket bound to `local`.
    pub(super) fn of(local: SocketAddr, only_v6: bool) -> Self {
        if local.is_ipv4() { Self::V4 } else { Self::V6 { only: only_v6 } }
    }

    /// Returns true if a socket bound to `local` can send to the canonical address `remote`, provided there is a route.
    pub(super) fn reaches(self, local: SocketAddr, remote: SocketAddr) -> bool {
        match self {
            Self::V4 => remote.is_ipv4(),
            Self::V6 { only } => {
                let (any, own) = (local.ip().is_unspecified(), local.ip().to_canonical());
                if remote.is_ipv4() { !only && (any || own.is_ipv4()) } else { any || own.is_ipv6() }
            }
        }
    }

    /// Converts a canonical address to the form that this socket takes.
    pub(super) fn address(self, address: SocketAddr) -> SocketAddr {
        match (self, address) {
            (Self::V6 { .. }, SocketAddr::V4(v4)) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
            _ => address,
        }
    }

    /// Converts a canonical source address. Returns `None` if the socket's IP version lacks it.
    pub(super) fn source(self, ip: IpAddr) -> Option<IpAddr> {
        match (self, ip) {
            (Self::V6 { .. }, IpAddr::V4(v4)) => Some(v4.to_ipv6_mapped().into()),
            (Self::V4, IpAddr::V6(_)) => None,
            _ => Some(ip),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_socket_reaches_what_its_ip_version_and_address_permit() {
        let (v4, v6) = (at("192.0.2.1:9"), at("[2001:db8::1]:9"));
        for (local, only, reaches_v4, reaches_v6) in [
            ("0.0.0.0:1", false, true, false),
            ("127.0.0.1:1", false, true, false),
            ("[::]:1", false, true, true),
            ("[::]:1", true, false, true),
            ("[::1]:1", false, false, true),
            ("[::ffff:127.0.0.1]:1", false, true, false),
        ] {
            let local = at(local);
            let family = Family::of(local, only);
            assert_eq!((family.reaches(local, v4), family.reaches(local, v6)), (reaches_v4, reaches_v6), "{local}");
        }
    }

    #[test]
    fn addresses_are_told_in_the_socket_s_own_ip_version() {
        let (v4, mapped, v6) = (at("192.0.2.1:9"), at("[::ffff:192.0.2.1]:9"), at("[fe80::1%3]:9"));
        assert_eq!((canonical(mapped), canonical(v4), canonical(v6)), (v4, v4, v6));
        let dual = Family::V6 { only: false };
        assert_eq!((dual.address(v4), dual.address(v6), Family::V4.address(v4)), (mapped, v6, v4));
        assert_eq!((dual.source(v4.ip()), Family::V4.source(v6.ip())), (Some(mapped.ip()), None));
        assert_eq!((dual.source(v6.ip()), Family::V4.source(v4.ip())), (Some(v6.ip()), Some(v4.ip())));
    }
}
