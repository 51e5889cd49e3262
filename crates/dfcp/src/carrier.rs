//! Carriers of datagrams: UDP or raw IP.

use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Protocol numbers reserved "for experimentation and testing" (RFC 3692, RFC 4727).
const EXPERIMENTAL: [u8; 2] = [253, 254];

/// Carrier of the datagrams from host to host. Both ends need the same carrier.
///
/// ```
/// use dfcp::Carrier;
///
/// let remote = "192.0.2.7:4433".parse().expect("an address");
/// assert_eq!(Carrier::Udp.overhead_bytes(remote) - Carrier::RAW_IP.overhead_bytes(remote), 8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carrier {
    /// UDP: needs no privileges, and passes firewalls and address translation.
    #[default]
    Udp,
    /// IP itself, which saves UDP's 8 bytes; see [`Carrier::RAW_IP`]. Needs Linux and the capability `CAP_NET_RAW`.
    ///
    /// The ports are in DFCP's own header. Each local port is reserved by binding a UDP socket of that number, which is
    /// never read, so that both carriers share one number space. Differences from UDP: an IPv6 socket carries no IPv4,
    /// and address translation rarely lets such packets through.
    RawIp {
        /// Protocol number of the IP header: 253 or 254.
        protocol: u8,
    },
}

impl Carrier {
    /// Raw IP with the usual protocol number, 253.
    pub const RAW_IP: Self = Self::RawIp { protocol: EXPERIMENTAL[0] };

    /// Returns the bytes of IP (and UDP) headers per datagram to `remote`: 28 (IPv4) or 48 (IPv6) over UDP, 20 or 40
    /// over raw IP.
    #[must_use]
    pub fn overhead_bytes(self, remote: SocketAddr) -> u32 {
        let ip = if remote.ip().to_canonical().is_ipv6() { 40 } else { 20 };
        match self {
            Self::Udp => ip + 8,
            Self::RawIp { .. } => ip,
        }
    }

    /// Fails if this carrier can never work here: an invalid protocol number or an unsupported system. Privileges are
    /// not checked.
    pub(crate) fn check(self) -> io::Result<()> {
        match self {
            Self::RawIp { protocol } if !EXPERIMENTAL.contains(&protocol) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("raw IP takes the experimental protocol number 253 or 254, not {protocol}"),
            )),
            Self::RawIp { .. } if cfg!(not(target_os = "linux")) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "raw IP works on Linux only, use UDP"))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("UDP"),
            Self::RawIp { protocol } => write!(f, "raw IP, protocol {protocol}"),
        }
    }
}
