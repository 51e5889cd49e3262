//! Captures in pcapng, which tshark and Wireshark open: IPv4 packets, with as much of their contents as is modelled.

use std::io::{self, Write};

use dfcp_time::Time;

use crate::observer::Observer;
use crate::packet::{Body, Packet};
use crate::simulation::LinkId;
use crate::tcp::Segment;

/// IP packets without a link layer.
const LINKTYPE_RAW: u16 = 101;
const IP_HEADER_BYTES: usize = 20;
const IP_PROTOCOL_TCP: u8 = 6;
const IP_PROTOCOL_UDP: u8 = 17;

/// Writes every packet which comes to the entrance of a link, with its time in nanoseconds. What is not modelled (data of
/// TCP, symbols which are only counted) is cut off, as a capture with a snap length does.
#[derive(Debug)]
pub struct Pcapng<W> {
    to: W,
    link: LinkId,
    failure: Option<io::Error>,
    packet: Vec<u8>,
}

fn block(to: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padding = body.len().wrapping_neg() % 4;
    let length = (12 + body.len() + padding) as u32;
    to.write_all(&kind.to_le_bytes())?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(body)?;
    to.write_all(&[0; 3][..padding])?;
    to.write_all(&length.to_le_bytes())
}

impl<W: Write> Pcapng<W> {
    /// A capture of what comes to `link`.
    ///
    /// # Errors
    /// When `to` fails.
    pub fn new(mut to: W, link: LinkId) -> io::Result<Self> {
        // Section header: byte order, version 1.0, length unknown.
        let mut section = 0x1A2B_3C4D_u32.to_le_bytes().to_vec();
        section.extend_from_slice(&1_u16.to_le_bytes());
        section.extend_from_slice(&0_u16.to_le_bytes());
        section.extend_from_slice(&u64::MAX.to_le_bytes());
        block(&mut to, 0x0A0D_0D0A, &section)?;
        // Interface: link type, no snap length, and option if_tsresol: nanoseconds.
        let mut interface = LINKTYPE_RAW.to_le_bytes().to_vec();
        interface.extend_from_slice(&[0; 6]);
        interface.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        block(&mut to, 1, &interface)?;
        Ok(Self { to, link, failure: None, packet: Vec::new() })
    }

    /// Ends the capture, and gives back what was written to.
    ///
    /// # Errors
    /// The first failure of writing; what follows it is missing.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.to.flush().map(|()| self.to),
        }
    }

    fn write(&mut self, now: Time, packet: &Packet) -> io::Result<()> {
        self.packet.clear();
        write_ip(&mut self.packet, packet);
        let captured = (self.packet.len() as u32).min(packet.size_bytes);
        self.packet.truncate(captured as usize);
        let time = now.as_ns();
        let mut body = 0_u32.to_le_bytes().to_vec();
        for word in [(time >> 32) as u32, time as u32, captured, packet.size_bytes] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&self.packet);
        block(&mut self.to, 6, &body)
    }
}

/// 10.1 is where senders are, 10.2 where receivers are.
fn address(flow: u32, is_receiver: bool) -> [u8; 4] {
    [10, 1 + u8::from(is_receiver), (flow >> 8) as u8, flow as u8]
}

fn write_ip(out: &mut Vec<u8>, packet: &Packet) {
    let protocol = match packet.body {
        Body::Tcp(_) => IP_PROTOCOL_TCP,
        Body::Datagram(_) | Body::Quic(_) => IP_PROTOCOL_UDP,
    };
    let mut header = [0; IP_HEADER_BYTES];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(packet.size_bytes as u16).to_be_bytes());
    header[4..6].copy_from_slice(&(packet.id as u16).to_be_bytes());
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&address(packet.flow, packet.is_back));
    header[16..20].copy_from_slice(&address(packet.flow, !packet.is_back));
    let sum: u32 = header.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    header[10..12].copy_from_slice(&(!((folded & 0xFFFF) + (folded >> 16)) as u16).to_be_bytes());
    out.extend_from_slice(&header);
    let (sender, receiver) = (40_000_u16, 9_000_u16);
    let (source, destination) = if packet.is_back { (receiver, sender) } else { (sender, receiver) };
    out.extend_from_slice(&source.to_be_bytes());
    out.extend_from_slice(&destination.to_be_bytes());
    match &packet.body {
        Body::Tcp(segment) => write_tcp(out, segment, packet.is_back),
        Body::Datagram(bytes) => write_udp(out, packet.size_bytes, bytes),
        Body::Quic(bytes) => write_udp(out, packet.size_bytes, bytes),
    }
}

/// UDP from behind the ports on.
fn write_udp(out: &mut Vec<u8>, size_bytes: u32, bytes: &[u8]) {
    out.extend_from_slice(&((size_bytes as usize - IP_HEADER_BYTES) as u16).to_be_bytes());
    // A checksum of zero: none.
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(bytes);
}

/// TCP from behind the ports on. Numbers wrap as they do on the wire, and the window is scaled by 2¹⁴ without an option
/// which says so: it does not fit otherwise.
fn write_tcp(out: &mut Vec<u8>, segment: &Segment, is_back: bool) {
    let mut options = Vec::new();
    // No-operation twice, then timestamps in microseconds.
    options.extend_from_slice(&[1, 1, 8, 10]);
    options.extend_from_slice(&((segment.ts_val.as_ns() / 1_000) as u32).to_be_bytes());
    options.extend_from_slice(&((segment.ts_ecr.as_ns() / 1_000) as u32).to_be_bytes());
    let blocks: Vec<(u64, u64)> = segment.sack.iter(segment.ack).take(3).collect();
    if !blocks.is_empty() {
        options.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            options.extend_from_slice(&(start as u32).to_be_bytes());
            options.extend_from_slice(&(end as u32).to_be_bytes());
        }
    }
    // Data flow one way: the other end's numbers stay at one.
    let seq = if is_back { 1 } else { segment.seq };
    out.extend_from_slice(&(seq as u32).to_be_bytes());
    out.extend_from_slice(&(if segment.flags.ack { segment.ack as u32 } else { 0 }).to_be_bytes());
    let flags = &segment.flags;
    out.push(((5 + options.len() / 4) as u8) << 4);
    out.push(u8::from(flags.fin) | u8::from(flags.syn) << 1 | u8::from(flags.ack) << 4);
    out.extend_from_slice(&((segment.window_bytes >> 14).min(0xFFFF) as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&options);
}

impl<W: Write> Observer for Pcapng<W> {
    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        if link == self.link && self.failure.is_none() {
            self.failure = self.write(now, packet).err();
        }
    }
}
