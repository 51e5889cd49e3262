//! Captures in the format pcapng, for tshark and Wireshark: IPv4 packets with those parts of their content that are
//! modelled.

mod ip;

use std::io::{self, Write};

use dfcp_time::Time;

use self::ip::{Carrier, write_ip};
use crate::end::End;
use crate::observer::Observer;
use crate::packet::{FlowId, LinkId, Packet};

/// Link type of IP packets without link-layer header.
const LINKTYPE_RAW: u16 = 101;

// Block types and option codes (draft-ietf-opsawg-pcapng, §4).
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// Point of the network at which packets are captured.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Entrance of a link.
    Link(LinkId),
    /// Hosts of the senders.
    Senders,
}

/// Counts of captured and omitted packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets in the capture.
    pub packets: u64,
    /// Packets omitted because the capture had reached its size limit.
    pub left_out: u64,
    /// Time of the first omitted packet; `None` if there is none.
    pub full_at: Option<Time>,
}

/// Writer of captures, with timestamps in nanoseconds. Bytes that are not modelled, such as TCP's data and symbols that
/// are only counted, are cut off as by a snap length.
#[derive(Debug)]
pub struct Pcapng<W> {
    to: W,
    place: Place,
    /// Transports of the flows, by index of the flow.
    carriers: Vec<Carrier>,
    limit_bytes: u64,
    written_bytes: u64,
    captured: Captured,
    failure: Option<io::Error>,
    /// Body of the block that is being built.
    body: Vec<u8>,
}

/// Length of a block without its body, bytes.
const AROUND_BYTES: u64 = 12;

fn block(to: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padding = body.len().wrapping_neg() % 4;
    let length = (AROUND_BYTES as usize + body.len() + padding) as u32;
    to.write_all(&kind.to_le_bytes())?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(body)?;
    to.write_all(&[0; 3][..padding])?;
    to.write_all(&length.to_le_bytes())
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

impl<W: Write> Pcapng<W> {
    /// Creates a capture at the entrance of `link`.
    ///
    /// # Errors
    /// Fails if writing to `to` fails.
    pub fn new(to: W, link: LinkId) -> io::Result<Self> {
        Self::begin(to, Place::Link(link), &[format!("link{}", link.index() + 1)])
    }

    /// Creates a capture of the packets sent and received by the senders of the first `flows` flows, as if captured at
    /// their hosts. Each sender is an interface of its own: `flow1`, `flow2` and so on.
    ///
    /// # Errors
    /// Fails if writing to `to` fails.
    pub fn at_senders(to: W, flows: usize) -> io::Result<Self> {
        let names: Vec<String> = (1..=flows).map(|flow| format!("flow{flow}")).collect();
        Self::begin(to, Place::Senders, &names)
    }

    fn begin(to: W, place: Place, interfaces: &[String]) -> io::Result<Self> {
        let mut capture = Self {
            to,
            place,
            carriers: Vec::new(),
            limit_bytes: u64::MAX,
            written_bytes: 0,
            captured: Captured::default(),
            failure: None,
            body: Vec::new(),
        };
        // Byte order, version 1.0, unknown length of the section.
        capture.body.extend_from_slice(&0x1A2B_3C4D_u32.to_le_bytes());
        capture.body.extend_from_slice(&1_u32.to_le_bytes());
        capture.body.extend_from_slice(&u64::MAX.to_le_bytes());
        capture.put(SECTION_HEADER)?;
        for name in interfaces {
            // Link type, and no snap length.
            capture.body.extend_from_slice(&u32::from(LINKTYPE_RAW).to_le_bytes());
            capture.body.extend_from_slice(&0_u32.to_le_bytes());
            option(&mut capture.body, IF_NAME, name.as_bytes());
            // The unit of timestamps is 10⁻⁹ s.
            option(&mut capture.body, IF_TSRESOL, &[9]);
            option(&mut capture.body, 0, &[]);
            capture.put(INTERFACE_DESCRIPTION)?;
        }
        Ok(capture)
    }

    /// Limits the size of the capture to `limit_bytes`.
    #[must_use]
    pub fn with_limit(self, limit_bytes: u64) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Sets properties of `flow` that its packets do not contain: UDP or IP, and the options that TCP negotiates in
    /// SYNs.
    pub fn describe(&mut self, flow: FlowId, sender: &End) {
        let count = self.carriers.len().max(flow.index() + 1);
        self.carriers.resize(count, Carrier::default());
        self.carriers[flow.index()] = Carrier::of(sender);
    }

    /// Returns the counts of packets captured and omitted so far.
    #[must_use]
    pub fn captured(&self) -> Captured {
        self.captured
    }

    /// Ends the capture and returns the writer.
    ///
    /// # Errors
    /// Returns the first write error. Packets after it are missing.
    pub fn finish(mut self) -> io::Result<W> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.to.flush().map(|()| self.to),
        }
    }

    /// Writes a block whose body is in `self.body`, and clears the body.
    fn put(&mut self, kind: u32) -> io::Result<()> {
        block(&mut self.to, kind, &self.body)?;
        self.written_bytes += AROUND_BYTES + self.body.len().next_multiple_of(4) as u64;
        self.body.clear();
        Ok(())
    }

    fn take(&mut self, now: Time, interface: u32, packet: &Packet) {
        if self.failure.is_some() {
            return;
        }
        if self.captured.full_at.is_some() {
            self.captured.left_out += 1;
            return;
        }
        let time = now.as_ns();
        self.body.clear();
        for word in [interface, (time >> 32) as u32, time as u32, 0, packet.size_bytes] {
            self.body.extend_from_slice(&word.to_le_bytes());
        }
        let head = self.body.len();
        write_ip(&mut self.body, packet, self.carriers.get(packet.flow as usize).copied().unwrap_or_default());
        self.body.truncate(head + packet.size_bytes as usize);
        let captured_bytes = (self.body.len() - head) as u32;
        self.body[12..16].copy_from_slice(&captured_bytes.to_le_bytes());
        let block_bytes = AROUND_BYTES + self.body.len().next_multiple_of(4) as u64;
        if self.written_bytes + block_bytes > self.limit_bytes {
            self.captured.full_at = Some(now);
            self.captured.left_out += 1;
            return;
        }
        self.failure = self.put(ENHANCED_PACKET).err();
        self.captured.packets += 1;
    }
}

impl<W: Write> Observer for Pcapng<W> {
    fn sent(&mut self, now: Time, packet: &Packet) {
        if matches!(self.place, Place::Senders) && !packet.is_back {
            self.take(now, packet.flow, packet);
        }
    }

    fn offered(&mut self, now: Time, link: LinkId, packet: &Packet) {
        if matches!(self.place, Place::Link(own) if own == link) {
            self.take(now, 0, packet);
        }
    }

    fn delivered(&mut self, now: Time, packet: &Packet) {
        if matches!(self.place, Place::Senders) && packet.is_back {
            self.take(now, packet.flow, packet);
        }
    }
}

#[cfg(test)]
mod tests;
