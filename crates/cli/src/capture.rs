//! Reader of pcapng and pcap captures, packet by packet in constant memory. The file is untrusted.

pub(crate) mod packet;

use std::io::{self, Read};
use std::ops::Range;

use dfcp_time::Time;
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use self::packet::LinkType;
use crate::limits::{CAPTURE_BLOCK_BYTES_MAX, CAPTURE_INTERFACES_MAX};

/// Reason why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    /// Reading the file failed.
    #[error("cannot be read: {0}; check the path and its permissions")]
    Io(#[from] io::Error),
    /// The file is neither pcapng nor pcap.
    #[error(
        "is no capture: give a file in pcapng or pcap format, as tcpdump -w, tshark -w and dfcp lab trace --pcap write it"
    )]
    Format,
    /// The file violates its format.
    #[error("is damaged at byte {at}: record it again, or cut it there")]
    Damaged {
        /// Offset up to which the file could be read.
        at: u64,
    },
    /// A block exceeds the length limit.
    #[error(
        "has a block of more than {CAPTURE_BLOCK_BYTES_MAX} bytes at byte {at}: record it again with a snap length, such as tcpdump -s 100"
    )]
    TooLong {
        /// Offset of the block's first byte.
        at: u64,
    },
    /// The capture has too many interfaces.
    #[error("has more than {CAPTURE_INTERFACES_MAX} interfaces: record fewer of them")]
    Interfaces,
    /// A packet refers to an undescribed interface.
    #[error("has packets of an interface which it does not describe: record it again")]
    NoInterface,
    /// The link type is not supported.
    #[error("has packets of link type {0}: record Ethernet, IP or tcpdump's `any`, which are read here")]
    LinkType(i32),
    /// Packets have no timestamps.
    #[error("has packets without times: record them with times, as pcap or with Enhanced Packet Blocks")]
    NoTime,
}

/// Bytes before the packet data in an Enhanced Packet Block, and in a Simple Packet Block.
const ENHANCED_HEAD_BYTES: usize = 28;
const SIMPLE_HEAD_BYTES: usize = 12;

/// Packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured<'a> {
    /// Capture time since 1970, or since the capture's own epoch.
    pub(crate) at: Time,
    /// Link type of the packet's first header.
    pub(crate) link: LinkType,
    /// Length of the packet on the wire, in bytes.
    pub(crate) wire_bytes: u32,
    /// Captured bytes of the packet.
    pub(crate) bytes: &'a [u8],
}

/// Capturing interface.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: i32,
    /// Timestamp resolution, ticks per second.
    ticks_per_s: u64,
}

/// Block of a capture. Every byte of the file belongs to exactly one block.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    /// All bytes of the block.
    pub(crate) bytes: &'a [u8],
    /// Packet in the block, if there is one.
    pub(crate) frame: Option<Frame>,
}

/// Packet within a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Capture time since 1970, or since the capture's own epoch; `None` if the block does not state it.
    pub(crate) at: Option<Time>,
    /// Link type number of the interface; `None` if the interface was not described.
    pub(crate) link: Option<i32>,
    /// Length of the packet on the wire, in bytes.
    pub(crate) wire_bytes: u32,
    /// Range of the captured bytes in the block.
    pub(crate) range: Range<usize>,
}

/// Reader that fills the whole buffer if possible: a short read of a pipe would look like a truncated header.
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

/// Passes every packet of the capture in `file` to `take`, in file order. Returns false for a capture that was cut off within a packet.
///
/// # Errors
/// Fails if the file is no capture or is damaged, or if `take` fails.
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

/// Passes every block of the capture in `file` to `take`, like [`read`] for packets.
///
/// # Errors
/// Fails as [`read`] does.
pub(crate) fn pieces<E: From<CaptureError>>(
    file: impl Read + Send,
    mut take: impl FnMut(Piece<'_>) -> Result<(), E>,
) -> Result<bool, E> {
    let mut reader = match create_reader(CAPTURE_BLOCK_BYTES_MAX, Whole(file)) {
        Ok(reader) => reader,
        // The pcap crate discards the system's error.
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

/// Reads more of the file. Fails for a block larger than the buffer: its end would never arrive.
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

/// Returns the packet in a block of `length` bytes, or `None` for a block without a packet.
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
            // Compute the start from the end: one variant of pcap has a longer record header.
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
            // Packet data are padded to four bytes.
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

/// Converts the option `if_tsresol` into ticks per second: a power of 10, or of 2 if the highest bit is set. A value
/// out of range means 1 tick per second.
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
