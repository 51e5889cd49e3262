//! Frames read from a device: a packet, or a superpacket of TCP segments or UDP datagrams to be split later.

use std::ops::Range;

use dfcp_netem::Ecn;

use super::checksum::{self, Sum};
use super::ecn;
use super::flow::FlowKey;
use super::layout::{IpLayout, TCP, UDP, Version};
use super::vnet::{GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CHECKSUM, VNET_BYTES, VnetHeader};
use crate::limits::{PACKET_BYTES_MAX, SEGMENTS_MAX};

/// TCP flags, in byte 13 of the header.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Fault of a frame, which is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("not an IP packet of a possible length")]
    NotIp,
    #[error("a checksum outside of the packet")]
    Checksum,
    #[error("a superpacket of an unknown kind, or whose headers do not agree with its kind")]
    Superpacket,
}

/// NAT mapping of a packet, checked again on arrival at the NAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Route of the host.
    pub(crate) route: usize,
    /// Number of rebindings at the time of the mapping. `None` if the port was unused since the last one.
    pub(crate) generation: Option<u32>,
}

/// Packet or superpacket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    vnet: VnetHeader,
    packet: Box<[u8]>,
    ip: IpLayout,
    /// Length of all headers, which every segment repeats; of a plain packet, its whole length.
    headers_bytes: usize,
    /// Payload of each segment except the last; not zero.
    segment_bytes: usize,
    segments: usize,
    /// Flow number, see [`dfcp_netem::Packet::flow`].
    pub(crate) flow: u64,
    /// Mapping to be checked by the NAT on arrival.
    pub(crate) binding: Option<Binding>,
}

impl Frame {
    /// Parses a frame from a device.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (vnet, packet) = bytes.split_first_chunk::<VNET_BYTES>().ok_or(Malformed::NotIp)?;
        let vnet = VnetHeader::decode(vnet);
        let ip = IpLayout::of(packet).filter(|_| packet.len() <= PACKET_BYTES_MAX).ok_or(Malformed::NotIp)?;
        if vnet.gso_kind == GSO_NONE { Self::single(vnet, packet, ip) } else { Self::superpacket(vnet, packet, ip) }
    }

    /// Parses a packet with a complete checksum.
    pub(crate) fn of_packet(packet: &[u8]) -> Result<Self, Malformed> {
        let ip = IpLayout::of(packet).ok_or(Malformed::NotIp)?;
        Self::single(VnetHeader::default(), packet, ip)
    }

    fn single(vnet: VnetHeader, packet: &[u8], ip: IpLayout) -> Result<Self, Malformed> {
        let checksum_end = usize::from(vnet.checksum_start) + usize::from(vnet.checksum_offset) + 2;
        if vnet.needs_checksum() && checksum_end > packet.len() {
            return Err(Malformed::Checksum);
        }
        // A device that receives a packet understands only this flag.
        let flags = vnet.flags & NEEDS_CHECKSUM;
        let vnet = VnetHeader { flags, segment_bytes: 0, ..vnet };
        let headers_bytes = packet.len();
        Ok(Self {
            vnet,
            packet: packet.into(),
            ip,
            headers_bytes,
            segment_bytes: 1,
            segments: 1,
            flow: 0,
            binding: None,
        })
    }

    fn superpacket(vnet: VnetHeader, packet: &[u8], ip: IpLayout) -> Result<Self, Malformed> {
        let expected = match (vnet.gso_kind & !GSO_ECN, ip.version, ip.protocol) {
            (GSO_TCPV4, Version::V4, TCP) | (GSO_TCPV6, Version::V6, TCP) => 16,
            (GSO_UDP_L4, _, UDP) => 6,
            _ => return Err(Malformed::Superpacket),
        };
        // By the standard, a superpacket's checksum is always incomplete.
        let sums_here = usize::from(vnet.checksum_start) == ip.transport_at && vnet.checksum_offset == expected;
        if !vnet.needs_checksum() || !sums_here || ip.is_fragment {
            return Err(Malformed::Superpacket);
        }
        let headers_bytes = ip.payload_at(packet).ok_or(Malformed::Superpacket)?;
        let segment_bytes = usize::from(vnet.segment_bytes);
        let segments = (packet.len() - headers_bytes).checked_div(segment_bytes).unwrap_or_default();
        let has_rest = segments * segment_bytes < packet.len() - headers_bytes;
        let segments = segments + usize::from(has_rest);
        if segment_bytes == 0 || segments == 0 || segments > SEGMENTS_MAX {
            return Err(Malformed::Superpacket);
        }
        let vnet = VnetHeader { flags: NEEDS_CHECKSUM, ..vnet };
        Ok(Self { vnet, packet: packet.into(), ip, headers_bytes, segment_bytes, segments, flow: 0, binding: None })
    }

    /// Packet from the IP header on.
    pub(crate) fn packet(&self) -> &[u8] {
        &self.packet
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    /// IP bytes of segment `index`.
    pub(crate) fn size_bytes(&self, index: usize) -> usize {
        self.headers_bytes + self.payload_of(index, 1).len()
    }

    /// Payload of `count` segments from `first` on.
    fn payload_of(&self, first: usize, count: usize) -> &[u8] {
        let payload = self.packet.get(self.headers_bytes..).unwrap_or_default();
        let at = |segment: usize| segment.saturating_mul(self.segment_bytes).min(payload.len());
        let Range { start, end } = at(first)..at(first.saturating_add(count));
        payload.get(start..end).unwrap_or_default()
    }

    /// ECN codepoint on arrival; a superpacket's segments share one.
    pub(crate) fn ecn(&self) -> Ecn {
        ecn::of(&self.packet)
    }

    pub(crate) fn is_link_local_multicast(&self) -> bool {
        self.ip.is_link_local_multicast(&self.packet)
    }

    /// Index of the host pair, from the sender's address (see [`crate::pair_address`]).
    pub(crate) fn pair(&self) -> Option<usize> {
        let source = self.ip.addresses(&self.packet).first_chunk::<4>().filter(|_| self.ip.version == Version::V4);
        source.and_then(|source| usize::from(u16::from_be_bytes([source[2], source[3]])).checked_sub(1))
    }

    /// Protocol, source port and destination port; `None` for every fragment, since only the first one has ports.
    pub(crate) fn ports(&self) -> Option<(u8, [u16; 2])> {
        self.ip.payload_at(&self.packet).filter(|_| !self.ip.is_fragment)?;
        let [s0, s1, d0, d1] = *self.packet.get(self.ip.transport_at..)?.first_chunk()?;
        Some((self.ip.protocol, [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])]))
    }

    /// Sets the source port of a frame with ports.
    pub(crate) fn set_source_port(&mut self, port: u16) {
        self.set_port(0, port);
    }

    /// Sets the destination port of a frame with ports.
    pub(crate) fn set_destination_port(&mut self, port: u16) {
        self.set_port(2, port);
    }

    /// Changes a port, and updates a complete checksum by the difference (RFC 1624). An incomplete checksum does not
    /// cover ports yet.
    fn set_port(&mut self, at: usize, port: u16) {
        let checksum_at = if self.ip.protocol == TCP { 16 } else { 6 };
        let is_complete = !self.vnet.needs_checksum() || usize::from(self.vnet.checksum_start) != self.ip.transport_at;
        let Some(transport) = self.packet.get_mut(self.ip.transport_at..) else { return };
        let word = |transport: &[u8], at: usize| {
            transport.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_be_bytes(*bytes))
        };
        let (old, sum) = (word(transport, at), word(transport, checksum_at));
        put(transport, at, port);
        // UDP without a checksum stays without.
        if is_complete && (sum != 0 || self.ip.protocol == TCP) {
            let new = Sum::default().plus_word(!sum).plus_word(!old).plus_word(port).checksum();
            put(transport, checksum_at, if new == 0 { 0xffff } else { new });
        }
    }

    pub(crate) fn flow_key(&self) -> FlowKey {
        FlowKey::of(self.ip, &self.packet)
    }

    /// Bytes of `count` segments from `first` on, for a device: [`VnetHeader`] and all headers in `headers`; returns the payload.
    pub(crate) fn run<'a>(&'a self, first: usize, count: usize, headers: &mut Vec<u8>) -> &'a [u8] {
        headers.clear();
        if first == 0 && count >= self.segments {
            // The whole frame is written unchanged.
            headers.extend(self.vnet.encode());
            headers.extend_from_slice(&self.packet[..self.headers_bytes]);
            return self.payload_of(0, self.segments);
        }
        let payload = self.payload_of(first, count);
        let is_super = payload.len() > self.segment_bytes;
        let ecn = if first == 0 { self.vnet.gso_kind & GSO_ECN } else { 0 };
        let vnet = VnetHeader {
            gso_kind: if is_super { self.vnet.gso_kind & !GSO_ECN | ecn } else { GSO_NONE },
            headers_bytes: self.headers_bytes as u16,
            segment_bytes: if is_super { self.vnet.segment_bytes } else { 0 },
            ..self.vnet
        };
        headers.extend(vnet.encode());
        headers.extend_from_slice(&self.packet[..self.headers_bytes]);
        let packet = &mut headers[VNET_BYTES..];
        self.adjust_ip(packet, first, payload.len());
        self.adjust_transport(packet, first, first + count >= self.segments, payload.len());
        payload
    }

    /// Adjusts lengths, and identification numbers of IPv4.
    fn adjust_ip(&self, headers: &mut [u8], first: usize, payload_bytes: usize) {
        let total_bytes = self.headers_bytes + payload_bytes;
        match self.ip.version {
            Version::V4 => {
                let Some(header) = headers.get_mut(..self.ip.transport_at) else { return };
                put(header, 2, total_bytes as u16);
                let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(first as u16);
                put(header, 4, id);
                put(header, 10, 0);
                let sum = Sum::of(header).checksum();
                put(header, 10, sum);
            }
            Version::V6 => put(headers, 4, total_bytes.saturating_sub(40) as u16),
        }
    }

    /// Adjusts TCP's sequence number and flags, UDP's length, and the pseudo-header sum.
    fn adjust_transport(&self, headers: &mut [u8], first: usize, is_last: bool, payload_bytes: usize) {
        let transport_at = self.ip.transport_at;
        let length = (self.headers_bytes - transport_at + payload_bytes) as u16;
        let addresses = Sum::of(self.ip.addresses(&self.packet));
        let pseudo = addresses.plus_word(length).plus_word(self.ip.protocol.into()).folded();
        let Some(transport) = headers.get_mut(transport_at..) else { return };
        if self.ip.protocol == UDP {
            put(transport, 4, length);
            put(transport, 6, pseudo);
            return;
        }
        let Some(header) = transport.first_chunk_mut::<20>() else { return };
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let sequence = sequence.wrapping_add((first * self.segment_bytes) as u32);
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        if !is_last {
            header[13] &= !(FIN | PSH);
        }
        if first > 0 {
            header[13] &= !CWR;
        }
        put(header, 16, pseudo);
    }

    /// Segment as on the wire, with a complete checksum.
    pub(crate) fn wire_packet(&self, index: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let payload = self.run(index, 1, &mut bytes);
        bytes.extend_from_slice(payload);
        let mut packet = bytes.split_off(VNET_BYTES.min(bytes.len()));
        if self.vnet.needs_checksum() {
            let (start, offset) = (self.vnet.checksum_start, self.vnet.checksum_offset);
            checksum::complete(&mut packet, start.into(), offset.into());
        }
        packet
    }
}

fn put(header: &mut [u8], at: usize, value: u16) {
    if let Some(field) = header.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = value.to_be_bytes();
    }
}

#[cfg(test)]
mod tests;
