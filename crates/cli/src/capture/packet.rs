//! Fields of a captured packet that the commands need. The bytes are untrusted, and no input panics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Maximum number of IPv6 extension headers that are followed; real traffic has fewer.
const EXTENSIONS_MAX: usize = 8;
const UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;
/// Protocol numbers of DFCP directly over IP (`spec/wire-format.md` §6.1).
const EXPERIMENTS: [u8; 2] = [253, 254];

/// Captured part of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpPacket<'a> {
    /// Destination address.
    pub(crate) to: IpAddr,
    /// Length on the wire, in bytes, from the IP header on.
    pub(crate) size_bytes: u32,
    /// UDP payload of the packet, if it is UDP.
    pub(crate) udp: Option<Udp<'a>>,
}

/// First fragment of a UDP datagram, or the whole datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Udp<'a> {
    /// Destination port.
    pub(crate) port: u16,
    /// Captured part of the payload.
    pub(crate) payload: &'a [u8],
}

/// Payload that may be DFCP, over UDP or directly over IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Range of the payload in the captured bytes.
    pub(crate) range: Range<usize>,
    /// Length of the payload on the wire, in bytes.
    pub(crate) wire_bytes: usize,
    /// Offset of the UDP checksum that covers the payload.
    pub(crate) checksum_at: Option<usize>,
}

/// Type of the link-layer header, numbered as in <https://www.tcpdump.org/linktypes.html>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkType {
    /// Ethernet.
    Ethernet,
    /// No header: the packet begins with IP.
    RawIp,
    /// Linux cooked capture (SLL), of the device `any`.
    LinuxCooked,
    /// Linux cooked capture, version 2 (SLL2).
    LinuxCooked2,
    /// Loopback of BSD and macOS: four bytes of protocol family.
    Loopback,
}

impl LinkType {
    /// Returns the link type of this number; `None` if it is not supported.
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        match number {
            0 | 108 => Some(Self::Loopback),
            1 => Some(Self::Ethernet),
            12 | 14 | 101 | 228 | 229 => Some(Self::RawIp),
            113 => Some(Self::LinuxCooked),
            276 => Some(Self::LinuxCooked2),
            _ => None,
        }
    }

    /// Returns the bytes after the link-layer header, if they may be IP.
    fn ip(self, bytes: &[u8]) -> Option<&[u8]> {
        match self {
            Self::RawIp => Some(bytes),
            Self::Loopback => bytes.get(4..),
            Self::LinuxCooked => behind_type(bytes, 14),
            Self::LinuxCooked2 => matches!(be16(bytes, 0)?, 0x0800 | 0x86DD).then(|| bytes.get(20..)).flatten(),
            Self::Ethernet => behind_type(bytes, 12),
        }
    }
}

/// Returns the bytes after the EtherType at `at`, which up to two VLAN tags may precede.
fn behind_type(bytes: &[u8], at: usize) -> Option<&[u8]> {
    (0..3).map(|tags| at + 4 * tags).find_map(|at| match be16(bytes, at) {
        Some(0x8100 | 0x88A8) => None,
        Some(0x0800 | 0x86DD) => Some(bytes.get(at + 2..)),
        _ => Some(None),
    })?
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*two))
}

/// Returns the IP packet in the captured part of a frame of `wire_bytes`; `None` if there is no IP packet.
pub(crate) fn ip_packet(link: LinkType, captured: &[u8], wire_bytes: u32) -> Option<IpPacket<'_>> {
    let ip = link.ip(captured)?;
    let in_front = u32::try_from(captured.len() - ip.len()).ok()?;
    // Linux captures length 0 for a packet that the interface will segment later: use the frame's length.
    let wire_bytes = wire_bytes.saturating_sub(in_front);
    let sized = |length: u32| if length == 0 { wire_bytes } else { length.min(wire_bytes) };
    match ip.first()? >> 4 {
        4 => {
            let header_bytes = usize::from(ip.first()? & 0xF) * 4;
            let to = ip.get(16..)?.first_chunk::<4>()?;
            let is_first = be16(ip, 6)? & 0x1FFF == 0;
            let is_udp = header_bytes >= 20 && *ip.get(9)? == UDP && is_first;
            let udp = if is_udp { ip.get(header_bytes..).and_then(udp) } else { None };
            Some(IpPacket { to: Ipv4Addr::from(*to).into(), size_bytes: sized(be16(ip, 2)?.into()), udp })
        }
        6 => {
            let to = ip.get(24..)?.first_chunk::<16>()?;
            let length = be16(ip, 4)?;
            let size_bytes = sized(if length == 0 { 0 } else { u32::from(length) + 40 });
            let udp =
                transport(*ip.get(6)?, ip.get(40..)?).filter(|&(kind, _)| kind == UDP).and_then(|(_, it)| udp(it));
            Some(IpPacket { to: Ipv6Addr::from(*to).into(), size_bytes, udp })
        }
        _ => None,
    }
}

/// Returns the possible DFCP payload in the captured part of a frame of `wire_bytes`; `None` if there is none. The
/// payload is a whole one or a first fragment.
pub(crate) fn carried(link: LinkType, captured: &[u8], wire_bytes: u32) -> Option<Carried> {
    let size_bytes = ip_packet(link, captured, wire_bytes)?.size_bytes as usize;
    let ip = link.ip(captured)?;
    let (protocol, payload) = match ip.first()? >> 4 {
        4 if be16(ip, 6)? & 0x1FFF == 0 => (*ip.get(9)?, ip.get(usize::from(ip.first()? & 0xF).max(5) * 4..)?),
        6 => transport(*ip.get(6)?, ip.get(40..)?)?,
        _ => return None,
    };
    let payload_at = captured.len() - payload.len();
    let on_wire = size_bytes.checked_sub(ip.len() - payload.len())?;
    let (start, wire_bytes, checksum_at) = if protocol == UDP {
        // Linux captures length 0 for a datagram that the interface will segment later.
        let length =
            Some(usize::from(be16(payload, 4)?)).filter(|&length| length > 0).map_or(on_wire, |it| it.min(on_wire));
        (payload_at + UDP_HEADER_BYTES, length.checked_sub(UDP_HEADER_BYTES)?, Some(payload_at + 6))
    } else if EXPERIMENTS.contains(&protocol) {
        (payload_at, on_wire, None)
    } else {
        return None;
    };
    let end = captured.len().min(start + wire_bytes);
    (start <= end).then_some(Carried { range: start..end, wire_bytes, checksum_at })
}

/// Returns the UDP or DFCP payload after the IPv6 extension headers, with its protocol number.
fn transport(mut kind: u8, mut bytes: &[u8]) -> Option<(u8, &[u8])> {
    for _ in 0..EXTENSIONS_MAX {
        let length = match kind {
            _ if kind == UDP || EXPERIMENTS.contains(&kind) => return Some((kind, bytes)),
            // Hop-by-hop, routing and destination options count units of 8 bytes, without the first.
            0 | 43 | 60 => (usize::from(*bytes.get(1)?) + 1) * 8,
            // A fragment with offset 0 is the first.
            44 if be16(bytes, 2)? & 0xFFF8 == 0 => 8,
            _ => return None,
        };
        kind = *bytes.first()?;
        bytes = bytes.get(length..)?;
    }
    None
}

fn udp(bytes: &[u8]) -> Option<Udp<'_>> {
    // Exclude the padding of the frame.
    let length = usize::from(be16(bytes, 4)?).clamp(8, bytes.len().max(8));
    Some(Udp { port: be16(bytes, 2)?, payload: bytes.get(8..length)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// IPv4 from 10.0.0.1 to 10.0.0.2, with UDP to port 7 and the payload `hi`.
    const IPV4: [u8; 30] = [
        0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, // IP
        0, 9, 0, 7, 0, 10, 0, 0, b'h', b'i',
    ];

    fn expected(payload: &[u8]) -> Option<IpPacket<'_>> {
        Some(IpPacket { to: Ipv4Addr::new(10, 0, 0, 2).into(), size_bytes: 30, udp: Some(Udp { port: 7, payload }) })
    }

    #[test]
    fn every_link_type_leads_to_the_same_packet() {
        let ethernet = [0; 12];
        let frames: [(i32, Vec<u8>); 8] = [
            (101, vec![]),
            (228, vec![]),
            (0, vec![2, 0, 0, 0]),
            (1, [&ethernet[..], &[0x08, 0]].concat()),
            (1, [&ethernet[..], &[0x81, 0, 0, 5, 0x08, 0]].concat()),
            (1, [&ethernet[..], &[0x88, 0xA8, 0, 5, 0x81, 0, 0, 5, 0x08, 0]].concat()),
            (113, [&[0; 14][..], &[0x08, 0]].concat()),
            (276, [&[0x08, 0][..], &[0; 18]].concat()),
        ];
        for (number, in_front) in frames {
            // Short frames are padded.
            let frame = [&in_front[..], &IPV4, &[0; 18]].concat();
            let link = LinkType::from_number(number).unwrap();
            assert_eq!(ip_packet(link, &frame, frame.len() as u32), expected(b"hi"), "{number}");
        }
        assert_eq!(LinkType::from_number(105), None);
        let arp = [&ethernet[..], &[0x08, 6], &[0; 28]].concat();
        assert_eq!(ip_packet(LinkType::Ethernet, &arp, 42), None);
    }

    #[test]
    fn ipv6_with_extensions_is_followed_to_udp() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 26, 0, 64];
        packet.extend([0xFE; 16]);
        packet.extend([0xFD; 16]);
        packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0, 9, 0, 7, 0, 10, 0, 0, b'h', b'i']);
        let found = ip_packet(LinkType::RawIp, &packet, packet.len() as u32).unwrap();
        assert_eq!((found.to, found.size_bytes), (Ipv6Addr::from([0xFD; 16]).into(), 66));
        assert_eq!(found.udp, Some(Udp { port: 7, payload: b"hi" }));
    }

    #[test]
    fn sizes_are_those_of_the_wire() {
        // Cases: cut off behind the UDP header, cut off within the IP header, and not yet segmented.
        let cut = ip_packet(LinkType::RawIp, &IPV4[..28], 30).unwrap();
        assert_eq!((cut.size_bytes, cut.udp), (30, Some(Udp { port: 7, payload: b"" })));
        assert_eq!(ip_packet(LinkType::RawIp, &IPV4[..19], 30), None);
        let mut long = IPV4;
        long[2..4].copy_from_slice(&[0, 0]);
        assert_eq!(ip_packet(LinkType::RawIp, &long, 60_030).unwrap().size_bytes, 60_030);
        long[2..4].copy_from_slice(&[0xFF, 0xFF]);
        assert_eq!(ip_packet(LinkType::RawIp, &long, 30).unwrap().size_bytes, 30);
    }

    #[test]
    fn what_may_be_dfcp_is_found_and_where_it_lies() {
        let frame = [&[0; 12][..], &[0x08, 0], &IPV4, &[0; 18]].concat();
        let over_udp = Carried { range: 42..44, wire_bytes: 2, checksum_at: Some(40) };
        assert_eq!(carried(LinkType::Ethernet, &frame, frame.len() as u32), Some(over_udp));
        let cut = Carried { range: 28..29, wire_bytes: 2, checksum_at: Some(26) };
        assert_eq!(carried(LinkType::RawIp, &IPV4[..29], 30), Some(cut));
        let mut over_ip = IPV4;
        over_ip[9] = 253;
        let range = Carried { range: 20..30, wire_bytes: 10, checksum_at: None };
        assert_eq!(carried(LinkType::RawIp, &over_ip, 30), Some(range));
        over_ip[9] = 6;
        assert_eq!(carried(LinkType::RawIp, &over_ip, 30), None);
    }

    #[test]
    fn only_first_fragments_have_ports() {
        let mut later = IPV4;
        later[7] = 1;
        assert_eq!(ip_packet(LinkType::RawIp, &later, 30).unwrap().udp, None);
        let mut tcp = IPV4;
        tcp[9] = 6;
        assert_eq!(ip_packet(LinkType::RawIp, &tcp, 30).unwrap().udp, None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(
            number in prop::sample::select(vec![0, 1, 101, 113, 276]), head in 0..3_usize,
            bytes in prop::collection::vec(any::<u8>(), 0..120), wire_bytes: u32,
        ) {
            let link = LinkType::from_number(number).unwrap();
            let heads: [&[u8]; 3] = [&[], &[0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17], &[0x60, 0, 0, 0, 0, 26, 0]];
            let bytes = [heads[head], &bytes].concat();
            if let Some(carried) = carried(link, &bytes, wire_bytes) {
                prop_assert!(carried.range.end <= bytes.len() && carried.range.len() <= carried.wire_bytes);
                prop_assert!(carried.checksum_at.is_none_or(|at| at + 2 <= carried.range.start));
            }
            if let Some(packet) = ip_packet(link, &bytes, wire_bytes) {
                prop_assert!(packet.size_bytes <= wire_bytes);
                prop_assert!(packet.udp.is_none_or(|udp| udp.payload.len() <= bytes.len()));
            }
        }
    }
}
