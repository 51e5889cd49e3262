//! Captures, pcapng and pcap, packet by packet in constant memory. The file is hostile.

pub(crate) mod packet;

use std::io::{self, Read};
use std::ops::Range;

use dfcp_time::Time;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use self::packet::LinkType;
use crate::limits::{CAPTURE_BLOCK_BYTES_MAX, CAPTURE_INTERFACES_MAX};

/// A capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    /// The system says no.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Io(#[from] io::Error),
    /// Neither of the two formats.
    #[error(
        "is no capture: give a file in pcapng or pcap format, as tcpdump -w, tshark -w and dfcp lab trace --pcap write it"
    )]
    Format,
    /// It breaks its format.
    #[error("is damaged at byte {at}: record it again, or cut it there")]
    Damaged {
        /// Bytes that could be read.
        at: u64,
    },
    /// A block that is too long.
    #[error(
        "has a block of more than {CAPTURE_BLOCK_BYTES_MAX} bytes at byte {at}: record it again with a snap length, such as tcpdump -s 100"
    )]
    TooLong {
        /// Offset of its first byte.
        at: u64,
    },
    /// More interfaces than are remembered.
    #[error("has more than {CAPTURE_INTERFACES_MAX} interfaces: record fewer of them")]
    Interfaces,
    /// Packets of an interface that was not described.
    #[error("has packets of an interface which it does not describe: record it again")]
    NoInterface,
    /// No addresses are read there.
    #[error("has packets of link type {0}: record Ethernet, IP or tcpdump's `any`, which are read here")]
    LinkType(i32),
    /// Packets without times.
    #[error("has packets without times: record them with times, as pcap or with Enhanced Packet Blocks")]
    NoTime,
}

/// Bytes of an Enhanced Packet Block before its packet, and of a Simple Packet Block.
const ENHANCED_HEAD_BYTES: usize = 28;
const SIMPLE_HEAD_BYTES: usize = 12;

/// A packet in a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured<'a> {
    /// Time of capture, since 1970 unless the capture has another epoch.
    pub(crate) at: Time,
    /// Type of its first header.
    pub(crate) link: LinkType,
    /// Bytes which it had.
    pub(crate) wire_bytes: u32,
    /// The part of them that was kept.
    pub(crate) bytes: &'a [u8],
}

/// Interface that saw packets.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: i32,
    /// Units of time in a second.
    ticks_per_s: u64,
}

/// A block of a capture, of which each byte of the file is in exactly one.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// All its bytes.
    pub(crate) bytes: &'a [u8],
    /// The packet in it, if there is one.
    pub(crate) frame: Option<Frame>,
}

/// A packet in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Time of capture, since 1970 unless the capture has another epoch; `None` if the block does not state it.
    pub(crate) at: Option<Time>,
    /// The number of its interface's link type; `None` if the interface was not described.
    pub(crate) link: Option<i32>,
    /// Bytes which it had.
    pub(crate) wire_bytes: u32,
    /// Range of the kept bytes in the block.
    pub(crate) range: Range<usize>,
}

/// Fills what it is given as far as there are bytes, so that a short read of a pipe is no short header.
struct Whole<R>(R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

/// Hands every packet of the capture in `file` to `take`, in the order in which they are there. Returns whether the capture is whole: one
/// that was broken off ends within a packet.
///
/// # Errors
/// The file is no capture, is damaged, or `take` fails.
pub(crate) fn read<E: From<CaptureError>>(
    file: impl Read + Send,
    mut take: impl FnMut(Captured<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    pieces(file, |piece| {
        let Some(frame) = &piece.frame else { return Ok(()) };
        let number = frame.link.ok_or(CaptureError::NoInterface)?;
        let link = LinkType::from_number(number).ok_or(CaptureError::LinkType(number))?;
        let at = frame.at.ok_or(CaptureError::NoTime)?;
        let bytes = piece.bytes.get(frame.range.clone()).unwrap_or_default();
        take(Captured { at, link, wire_bytes: frame.wire_bytes, bytes })
    })
}

/// Hands every block of the capture in `file` to `take`, as [`read`] does its packets.
///
/// # Errors
/// As [`read`].
pub(crate) fn pieces<E: From<CaptureError>>(
    file: impl Read + Send,
    mut take: impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    let mut reader = match create_reader(CAPTURE_BLOCK_BYTES_MAX, Whole(file)) {
        Ok(reader) => reader,
        // The crate does not pass on what the system said.
        Err(PcapError::ReadError) => return Err(CaptureError::Io(io::Error::other("the file cannot be read")).into()),
        Err(_) => return Err(CaptureError::Format.into()),
    };
    let (mut interfaces, mut at) = (Vec::new(), 0);
    loop {
        match reader.next() {
            Ok((length, block)) => {
                let frame = interpret(block, length, &mut interfaces)?;
                take(Piece { bytes: reader.data().get(..length).unwrap_or_default(), frame })?;
                at += length as u64;
                reader.consume(length);
                continue;
            }
            Err(PcapError::Eof) => return Ok(true),
            Err(PcapError::UnexpectedEof) => return Ok(false),
            Err(PcapError::BufferTooSmall) => return Err(CaptureError::TooLong { at }.into()),
            Err(PcapError::Incomplete(_)) => {}
            Err(_) => return Err(CaptureError::Damaged { at }.into()),
        }
        refill(&mut *reader, at)?;
    }
}

/// Reads on. A block which says that it needs more than there is room for would be waited for without end.
fn refill(reader: &mut (dyn PcapReaderIterator + Send), at: u64) -> Result<(), CaptureError> {
    let before = reader.data().len();
    let refilled = reader.refill().is_ok();
    if !refilled {
        return Err(CaptureError::Io(io::Error::other("reading stopped in the middle of it")));
    }
    if reader.data().len() == before && !reader.reader_exhausted() {
        return Err(CaptureError::Damaged { at });
    }
    Ok(())
}

/// The packet in a block of `length` bytes, if there is one.
fn interpret(
    block: PcapBlockOwned<'_>,
    length: usize,
    interfaces: &mut Vec<Interface>,
) -> Result<Option<Frame>, CaptureError> {
    let frame = |interface: Option<&Interface>, at, wire_bytes, start: usize, kept: usize| {
        Some(Frame { at, link: interface.map(|it| it.link), wire_bytes, range: start..length.min(start + kept) })
    };
    Ok(match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let ticks_per_s = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            interfaces.push(Interface { link: header.network.0, ticks_per_s });
            None
        }
        PcapBlockOwned::Legacy(packet) => {
            let interface = interfaces.first();
            let fraction = time(packet.ts_usec.into(), interface.map_or(1, |it| it.ticks_per_s)).as_ns();
            let at = Time::from_ns(u64::from(packet.ts_sec) * 1_000_000_000 + fraction);
            // The head of a record is longer in a variant of the format.
            let start = length.saturating_sub(packet.data.len());
            frame(interface, Some(at), packet.origlen, start, packet.data.len())
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            None
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
            if interfaces.len() >= CAPTURE_INTERFACES_MAX {
                return Err(CaptureError::Interfaces);
            }
            let ticks_per_s = ticks_per_s(description.if_tsresol);
            interfaces.push(Interface { link: description.linktype.0, ticks_per_s });
            None
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize);
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let at = time(ticks, interface.map_or(1, |it| it.ticks_per_s));
            // Padded to four bytes.
            let kept = packet.data.len().min(packet.caplen as usize);
            frame(interface, Some(at), packet.origlen, ENHANCED_HEAD_BYTES, kept)
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let kept = packet.data.len().min(packet.origlen as usize);
            frame(interfaces.first(), None, packet.origlen, SIMPLE_HEAD_BYTES, kept)
        }
        PcapBlockOwned::NG(_) => None,
    })
}

/// Units in a second by the option `if_tsresol`: a power of ten, or of two if the highest bit is set. A value that does not fit means 1 s.
fn ticks_per_s(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7F);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(1)
}

fn time(ticks: u64, ticks_per_s: u64) -> Time {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s.max(1));
    Time::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
