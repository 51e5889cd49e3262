//! Tests: superpackets split and joined, compared with packets built one by one.

use proptest::prelude::*;

use super::*;
use crate::packet::testing::Spec;
use crate::packet::{Run, Segment};
use dfcp_netem::{Ecn, Packet as _};

fn spec() -> impl Strategy<Value = Spec> {
    let codepoints = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect1), Just(Ecn::Ect0), Just(Ecn::Ce)];
    let numbers = (1_usize..1500, 1_usize..20_000, 0_usize..=10, any::<u8>(), any::<u32>(), any::<u16>());
    (any::<bool>(), any::<bool>(), codepoints, numbers).prop_map(
        |(is_v6, is_udp, ecn, (segment_bytes, payload_bytes, options_words, flags, sequence, id))| Spec {
            is_v6,
            is_udp,
            segment_bytes: segment_bytes.max(payload_bytes.div_ceil(SEGMENTS_MAX)),
            payload_bytes,
            options_words,
            flags,
            sequence,
            id,
            ecn,
        },
    )
}

/// Bytes written to a device for a run.
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

    /// Segments marked on the link leave like packets sent with the mark; the others leave unchanged.
    #[test]
    fn marked_segments_leave_in_runs_of_their_own(spec in spec(), marked in proptest::collection::vec(any::<bool>(), 64)) {
        let frame = Frame::parse(&spec.superpacket()).unwrap();
        prop_assert_eq!(frame.ecn(), spec.ecn);
        let is_marked = |index: usize| marked[index % marked.len()];
        let mut runs: Vec<Run> = Vec::new();
        for (index, mut segment) in Segment::all(frame).enumerate() {
            if is_marked(index) {
                segment.mark_ce();
                prop_assert_eq!(segment.ecn(), Ecn::Ce);
            }
            let rest = match runs.last_mut() {
                Some(run) => run.extend(segment).err(),
                None => Some(segment),
            };
            runs.extend(rest.map(Run::new));
        }
        let left: Vec<_> = runs.iter().flat_map(|run| {
            let frame = Frame::parse(&written(run)).unwrap();
            (0..frame.segments()).map(|index| frame.wire_packet(index)).collect::<Vec<_>>()
        }).collect();
        let with = Spec { ecn: Ecn::Ce, ..spec }.packets();
        let expected = spec.packets().into_iter().zip(with).enumerate();
        let expected: Vec<_> =
            expected.map(|(index, (plain, with))| if is_marked(index) { with } else { plain }).collect();
        prop_assert_eq!(left, expected);
    }

    /// For any choice of lost segments, the outgoing superpackets represent exactly the survivors.
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

    /// Arbitrary bytes, with a beginning that often leads deep into the parser.
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

    /// Valid superpacket with a few bytes changed, or truncated.
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

/// Exercises all operations of the emulator on a frame.
fn exercise(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(bytes) else { return };
    frame.is_link_local_multicast();
    frame.flow_key();
    let mut translated = frame.clone();
    if translated.ports().is_some() {
        translated.set_source_port(1);
        translated.set_destination_port(u16::MAX);
    }
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
    let spec = Spec::tcp(100, 1000);
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
    // One byte each: more segments than any kernel makes.
    let tiny = Spec { segment_bytes: 1, payload_bytes: SEGMENTS_MAX + 1, ..spec };
    assert_eq!(Frame::parse(&tiny.superpacket()), Err(Malformed::Superpacket));
}

#[test]
fn a_new_port_is_in_every_packet_with_a_checksum_that_fits() {
    for (is_v6, is_udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let spec = Spec { is_v6, is_udp, ..Spec::tcp(1000, 2500) };
        let single = |packet: &Vec<u8>| [vec![0; VNET_BYTES], packet.clone()].concat();
        let frames = [spec.superpacket(), single(&spec.packets()[0])];
        for mut frame in frames.map(|bytes| Frame::parse(&bytes).unwrap()) {
            assert_eq!(frame.ports(), Some((if is_udp { UDP } else { TCP }, [0x0102, 0x0304])));
            frame.set_source_port(0xfffe);
            frame.set_destination_port(9);
            for index in 0..frame.segments() {
                let mut packet = frame.wire_packet(index);
                assert_eq!(IpLayout::of(&packet).unwrap().transport_at, if is_v6 { 40 } else { 20 });
                let transport = &mut packet[if is_v6 { 40 } else { 20 }..];
                assert_eq!(transport[..4], [0xff, 0xfe, 0, 9]);
                let pseudo = Sum::of(frame.ip.addresses(&frame.packet)).plus_word(transport.len() as u16);
                let sum = pseudo.plus_word(frame.ip.protocol.into()).plus_word(Sum::of(transport).folded());
                assert_eq!(sum.folded(), 0xffff, "v6 {is_v6}, UDP {is_udp}, segment {index}");
            }
        }
    }
    // A UDP datagram without a checksum stays without.
    let mut bytes = [vec![0; VNET_BYTES], Spec { is_udp: true, ..Spec::tcp(100, 100) }.packets()[0].clone()].concat();
    bytes[VNET_BYTES + 26..VNET_BYTES + 28].fill(0);
    let mut frame = Frame::parse(&bytes).unwrap();
    frame.set_source_port(1);
    assert_eq!(frame.packet[26..28], [0, 0]);
}
