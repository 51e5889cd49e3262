use std::time::Duration;

use dfcp_netem::{Ecn, LinkConfig, Loss};
use dfcp_proto::Config;
use proptest::prelude::*;

use super::*;
use crate::packet::Body;
use crate::tcp::{self, Congestion, Flags, SackBlocks, Segment};
use crate::{Counting, DfcpConfig, FlowConfig, Simulation, Transport};

/// Parsed capture.
#[derive(Debug, Default)]
struct Read {
    interfaces: Vec<String>,
    packets: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    interface: usize,
    at_ns: u64,
    size_bytes: usize,
    bytes: Vec<u8>,
}

fn u32_le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().unwrap())
}

fn be(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

/// Parses options into codes and values. The option with code 0 must be the last one.
fn options(mut bytes: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        let (code, length) = (u32_le(bytes) & 0xFFFF, (u32_le(bytes) >> 16) as usize);
        if code == 0 {
            assert_eq!((length, bytes.len()), (0, 4));
            return found;
        }
        found.push((code as u16, bytes[4..4 + length].to_vec()));
        bytes = &bytes[4 + length.next_multiple_of(4)..];
    }
}

/// Parses a capture according to the specification, and checks properties that every capture has.
fn read(mut bytes: &[u8]) -> Read {
    let mut read = Read::default();
    let mut is_first = true;
    while !bytes.is_empty() {
        let (kind, length) = (u32_le(bytes), u32_le(&bytes[4..]) as usize);
        assert!(length.is_multiple_of(4) && length >= 12 && length <= bytes.len(), "{length} of {}", bytes.len());
        assert_eq!(u32_le(&bytes[length - 4..]) as usize, length);
        let body = &bytes[8..length - 4];
        assert_eq!(kind == 0x0A0D_0D0A, is_first);
        is_first = false;
        match kind {
            0x0A0D_0D0A => {
                let mut expected = vec![0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0];
                expected.extend_from_slice(&[0xFF; 8]);
                assert_eq!(body, expected);
            }
            1 => {
                assert_eq!(body[..8], [101, 0, 0, 0, 0, 0, 0, 0]);
                let options = options(&body[8..]);
                assert_eq!(options[1], (9, vec![9]));
                assert_eq!((options.len(), options[0].0), (2, 2));
                read.interfaces.push(String::from_utf8(options[0].1.clone()).unwrap());
            }
            6 => {
                let word = |index: usize| u32_le(&body[4 * index..]);
                let (captured, size_bytes) = (word(3) as usize, word(4) as usize);
                assert!(captured <= size_bytes && body.len() == 20 + captured.next_multiple_of(4));
                let at_ns = u64::from(word(1)) << 32 | u64::from(word(2));
                let bytes = body[20..20 + captured].to_vec();
                read.packets.push(Seen { interface: word(0) as usize, at_ns, size_bytes, bytes });
            }
            other => panic!("a block of type {other}"),
        }
        bytes = &bytes[length..];
    }
    assert!(read.packets.iter().all(|packet| packet.interface < read.interfaces.len()));
    assert!(read.packets.is_sorted_by_key(|packet| packet.at_ns));
    read
}

/// Returns true if the one's complement sum of a message, including its checksum, is correct.
fn is_whole(sum: u32) -> bool {
    let folded = (sum & 0xFFFF) + (sum >> 16);
    (folded & 0xFFFF) + (folded >> 16) == 0xFFFF
}

fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(be).sum()
}

/// Checks the IPv4 header. Returns protocol and total length.
fn ip(bytes: &[u8]) -> (u8, usize) {
    assert_eq!(bytes[0], 0x45);
    assert!(is_whole(words(&bytes[..20])));
    (bytes[9], be(&bytes[2..4]) as usize)
}

/// Parsed TCP header.
#[derive(Debug, PartialEq)]
struct Tcp {
    seq: u32,
    ack: u32,
    flags: u8,
    window: u32,
    len_bytes: usize,
    /// Kinds and values of the options, without no-operations.
    options: Vec<(u8, Vec<u8>)>,
}

fn tcp(packet: &[u8]) -> Tcp {
    let (protocol, length) = ip(packet);
    let segment = &packet[20..];
    let header = usize::from(segment[12] >> 4) * 4;
    assert_eq!((protocol, segment.len()), (6, header), "nothing but headers is modelled");
    assert!(is_whole(words(&packet[12..20]) + 6 + (length - 20) as u32 + words(segment)));
    let (mut rest, mut options) = (&segment[20..], Vec::new());
    while let Some((&kind, after)) = rest.split_first() {
        let taken = if kind == 1 { 0 } else { usize::from(after[0]) - 1 };
        if kind != 1 {
            options.push((kind, after[1..taken].to_vec()));
        }
        rest = &after[taken..];
    }
    let window = be(&segment[14..16]);
    let (seq, ack) = (be(&segment[4..8]), be(&segment[8..12]));
    Tcp { seq, ack, flags: segment[13], window, len_bytes: length - 20 - header, options }
}

/// Returns a capture at the senders of three flows over a lossy link: CUBIC, DFCP classic over IP, and DFCP modern over
/// UDP.
fn capture(limit_bytes: u64) -> (Vec<u8>, Captured) {
    let mut simulation = Simulation::new(7, None);
    let link = LinkConfig::default().with_rate_bps(20_000_000).with_delay(Duration::from_millis(5));
    let there = simulation.add_link(link.clone().with_loss(Loss::bernoulli(0.02))).unwrap();
    let back = simulation.add_link(link).unwrap();
    let dfcp = |config: Config| Transport::Dfcp(Box::new(DfcpConfig::both(config)));
    let counted = |config: Config| config.with_codec(&Counting);
    let classic = counted(Config::danger_classic()).with_overhead_bytes(20);
    let modern = counted(Config::danger_unsealed());
    let transports = [Transport::Tcp(tcp::Config::modern(Congestion::Cubic)), dfcp(classic), dfcp(modern)];
    let mut capture = Pcapng::at_senders(Vec::new(), transports.len()).unwrap().with_limit(limit_bytes);
    for transport in transports {
        let flow = FlowConfig {
            start: Time::ZERO,
            stop: None,
            rebinds: Vec::new(),
            bytes: Some(300_000),
            forward: vec![there],
            back: vec![back],
            transport,
        };
        let flow = simulation.add_flow(flow).unwrap();
        capture.describe(flow, simulation.end(flow, false));
    }
    *simulation.observer_mut() = Some(capture);
    simulation.run_until(Time::from_ms(2_000));
    let capture = simulation.observer_mut().take().unwrap();
    let captured = capture.captured();
    (capture.finish().unwrap(), captured)
}

#[test]
fn a_capture_is_read_again_block_by_block() {
    let (bytes, captured) = capture(u64::MAX);
    let read = read(&bytes);
    assert_eq!(read.interfaces, ["flow1", "flow2", "flow3"]);
    assert_eq!(captured, Captured { packets: read.packets.len() as u64, left_out: 0, full_at: None });
    for packet in &read.packets {
        let (protocol, length) = ip(&packet.bytes);
        assert_eq!((protocol, length), ([6, 253, 17][packet.interface], packet.size_bytes));
        let (source, destination) = (packet.bytes[13], packet.bytes[17]);
        assert_eq!((source + destination, usize::from(packet.bytes[15])), (3, packet.interface + 1));
        if protocol == 17 {
            assert_eq!(be(&packet.bytes[24..26]) as usize, length - 20, "UDP's length");
        }
    }
    // The classic flow has few packets back, because it acknowledges only its five blocks.
    for (interface, back) in [(0, 50), (1, 7), (2, 20)] {
        for (source, least) in [(1, 200), (2, back)] {
            let of = read.packets.iter().filter(|packet| packet.interface == interface && packet.bytes[13] == source);
            let count = of.count();
            assert!(count >= least, "{count} of interface {interface}, from 10.{source}");
        }
    }
}

#[test]
fn a_tcp_connection_is_numbered_as_its_peers_would_expect() {
    let read = read(&capture(u64::MAX).0);
    let of_flow: Vec<(bool, Tcp)> =
        read.packets.iter().filter(|packet| packet.interface == 0).map(|p| (p.bytes[13] == 2, tcp(&p.bytes))).collect();
    let (syn, syn_ack) = (&of_flow[0], &of_flow[1]);
    assert_eq!((syn.0, syn.1.seq, syn.1.ack, syn.1.flags), (false, 0, 0, 0x02));
    assert_eq!((syn_ack.0, syn_ack.1.seq, syn_ack.1.ack, syn_ack.1.flags), (true, 0, 1, 0x12));
    for (_, segment) in &of_flow[..2] {
        let kinds: Vec<u8> = segment.options.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [2, 4, 8, 3]);
        assert_eq!(segment.options[0].1, 1460_u16.to_be_bytes());
    }
    let shift = |of: &Tcp| u32::from(of.options[3].1[0]);
    // The sender's window is unlimited, so the largest window of the wire format appears. The receiver's window starts
    // at 64 KiB and grows.
    let window_bytes = tcp::Config::modern(Congestion::Cubic).max_window_bytes.min(0xFFFF << 14);
    let (mut offered, of_back) = (syn_ack.1.window, shift(&syn_ack.1));
    let mut highest = 1;
    for (is_back, segment) in &of_flow[2..] {
        assert_eq!(segment.options[0].0, 8, "timestamps");
        if *is_back {
            assert!(segment.window << of_back >= 1 << 16, "{}", segment.window << of_back);
            offered = segment.ack + (segment.window << of_back);
            assert_eq!((segment.seq, segment.len_bytes, segment.flags), (1, 0, 0x10));
            assert!(segment.ack <= highest, "nothing is acknowledged which was not sent");
        } else {
            assert_eq!(segment.window << shift(&syn.1), window_bytes);
            assert!(segment.ack == 1 && segment.seq <= highest, "no number is left out");
            let fin = u32::from(segment.flags & 1);
            highest = highest.max(segment.seq + segment.len_bytes as u32 + fin);
            assert!(highest <= offered + 1, "nothing is sent that was not offered");
        }
    }
    assert_eq!(highest, 300_002, "data begin at 1, and the FIN counts");
    assert!(of_flow.iter().any(|(is_back, segment)| *is_back && segment.options.iter().any(|(kind, _)| *kind == 5)));
}

#[test]
fn a_capture_ends_at_its_limit_with_whole_blocks() {
    let whole = capture(u64::MAX);
    let (bytes, captured) = capture(20_000);
    assert!(bytes.len() <= 20_000 && bytes.len() > 18_000 && whole.0.starts_with(&bytes), "{}", bytes.len());
    let read = read(&bytes);
    assert_eq!(captured.packets, read.packets.len() as u64);
    assert_eq!(captured.packets + captured.left_out, whole.1.packets);
    assert!(captured.full_at.unwrap().as_ns() >= read.packets.last().unwrap().at_ns);
}

proptest! {
    #[test]
    fn segments_are_read_again(
        (seq, ack, window_bytes) in (any::<u64>(), 0..1_u64 << 40, 1_u32..1 << 30),
        (len_bytes, header_bytes) in (0_u32..9_000, 40_u32..80),
        gaps in prop::collection::vec((1_u64..100_000, 1_u64..100_000), 0..=4),
        (syn, fin, has_ack, is_described) in any::<(bool, bool, bool, bool)>(),
        (ece, cwr, ecn) in (any::<bool>(), any::<bool>(), (0..4_u8).prop_map(Ecn::from_bits)),
    ) {
        let seq = seq >> 24;
        let mut sack = SackBlocks::default();
        let (mut at, mut expected) = (ack, Vec::new());
        for (gap, length) in gaps {
            sack.push(ack, at + gap, at + gap + length);
            expected.extend([at + gap, at + gap + length].map(|number| number as u32));
            at += gap + length;
        }
        let times = [Time::from_ms(12), Time::from_ms(3)];
        let [ts_val, ts_ecr] = times;
        let flags = Flags { syn, fin, ack: has_ack, psh: false, ece, cwr };
        let wire_bytes = header_bytes + len_bytes;
        let segment = Segment { seq, ack, ts_val, ts_ecr, sack, window_bytes, len_bytes, wire_bytes, flags, ecn };
        let packet = Packet {
            address: 0,
            id: 1, flow: 3, is_back: false, leg: 0, size_bytes: wire_bytes, ecn, is_damaged: false,
            body: Body::Tcp(Box::new(segment)),
        };
        let known = Carrier::Tcp { segment_size: 1460, permits_sack: true };
        let mut bytes = Vec::new();
        write_ip(&mut bytes, &packet, if is_described { known } else { Carrier::Unknown });
        let found = tcp(&bytes);
        prop_assert_eq!((found.seq, found.len_bytes), (seq as u32, len_bytes as usize));
        prop_assert_eq!(found.ack, if has_ack { ack as u32 } else { 0 });
        let marks = u8::from(ece) << 6 | u8::from(cwr) << 7;
        prop_assert_eq!(found.flags, u8::from(fin) | u8::from(syn) << 1 | u8::from(has_ack) << 4 | marks);
        prop_assert_eq!(bytes[1], ecn.bits());
        prop_assert!(bytes.len() <= header_bytes as usize);
        // Timestamps appear only if all options fit into a header of the modelled length.
        let room = (header_bytes as usize - 40) / 4 * 4;
        let of = |kind: u8| found.options.iter().find(|(own, _)| *own == kind).map(|(_, value)| value.clone());
        let sack_bytes = if expected.is_empty() { 0 } else { 4 + 4 * expected.len() };
        prop_assert_eq!(of(8).is_some(), room >= if syn { 20 } else { 12 + sack_bytes });
        if let Some(value) = of(8) {
            prop_assert_eq!(value, [12_000_u32.to_be_bytes(), 3_000_u32.to_be_bytes()].concat());
        }
        let has_sack = !syn && !expected.is_empty() && room >= sack_bytes;
        let numbers = of(5).map(|value| value.chunks(4).map(be).collect::<Vec<_>>());
        prop_assert_eq!(numbers, has_sack.then_some(expected));
        prop_assert_eq!(of(2), (syn && is_described && room >= 8).then(|| 1460_u16.to_be_bytes().to_vec()));
        prop_assert_eq!(of(3).is_some(), syn && room >= 8);
        prop_assert_eq!(of(4).is_some(), syn && is_described && room >= 20);
    }
}
