//! Header offsets of an IP packet, which may come from any program and is untrusted.

use crate::limits::EXTENSION_HEADERS_MAX;

/// Protocol numbers.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// IPv6 headers in front of the transport header: hop-by-hop, routing, destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const IPV6_FRAGMENT: u8 = 44;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

/// Layout of the IP header, and start of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IpLayout {
    pub(crate) version: Version,
    /// Protocol number of the transport header.
    pub(crate) protocol: u8,
    /// Offset of the transport header, within the packet or at its end.
    pub(crate) transport_at: usize,
    /// True for a fragment: only the first one has ports.
    pub(crate) is_fragment: bool,
}

impl IpLayout {
    /// Layout of `packet`; `None` if it is not IP.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_ipv4(packet),
            6 => Self::of_ipv6(packet),
            _ => None,
        }
    }

    fn of_ipv4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let header_bytes = usize::from(header[0] & 0x0f) * 4;
        if header_bytes < 20 || header_bytes > packet.len() {
            return None;
        }
        // All bits except the flag "don't fragment".
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0xbfff != 0;
        Some(Self { version: Version::V4, protocol: header[9], transport_at: header_bytes, is_fragment })
    }

    fn of_ipv6(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 40] = packet.first_chunk()?;
        let (mut protocol, mut transport_at) = (header[6], 40);
        for _ in 0..EXTENSION_HEADERS_MAX {
            if !EXTENSIONS.contains(&protocol) {
                break;
            }
            // A truncated header counts as none, and the bytes after it have an unknown protocol.
            let Some(&[next, eighths]) = packet.get(transport_at..).and_then(<[u8]>::first_chunk) else { break };
            let end = transport_at + (usize::from(eighths) + 1) * 8;
            if end > packet.len() {
                break;
            }
            (protocol, transport_at) = (next, end);
        }
        Some(Self { version: Version::V6, protocol, transport_at, is_fragment: protocol == IPV6_FRAGMENT })
    }

    /// Source and destination address.
    pub(crate) fn addresses(self, packet: &[u8]) -> &[u8] {
        let place = match self.version {
            Version::V4 => 12..20,
            Version::V6 => 8..40,
        };
        packet.get(place).unwrap_or_default()
    }

    /// True for link-local multicast (RFC 5771 §4, RFC 4291 §2.7), which no router forwards.
    pub(crate) fn is_link_local_multicast(self, packet: &[u8]) -> bool {
        match (self.version, self.addresses(packet)) {
            (Version::V4, addresses) => addresses.get(4..7) == Some(&[224, 0, 0]),
            (Version::V6, addresses) => addresses
                .get(16)
                .zip(addresses.get(17))
                .is_some_and(|(&first, &second)| first == 0xff && second & 0x0f <= 2),
        }
    }

    /// Offset of the TCP or UDP payload.
    pub(crate) fn payload_at(self, packet: &[u8]) -> Option<usize> {
        let transport = packet.get(self.transport_at..)?;
        let header_bytes = match self.protocol {
            TCP => usize::from(transport.get(12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let least = if self.protocol == TCP { 20 } else { 8 };
        (header_bytes >= least && header_bytes <= transport.len()).then_some(self.transport_at + header_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_headers_are_skipped() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
        packet.resize(40, 0);
        // Hop-by-hop options of 8 bytes, destination options of 16, then UDP.
        packet.extend([60, 0, 1, 4, 0, 0, 0, 0]);
        packet.extend([UDP, 1, 1, 12]);
        packet.resize(64, 0);
        packet.extend([0; 9]);
        let layout = IpLayout::of(&packet).unwrap();
        assert_eq!((layout.protocol, layout.transport_at, layout.payload_at(&packet)), (UDP, 64, Some(72)));
        // A header longer than the packet ends with it.
        packet[41] = 200;
        assert_eq!(IpLayout::of(&packet).unwrap().payload_at(&packet), None);
    }

    #[test]
    fn neighbours_only() {
        let mut v6 = vec![0x60; 40];
        v6[24..].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16]);
        assert!(IpLayout::of(&v6).unwrap().is_link_local_multicast(&v6));
        v6[25] = 0x0e;
        assert!(!IpLayout::of(&v6).unwrap().is_link_local_multicast(&v6));
        let mut v4 = vec![0x45; 20];
        v4[16..].copy_from_slice(&[224, 0, 0, 22]);
        assert!(IpLayout::of(&v4).unwrap().is_link_local_multicast(&v4));
        v4[18] = 1;
        assert!(!IpLayout::of(&v4).unwrap().is_link_local_multicast(&v4));
    }
}
