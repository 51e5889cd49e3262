//! Packets in wire format, for captures.

use crate::end::End;
use crate::packet::{Body, Packet};
use crate::tcp::{self, Segment};

const IP_HEADER_BYTES: usize = 20;
const TCP_HEADER_BYTES: usize = 20;
/// Maximum length of the options in a TCP header, bytes.
const TCP_OPTIONS_BYTES_MAX: usize = 40;
/// Length of a SYN's options with timestamps: MSS, SACK permitted, timestamps, window scale, and one byte of padding.
const SYN_OPTIONS_BYTES: usize = 20;
const TIMESTAMPS_BYTES: usize = 12;
const IP_PROTOCOL_TCP: u8 = 6;
const IP_PROTOCOL_UDP: u8 = 17;
/// IP protocol number for experiments (RFC 3692), used by DFCP directly over IP.
const IP_PROTOCOL_DFCP: u8 = 253;
/// Maximum window scale (RFC 7323, §2.3).
const WINDOW_SHIFT_MAX: u32 = 14;
/// Window scale of a Linux receiver whose buffer may grow to 64 MiB.
const LINUX_WINDOW_SHIFT: u32 = 11;

// TCP option kinds.
const NO_OPERATION: u8 = 1;
const SEGMENT_SIZE: [u8; 2] = [2, 4];
const WINDOW_SCALE: [u8; 2] = [3, 3];
const SACK_PERMITTED: [u8; 2] = [4, 2];
const SACK: u8 = 5;
const TIMESTAMPS: [u8; 2] = [8, 10];

/// Properties of a flow that its packets do not contain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Carrier {
    /// Not known: datagrams are written over UDP, and SYNs without the options that depend on the configuration.
    #[default]
    Unknown,
    /// Datagrams are sent directly over IP.
    RawIp,
    Tcp {
        segment_size: u16,
        permits_sack: bool,
    },
}

impl Carrier {
    pub(super) fn of(sender: &End) -> Self {
        match sender {
            End::Dfcp(end) if end.overhead_bytes() as usize == IP_HEADER_BYTES => Self::RawIp,
            End::TcpSender(sender) => Self::of_tcp(sender.config()),
            End::WebSender(sender) => Self::of_tcp(sender.tcp()),
            End::Dfcp(_) | End::Quic(_) | End::TcpReceiver(_) | End::Model(_) | End::WebReceiver(_) => Self::Unknown,
        }
    }

    /// Returns the properties of a TCP flow. The announced segment size does not take options into account (RFC 6691).
    fn of_tcp(config: &tcp::Config) -> Self {
        let headers = (IP_HEADER_BYTES + TCP_HEADER_BYTES) as u32;
        let segment_size = (config.mss_bytes.saturating_add(config.header_bytes)).saturating_sub(headers);
        Self::Tcp { segment_size: segment_size.try_into().unwrap_or(u16::MAX), permits_sack: config.uses_sack() }
    }
}

/// Returns the IP address of an end. Senders are in 10.1.0.0/16 and receivers in 10.2.0.0/16; the first flow has
/// 10.1.0.1 and 10.2.0.1.
fn address(flow: u32, is_receiver: bool) -> [u8; 4] {
    let [.., high, low] = flow.wrapping_add(1).to_be_bytes();
    [10, 1 + u8::from(is_receiver), high, low]
}

/// Returns the sum of RFC 1071 before folding. Headers always consist of whole 16-bit words.
fn sum(bytes: &[u8]) -> u32 {
    bytes.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let folded = (sum & 0xFFFF) + (sum >> 16);
    (!((folded & 0xFFFF) + (folded >> 16)) as u16).to_be_bytes()
}

/// Appends `packet` to `out`, without the parts of its content that are not modelled.
pub(super) fn write_ip(out: &mut Vec<u8>, packet: &Packet, carrier: Carrier) {
    let start = out.len();
    out.resize(start + IP_HEADER_BYTES, 0);
    // Each web connection has its own port; ports repeat after 25 000 connections.
    let connection = if let Body::Web { connection, .. } = packet.body { (connection % 25_000) as u16 } else { 0 };
    let (sender, receiver) = (40_000 + connection, 9_000_u16);
    let (source, destination) = if packet.is_back { (receiver, sender) } else { (sender, receiver) };
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let (protocol, length_bytes) = match &packet.body {
        Body::Tcp(segment) | Body::Web { segment, .. } => {
            out.extend_from_slice(&ports);
            write_tcp(out, segment, carrier);
            (IP_PROTOCOL_TCP, out.len() - start + segment.len_bytes as usize)
        }
        Body::Datagram(bytes) if matches!(carrier, Carrier::RawIp) => {
            out.extend_from_slice(bytes);
            (IP_PROTOCOL_DFCP, packet.size_bytes as usize)
        }
        Body::Datagram(bytes) => (IP_PROTOCOL_UDP, write_udp(out, &ports, packet.size_bytes, bytes)),
        Body::Quic(bytes) => (IP_PROTOCOL_UDP, write_udp(out, &ports, packet.size_bytes, bytes)),
        // The content of a model's datagram has no wire format.
        Body::Model(_) => (IP_PROTOCOL_UDP, write_udp(out, &ports, packet.size_bytes, &[])),
    };
    let (header, payload) = out[start..].split_at_mut(IP_HEADER_BYTES);
    header[0] = 0x45;
    header[1] = packet.ecn.bits();
    header[2..4].copy_from_slice(&(length_bytes as u16).to_be_bytes());
    header[4..6].copy_from_slice(&(packet.id as u16).to_be_bytes());
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&address(packet.flow, packet.is_back));
    header[16..20].copy_from_slice(&address(packet.flow, !packet.is_back));
    let of_header = checksum(sum(header));
    header[10..12].copy_from_slice(&of_header);
    if protocol == IP_PROTOCOL_TCP {
        // The omitted data counts as zeros, which do not change the sum.
        let pseudo = sum(&header[12..20]) + u32::from(protocol) + (length_bytes - IP_HEADER_BYTES) as u32;
        let of_segment = checksum(pseudo + sum(payload));
        payload[16..18].copy_from_slice(&of_segment);
    }
}

/// Writes the UDP header, from the ports on, and `bytes`. Returns the length of the IP packet.
fn write_udp(out: &mut Vec<u8>, ports: &[u8], size_bytes: u32, bytes: &[u8]) -> usize {
    out.extend_from_slice(ports);
    out.extend_from_slice(&((size_bytes as usize - IP_HEADER_BYTES) as u16).to_be_bytes());
    // A checksum of zero means that there is none.
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(bytes);
    size_bytes as usize
}

/// Writes the TCP header after the ports, with a checksum of zero. Sequence numbers wrap as on the wire.
fn write_tcp(out: &mut Vec<u8>, segment: &Segment, carrier: Carrier) {
    let headers = (segment.wire_bytes - segment.len_bytes) as usize;
    let room = headers.saturating_sub(IP_HEADER_BYTES + TCP_HEADER_BYTES).min(TCP_OPTIONS_BYTES_MAX) / 4 * 4;
    let flags = &segment.flags;
    let (window, shift) = window(segment);
    out.extend_from_slice(&(segment.seq as u32).to_be_bytes());
    out.extend_from_slice(&(if flags.ack { segment.ack as u32 } else { 0 }).to_be_bytes());
    // Length of the header in 32-bit words, in the upper four bits.
    out.push((((TCP_HEADER_BYTES + room) / 4) << 4) as u8);
    let [fin, syn, psh, ack] = [flags.fin, flags.syn, flags.psh, flags.ack].map(u8::from);
    out.push(fin | syn << 1 | psh << 3 | ack << 4 | u8::from(flags.ece) << 6 | u8::from(flags.cwr) << 7);
    out.extend_from_slice(&window.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    let end = out.len() + room;
    if flags.syn {
        write_syn_options(out, room, segment, shift, carrier);
    } else {
        write_options(out, room, segment);
    }
    out.resize(end, NO_OPERATION);
}

/// Returns window field and window scale. An end must use the same scale in all its segments: Linux's for windows tuned
/// by the receiver, the maximum for unlimited windows. The window of a SYN is not scaled.
fn window(segment: &Segment) -> (u16, u8) {
    let max = u32::from(u16::MAX);
    let shift = if segment.window_bytes.div_ceil(1 << LINUX_WINDOW_SHIFT) <= max {
        LINUX_WINDOW_SHIFT
    } else {
        WINDOW_SHIFT_MAX
    };
    let scaled = if segment.flags.syn { segment.window_bytes } else { segment.window_bytes.div_ceil(1 << shift) };
    (scaled.min(max) as u16, shift as u8)
}

fn write_syn_options(out: &mut Vec<u8>, room: usize, segment: &Segment, shift: u8, carrier: Carrier) {
    if room < SYN_OPTIONS_BYTES - TIMESTAMPS_BYTES {
        return;
    }
    let (segment_size, permits_sack) = match carrier {
        Carrier::Tcp { segment_size, permits_sack } => (Some(segment_size), permits_sack),
        Carrier::Unknown | Carrier::RawIp => (None, false),
    };
    if let Some(segment_size) = segment_size {
        out.extend_from_slice(&SEGMENT_SIZE);
        out.extend_from_slice(&segment_size.to_be_bytes());
    } else {
        out.extend_from_slice(&[NO_OPERATION; 4]);
    }
    if room >= SYN_OPTIONS_BYTES {
        out.extend_from_slice(if permits_sack { &SACK_PERMITTED } else { &[NO_OPERATION; 2] });
        write_timestamps(out, segment);
    }
    out.push(NO_OPERATION);
    out.extend_from_slice(&WINDOW_SCALE);
    out.push(shift);
}

fn write_options(out: &mut Vec<u8>, room: usize, segment: &Segment) {
    let sack_bytes = if segment.sack.is_empty() { 0 } else { 4 + 8 * segment.sack.len() };
    if room >= sack_bytes + TIMESTAMPS_BYTES {
        out.extend_from_slice(&[NO_OPERATION; 2]);
        write_timestamps(out, segment);
    }
    if sack_bytes > 0 && room >= sack_bytes {
        out.extend_from_slice(&[NO_OPERATION, NO_OPERATION, SACK, sack_bytes as u8 - 2]);
        for (start, end) in segment.sack.duplicate().into_iter().chain(segment.sack.iter(segment.ack)) {
            out.extend_from_slice(&(start as u32).to_be_bytes());
            out.extend_from_slice(&(end as u32).to_be_bytes());
        }
    }
}

/// Writes the timestamp option, with times in microseconds.
fn write_timestamps(out: &mut Vec<u8>, segment: &Segment) {
    out.extend_from_slice(&TIMESTAMPS);
    for time in [segment.ts_val, segment.ts_ecr] {
        out.extend_from_slice(&((time.as_ns() / 1_000) as u32).to_be_bytes());
    }
}
