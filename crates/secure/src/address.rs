//! Byte form of addresses for cookies, and address prefixes that limits apply to.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Prefix by which translators (NAT64) map IPv4 hosts into IPv6: 64:ff9b::/96 (RFC 6052 §2.1).
const TRANSLATED: u128 = 0x0064_ff9b << 96;

/// Addresses that share one limit: a whole IPv4 address (also mapped or translated into IPv6), or the first 64 bits of
/// an IPv6 address, because a site may assign all 2⁶⁴ addresses of such a prefix to a single host.
///
/// ```
/// # use dfcp_secure as dfcp;
/// use std::net::IpAddr;
///
/// use dfcp::AddressPrefix;
///
/// let prefix = |ip: &str| AddressPrefix::from(ip.parse::<IpAddr>().expect("an address"));
/// assert_eq!(prefix("2001:db8::1"), prefix("2001:db8::2"));
/// assert_eq!(prefix("::ffff:192.0.2.1"), prefix("192.0.2.1"));
/// assert_ne!(prefix("192.0.2.1"), prefix("192.0.2.2"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPrefix(u64);

impl From<IpAddr> for AddressPrefix {
    fn from(ip: IpAddr) -> Self {
        let ip = match ip {
            IpAddr::V6(v6) if v6.to_bits() >> 32 == TRANSLATED >> 32 => Ipv4Addr::from(v6.to_bits() as u32).into(),
            other => other.to_canonical(),
        };
        Self(match ip {
            // The upper bits are those of an IPv4-mapped address. They cannot collide: no IPv6 host has a prefix in
            // 0:ffff::/32.
            IpAddr::V4(v4) => 0xffff_0000_0000 | u64::from(v4.to_bits()),
            IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
        })
    }
}

impl From<SocketAddr> for AddressPrefix {
    fn from(address: SocketAddr) -> Self {
        address.ip().into()
    }
}

/// Encodes an IPv6 address, or an IPv4 address in mapped form, and a port (`spec/security.md` \[cookie-3\]).
#[must_use]
pub fn address_bytes(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_one_party_and_so_are_64_bits_of_an_ipv6_one() {
        let same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| AddressPrefix::from(text.parse::<SocketAddr>().unwrap()));
            one == other
        };
        assert!(same("192.0.2.7:1", "192.0.2.7:9") && same("192.0.2.7:1", "[::ffff:192.0.2.7]:1"));
        assert!(!same("192.0.2.7:1", "192.0.2.8:1") && !same("[::ffff:192.0.2.7]:1", "[::ffff:192.0.2.8]:1"));
        assert!(same("192.0.2.7:1", "[64:ff9b::192.0.2.7]:1") && !same("[64:ff9b::1]:1", "[64:ff9b::2]:1"));
        assert!(same("[64:ff9b::1:0:1]:1", "[64:ff9b::1:0:2]:1"), "past 96 bits it is none of the translators' prefix");
        assert!(same("[2001:db8:0:1::7]:1", "[2001:db8:0:1:ffff::8]:2"));
        assert!(!same("[2001:db8:0:1::7]:1", "[2001:db8:0:2::7]:1"));
    }
}
