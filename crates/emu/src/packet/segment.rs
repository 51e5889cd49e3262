//! Single packets on the links, and their output to a device.

use std::rc::Rc;

use dfcp_netem::{Ecn, Packet, flip_bit};

use super::frame::{Binding, Frame};
use super::{VNET_BYTES, ecn};

/// Single packet: a plain frame, or a segment of a superpacket. Segments share their superpacket's memory.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    frame: Rc<Frame>,
    index: u16,
    /// True if a queue has set CE.
    is_marked: bool,
    /// Whole packet, once it differs from its frame.
    corrupted: Option<Box<[u8]>>,
}

impl Segment {
    /// All packets of a frame, in order.
    pub(crate) fn all(frame: Frame) -> impl Iterator<Item = Self> {
        let segments = frame.segments() as u16;
        let frame = Rc::new(frame);
        (0..segments).map(move |index| Self { frame: Rc::clone(&frame), index, is_marked: false, corrupted: None })
    }

    /// NAT mapping, see [`Frame::binding`].
    pub(crate) fn binding(&self) -> Option<Binding> {
        self.frame.binding
    }
}

impl Packet for Segment {
    fn size_bytes(&self) -> u32 {
        self.frame.size_bytes(self.index.into()) as u32
    }

    fn flow(&self) -> u64 {
        self.frame.flow
    }

    fn ecn(&self) -> Ecn {
        if self.is_marked { Ecn::Ce } else { self.frame.ecn() }
    }

    fn mark_ce(&mut self) {
        self.is_marked = true;
        if let Some(packet) = &mut self.corrupted {
            ecn::mark_ce(packet);
        }
    }

    fn corrupt(&mut self, random: u64) {
        let (frame, index, is_marked) = (&self.frame, self.index.into(), self.is_marked);
        let packet = self.corrupted.get_or_insert_with(|| {
            let mut packet = frame.wire_packet(index).into_boxed_slice();
            if is_marked {
                ecn::mark_ce(&mut packet);
            }
            packet
        });
        let before = ecn::of(packet);
        flip_bit(packet, random);
        if ecn::of(packet) != before {
            // Keep the ECN codepoint, and the version, which determines its position.
            flip_bit(packet, random);
            flip_bit(packet, random ^ 1 << 63);
        }
    }
}

/// Adjacent segments of one superpacket that leave by one write.
#[derive(Debug)]
pub(crate) struct Run {
    head: Segment,
    count: usize,
}

impl Run {
    pub(crate) fn new(head: Segment) -> Self {
        Self { head, count: 1 }
    }

    /// Adds the segment if it continues the run; otherwise returns it.
    pub(crate) fn extend(&mut self, segment: Segment) -> Result<(), Segment> {
        let continues = usize::from(segment.index) == usize::from(self.head.index) + self.count;
        let is_intact = self.head.corrupted.is_none() && segment.corrupted.is_none();
        let is_alike = self.head.is_marked == segment.is_marked;
        if continues && is_intact && is_alike && Rc::ptr_eq(&self.head.frame, &segment.frame) {
            self.count += 1;
            return Ok(());
        }
        Err(segment)
    }

    /// Number of packets.
    pub(crate) fn packets(&self) -> usize {
        self.count
    }

    /// IP bytes of its packets.
    pub(crate) fn bytes(&self) -> u64 {
        let first = usize::from(self.head.index);
        (first..first + self.count).map(|index| self.head.frame.size_bytes(index) as u64).sum()
    }

    /// Bytes for a device: fills `headers`, and returns the payload.
    pub(crate) fn write<'a>(&'a self, headers: &mut Vec<u8>) -> &'a [u8] {
        match &self.head.corrupted {
            None => {
                let payload = self.head.frame.run(self.head.index.into(), self.count, headers);
                if self.head.is_marked {
                    ecn::mark_ce(headers.get_mut(VNET_BYTES..).unwrap_or_default());
                }
                payload
            }
            Some(packet) => {
                // The checksum is complete and possibly wrong: let the kernel verify it.
                headers.clear();
                headers.extend([0; VNET_BYTES]);
                packet
            }
        }
    }
}
