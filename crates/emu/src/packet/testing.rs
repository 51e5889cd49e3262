//! Superpackets and the packets that they represent, built from scratch, for tests.

use dfcp_netem::Ecn;

use super::checksum::Sum;
use super::layout::{TCP, UDP};
use super::vnet::{GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CHECKSUM, VnetHeader};

/// Superpacket to build.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) is_v6: bool,
    pub(crate) is_udp: bool,
    pub(crate) segment_bytes: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) options_words: usize,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) id: u16,
    pub(crate) ecn: Ecn,
}

impl Spec {
    /// TCP over IPv4 with 12 bytes of options.
    pub(crate) fn tcp(segment_bytes: usize, payload_bytes: usize) -> Self {
        Self {
            is_v6: false,
            is_udp: false,
            segment_bytes,
            payload_bytes,
            options_words: 3,
            flags: 0x18,
            sequence: 1,
            id: 1,
            ecn: Ecn::Ect0,
        }
    }

    fn protocol(&self) -> u8 {
        if self.is_udp { UDP } else { TCP }
    }

    fn transport_at(&self) -> usize {
        if self.is_v6 { 40 } else { 20 }
    }

    fn checksum_offset(&self) -> usize {
        if self.is_udp { 6 } else { 16 }
    }

    fn addresses(&self) -> Vec<u8> {
        (1..=if self.is_v6 { 32 } else { 8 }).collect()
    }

    fn payload(&self) -> Vec<u8> {
        (0..self.payload_bytes).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    /// One packet with this payload and a complete checksum, built from scratch.
    fn packet(&self, number: usize, payload: &[u8], is_last: bool) -> Vec<u8> {
        let offset = number * self.segment_bytes;
        let mut transport = vec![1, 2, 3, 4];
        if self.is_udp {
            transport.extend(((8 + payload.len()) as u16).to_be_bytes());
            transport.extend([0; 2]);
        } else {
            transport.extend(self.sequence.wrapping_add(offset as u32).to_be_bytes());
            transport.extend([9; 4]);
            let mut flags = self.flags;
            if !is_last {
                flags &= !0x09;
            }
            if number > 0 {
                flags &= 0x7f;
            }
            transport.extend([((5 + self.options_words) << 4) as u8, flags, 1, 1, 0, 0, 0, 0]);
            transport.extend(vec![1; self.options_words * 4]);
        }
        transport.extend_from_slice(payload);
        let mut pseudo = self.addresses();
        pseudo.extend((transport.len() as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, self.protocol()]);
        pseudo.extend_from_slice(&transport);
        let sum = match reference_checksum(&pseudo) {
            0 => 0xffff,
            sum => sum,
        };
        transport[self.checksum_offset()..self.checksum_offset() + 2].copy_from_slice(&sum.to_be_bytes());
        let mut packet = self.ip_header(number, transport.len());
        packet.extend(transport);
        packet
    }

    fn ip_header(&self, number: usize, transport_bytes: usize) -> Vec<u8> {
        if self.is_v6 {
            let mut header = vec![0x60, self.ecn.bits() << 4, 0, 7];
            header.extend((transport_bytes as u16).to_be_bytes());
            header.extend([self.protocol(), 64]);
            header.extend(self.addresses());
            return header;
        }
        let mut header = vec![0x45, self.ecn.bits()];
        header.extend(((20 + transport_bytes) as u16).to_be_bytes());
        header.extend(self.id.wrapping_add(number as u16).to_be_bytes());
        header.extend([0x40, 0, 64, self.protocol(), 0, 0]);
        header.extend(self.addresses());
        let sum = reference_checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    /// Packets that the superpacket represents.
    pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
        let payload = self.payload();
        let chunks: Vec<&[u8]> = payload.chunks(self.segment_bytes).collect();
        let last = chunks.len() - 1;
        chunks.iter().enumerate().map(|(number, chunk)| self.packet(number, chunk, number == last)).collect()
    }

    /// Superpacket as the kernel delivers it.
    pub(crate) fn superpacket(&self) -> Vec<u8> {
        let mut packet = self.packet(0, &self.payload(), true);
        let transport_bytes = (packet.len() - self.transport_at()) as u16;
        let addresses = Sum::of(&self.addresses());
        let pseudo = addresses.plus_word(transport_bytes).plus_word(self.protocol().into()).folded();
        let field = self.transport_at() + self.checksum_offset();
        packet[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
        let kind = match (self.is_udp, self.is_v6) {
            (true, _) => GSO_UDP_L4,
            (false, false) => GSO_TCPV4,
            (false, true) => GSO_TCPV6,
        };
        let vnet = VnetHeader {
            flags: NEEDS_CHECKSUM,
            gso_kind: kind,
            headers_bytes: 0,
            segment_bytes: self.segment_bytes as u16,
            checksum_start: self.transport_at() as u16,
            checksum_offset: self.checksum_offset() as u16,
        };
        [&vnet.encode()[..], &packet].concat()
    }
}

/// Independent computation of the checksum: byte by byte, with end-around carry.
fn reference_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u16;
    for (at, &byte) in bytes.iter().enumerate() {
        let word = if at % 2 == 0 { u16::from(byte) << 8 } else { byte.into() };
        let (next, carried) = sum.overflowing_add(word);
        sum = next + u16::from(carried);
    }
    !sum
}
