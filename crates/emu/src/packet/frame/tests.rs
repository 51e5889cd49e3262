//! Superpackets cut up and joined, against packets which are built one by one.

use proptest::prelude::*;

use super::*;
use crate::packet::{Run, Segment};
use dfcp_netem::Packet as _;

/// A superpacket to build.
#[derive(Clone, Debug)]
struct Spec {
    is_v6: bool,
    is_udp: bool,
    segment_bytes: usize,
    payload_bytes: usize,
    options_words: usize,
    flags: u8,
    sequence: u32,
    id: u16,
}

fn spec() -> impl Strategy<Value = Spec> {
    let numbers = (1_usize..1500, 1_usize..20_000, 0_usize..=10, any::<u8>(), any::<u32>(), any::<u16>());
    (any::<bool>(), any::<bool>(), numbers).prop_map(
        |(is_v6, is_udp, (segment_bytes, payload_bytes, options_words, flags, sequence, id))| Spec {
            is_v6,
            is_udp,
            segment_bytes: segment_bytes.max(payload_bytes.div_ceil(SEGMENTS_MAX)),
            payload_bytes,
            options_words,
            flags,
            sequence,
            id,
        },
    )
}

impl Spec {
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
            let mut header = vec![0x60, 0, 0, 7];
            header.extend((transport_bytes as u16).to_be_bytes());
            header.extend([self.protocol(), 64]);
            header.extend(self.addresses());
            return header;
        }
        let mut header = vec![0x45, 2];
        header.extend(((20 + transport_bytes) as u16).to_be_bytes());
        header.extend(self.id.wrapping_add(number as u16).to_be_bytes());
        header.extend([0x40, 0, 64, self.protocol(), 0, 0]);
        header.extend(self.addresses());
        let sum = reference_checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    /// The packets which the superpacket stands for.
    fn packets(&self) -> Vec<Vec<u8>> {
        let payload = self.payload();
        let chunks: Vec<&[u8]> = payload.chunks(self.segment_bytes).collect();
        let last = chunks.len() - 1;
        chunks.iter().enumerate().map(|(number, chunk)| self.packet(number, chunk, number == last)).collect()
    }

    /// The superpacket as the kernel hands it out.
    fn superpacket(&self) -> Vec<u8> {
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

/// Another way to the same number: one byte at a time, with end-around carry.
fn reference_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u16;
    for (at, &byte) in bytes.iter().enumerate() {
        let word = if at % 2 == 0 { u16::from(byte) << 8 } else { byte.into() };
        let (next, carried) = sum.overflowing_add(word);
        sum = next + u16::from(carried);
    }
    !sum
}

/// What a device is given for a run.
fn written(run: &Run) -> Vec<u8> {
    let mut bytes = Vec::new();
    let payload = run.write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

proptest! {
    #[test]
    fn segments_are_the_packets_which_the_superpacket_stands_for(spec in spec()) {
        let frame = Frame::parse(&spec.superpacket()).unwrap();
        let expected = spec.packets();
        prop_assert_eq!(frame.segments(), expected.len());
        for (index, packet) in expected.iter().enumerate() {
            prop_assert_eq!(frame.size_bytes(index), packet.len());
            prop_assert_eq!(&frame.wire_packet(index), packet, "segment {}", index);
        }
    }

    /// Whichever segments are lost, what the rest leaves as stands for these very packets.
    #[test]
    fn survivors_leave_in_runs_that_stand_for_them(spec in spec(), lost in proptest::collection::vec(any::<bool>(), 64)) {
        let frame = Frame::parse(&spec.superpacket()).unwrap();
        let is_lost = |index: usize| lost[index % lost.len()];
        let mut runs: Vec<Run> = Vec::new();
        for (index, segment) in Segment::all(frame).enumerate() {
            if is_lost(index) {
                continue;
            }
            let rest = match runs.last_mut() {
                Some(run) => run.extend(segment).err(),
                None => Some(segment),
            };
            runs.extend(rest.map(Run::new));
        }
        let mut left = Vec::new();
        for run in &runs {
            let again = Frame::parse(&written(run)).unwrap();
            prop_assert_eq!(again.segments(), run.packets());
            let bytes: usize = (0..again.segments()).map(|index| again.size_bytes(index)).sum();
            prop_assert_eq!(bytes as u64, run.bytes());
            left.extend((0..again.segments()).map(|index| again.wire_packet(index)));
        }
        let expected = spec.packets().into_iter().enumerate().filter(|(index, _)| !is_lost(*index));
        prop_assert_eq!(left, expected.map(|(_, packet)| packet).collect::<Vec<_>>());
    }

    #[test]
    fn a_whole_superpacket_leaves_as_it_came(spec in spec()) {
        let came = spec.superpacket();
        let mut segments = Segment::all(Frame::parse(&came).unwrap());
        let mut run = Run::new(segments.next().unwrap());
        for segment in segments {
            run.extend(segment).unwrap();
        }
        prop_assert_eq!(written(&run), came);
    }

    /// Anything at all, with a beginning that often leads far into the parser.
    #[test]
    fn no_bytes_are_read_or_written_out_of_bounds(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
        kind in prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), Just(0x81), any::<u8>()],
        version in prop_oneof![Just(0x45_u8), Just(0x60), any::<u8>()],
        protocol in prop_oneof![Just(TCP), Just(UDP), Just(0_u8), Just(44), any::<u8>()],
        start in prop_oneof![Just(20_u16), Just(40), any::<u16>()],
    ) {
        for (at, value) in [(0, 1), (1, kind), (VNET_BYTES, version), (VNET_BYTES + 9, protocol), (VNET_BYTES + 6, protocol)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if let Some(field) = bytes.get_mut(6..8) {
            field.copy_from_slice(&start.to_ne_bytes());
        }
        exercise(&bytes);
    }

    /// A true superpacket of which a few bytes are not what they should be, or which is cut off.
    #[test]
    fn damaged_superpackets_do_no_harm(
        spec in spec(),
        damage in proptest::collection::vec((0_usize..90, any::<u8>()), 0..6),
        cut in 0_usize..200,
    ) {
        let mut bytes = spec.superpacket();
        bytes.truncate(bytes.len().saturating_sub(cut));
        for (at, value) in damage {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        exercise(&bytes);
    }

    #[test]
    fn a_flipped_bit_is_one_bit_of_the_wire_packet(spec in spec(), random in any::<u64>(), index in any::<prop::sample::Index>()) {
        let packets = spec.packets();
        let index = index.index(packets.len());
        let mut segment = Segment::all(Frame::parse(&spec.superpacket()).unwrap()).nth(index).unwrap();
        let size = segment.size_bytes();
        segment.corrupt(random);
        prop_assert_eq!(segment.size_bytes(), size);
        let run = Run::new(segment);
        let bytes = written(&run);
        prop_assert_eq!(&bytes[..VNET_BYTES], &[0; VNET_BYTES]);
        let flipped = bytes[VNET_BYTES..].iter().zip(&packets[index]).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        prop_assert_eq!(flipped, 1);
        prop_assert_eq!(bytes.len() - VNET_BYTES, packets[index].len());
    }
}

/// Does with a frame all that the emulator does.
fn exercise(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else { return };
    frame.is_link_local_multicast();
    frame.flow_key();
    let segments = frame.segments();
    assert!((1..=SEGMENTS_MAX).contains(&segments));
    let all: usize = (0..segments).map(|index| frame.wire_packet(index).len()).sum();
    assert_eq!(all, (0..segments).map(|index| frame.size_bytes(index)).sum::<usize>());
    let mut headers = Vec::new();
    for (first, count) in [(0, segments), (0, 1), (segments - 1, 1), (segments / 2, segments), (segments, 3)] {
        let payload = frame.run(first, count, &mut headers);
        assert!(headers.len() + payload.len() <= bytes.len(), "{first} {count}");
    }
    for mut segment in Segment::all(frame).take(3) {
        segment.corrupt(u64::MAX);
        segment.corrupt(0);
        Run::new(segment).write(&mut headers);
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let spec = Spec {
        is_v6: false,
        is_udp: false,
        segment_bytes: 100,
        payload_bytes: 1000,
        options_words: 3,
        flags: 0x18,
        sequence: 1,
        id: 1,
    };
    let good = spec.superpacket();
    assert!(Frame::parse(&good).is_ok());
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Frame::parse(&bytes)
    };
    for (at, value, what) in [
        (0, 0, "no checksum to complete"),
        (1, GSO_TCPV6, "TCP over IPv6"),
        (1, GSO_UDP_L4, "UDP"),
        (1, 3, "fragmentation, which no device does any more"),
        (4, 0, "no segment size"),
        (6, 21, "a checksum that starts elsewhere"),
        (8, 6, "UDP's checksum"),
        (VNET_BYTES + 6, 0x20, "a fragment"),
        (VNET_BYTES + 32, 0x40, "a TCP header of 16 bytes"),
    ] {
        assert_eq!(changed(at, value), Err(Malformed::Superpacket), "{what}");
    }
    for (at, value) in [(VNET_BYTES, 0x55), (VNET_BYTES, 0x44)] {
        assert_eq!(changed(at, value), Err(Malformed::NotIp));
    }
    assert_eq!(Frame::parse(&good[..VNET_BYTES + 19]), Err(Malformed::NotIp));
    assert_eq!(Frame::parse(&[]), Err(Malformed::NotIp));
    let mut single = good.clone();
    single[1] = GSO_NONE;
    assert_eq!(Frame::parse(&single).unwrap().segments(), 1);
    single[6..8].copy_from_slice(&2000_u16.to_ne_bytes());
    assert_eq!(Frame::parse(&single), Err(Malformed::Checksum));
    // A byte each: more segments than any kernel makes.
    let tiny = Spec { segment_bytes: 1, payload_bytes: SEGMENTS_MAX + 1, ..spec };
    assert_eq!(Frame::parse(&tiny.superpacket()), Err(Malformed::Superpacket));
}
