//! Packets of the simulation, and identifiers of links and flows.

use std::ops::{Deref, DerefMut};

use dfcp_netem::{Ecn, Packet as OnLink, flip_bit};

use crate::messages::ModelSegment;
use crate::tcp::Segment;

/// Identifier of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u32);

/// Identifier of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub(crate) u32);

impl LinkId {
    /// Returns the index of the link in the order of addition.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowId {
    /// Returns the index of the flow in the order of addition.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Packet of a flow, on its way to one of the flow's ends.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Packet number, in the order of sending. A duplicate has the number of its original.
    pub id: u64,
    /// Flow of the packet.
    pub flow: u32,
    /// True for packets from the receiver to the sender.
    pub is_back: bool,
    /// Index, within the route, of the link on which the packet is.
    pub(crate) leg: u16,
    /// Number, from 0, of the sender's address from which the packet comes or to which it goes.
    pub(crate) address: u16,
    /// Size of the IP packet, bytes.
    pub size_bytes: u32,
    /// ECN codepoint. Marking queues set it to CE.
    pub ecn: Ecn,
    /// True after a bit error that a checksum will detect.
    pub(crate) is_damaged: bool,
    /// Content, processed by the receiving end.
    pub body: Body,
}

/// Content of a packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// Segment of a TCP model.
    Tcp(Box<Segment>),
    /// Datagram of DFCP's own code.
    Datagram(Datagram),
    /// QUIC packet of quinn.
    Quic(Vec<u8>),
    /// Datagram of a message model.
    Model(ModelSegment),
    /// Segment of a web connection.
    Web {
        /// Number of the connection, from 0 in order of opening.
        connection: u32,
        /// Segment of that connection.
        segment: Box<Segment>,
    },
}

/// Longest datagram stored in the packet itself; more would enlarge [`Body`].
const SHORT_BYTES_MAX: usize = 38;

/// Bytes of a datagram. Short datagrams are stored in the packet itself; most are short if their symbols are only
/// counted. Very many packets are in flight, and one cache miss per packet would cost more than everything else.
#[derive(Clone, Debug)]
pub struct Datagram(Place);

#[derive(Clone, Debug)]
enum Place {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Vec<u8>),
}

impl Datagram {
    /// Copies `bytes`. Long datagrams reuse a buffer of `spare`.
    pub(crate) fn copy(bytes: &[u8], spare: &mut Vec<Vec<u8>>) -> Self {
        if bytes.len() > SHORT_BYTES_MAX {
            let mut buffer = spare.pop().unwrap_or_default();
            buffer.clear();
            buffer.extend_from_slice(bytes);
            return Self(Place::Long(buffer));
        }
        let mut place = [0; SHORT_BYTES_MAX];
        place[..bytes.len()].copy_from_slice(bytes);
        Self(Place::Short { length: bytes.len() as u8, bytes: place })
    }

    /// Returns the buffer of a long datagram to `spare`.
    pub(crate) fn recycle(self, spare: &mut Vec<Vec<u8>>) {
        if let Place::Long(buffer) = self.0 {
            spare.push(buffer);
        }
    }
}

impl Deref for Datagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Short { length, bytes } => &bytes[..usize::from(*length)],
            Place::Long(bytes) => bytes,
        }
    }
}

impl DerefMut for Datagram {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Short { length, bytes } => &mut bytes[..usize::from(*length)],
            Place::Long(bytes) => bytes,
        }
    }
}

impl OnLink for Packet {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    fn flow(&self) -> u64 {
        self.flow.into()
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn corrupt(&mut self, random: u64) {
        match &mut self.body {
            // The UDP checksum detects the error before QUIC sees it. QUIC's bytes differ between runs, so the position
            // of the wrong bit must not matter.
            Body::Tcp(_) | Body::Quic(_) | Body::Model(_) | Body::Web { .. } => self.is_damaged = true,
            Body::Datagram(bytes) => flip_bit(bytes, random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_what_was_copied_whatever_its_length() {
        let mut spare = vec![vec![9; 100]];
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() {
            let mut datagram = Datagram::copy(&bytes[..length], &mut spare);
            assert_eq!(*datagram, bytes[..length]);
            datagram.reverse();
            assert!(datagram.iter().rev().eq(&bytes[..length]));
            datagram.recycle(&mut spare);
            assert_eq!(spare.len(), 1, "the buffer is used again");
        }
    }

    #[test]
    fn a_packet_fits_a_line_of_cache() {
        assert_eq!(size_of::<Packet>(), 64);
    }
}
