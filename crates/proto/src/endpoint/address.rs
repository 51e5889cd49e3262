//! Compact storage of socket addresses.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use dfcp_secure::{AddressPrefix, address_bytes};

/// A [`SocketAddr`] in 23 bytes: 18 of address and port, as in cookies, 4 of the scope id, and a flag for IPv4.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    bytes: [u8; 18],
    scope: [u8; 4],
    is_v4: bool,
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        let scope = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        };
        Self { bytes: address_bytes(address), scope: scope.to_be_bytes(), is_v4: address.is_ipv4() }
    }
}

impl From<Address> for SocketAddr {
    fn from(address: Address) -> Self {
        let [ip @ .., high, low] = address.bytes;
        let (ip, port) = (Ipv6Addr::from(ip), u16::from_be_bytes([high, low]));
        match ip.to_ipv4_mapped() {
            Some(v4) if address.is_v4 => Self::new(v4.into(), port),
            _ => SocketAddrV6::new(ip, port, 0, u32::from_be_bytes(address.scope)).into(),
        }
    }
}

impl From<Address> for AddressPrefix {
    fn from(address: Address) -> Self {
        SocketAddr::from(address).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_kept_as_they_are() {
        for text in ["192.0.2.7:4433", "[2001:db8::7]:1", "[::ffff:192.0.2.7]:65535", "[fe80::1%3]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(SocketAddr::from(Address::from(address)), address);
        }
    }
}
