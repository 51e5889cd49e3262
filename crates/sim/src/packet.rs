//! Packets on links, and the names of links and flows.

use std::ops::{Deref, DerefMut};

use dfcp_netem::{Ecn, Packet as OnLink, flip_bit};

use crate::messages::ModelSegment;
use crate::tcp::Segment;

/// A link of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(crate) u32);

/// A flow of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(pub(crate) u32);

impl LinkId {
    /// Its place in the order in which links were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowId {
    /// Its place in the order in which flows were added.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A packet of a flow, on its way to one of its ends.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its number: packets are counted in the order in which ends send them; a copy has the number of its original.
    pub id: u64,
    /// The flow it belongs to.
    pub flow: u32,
    /// It goes from the flow's receiver to its sender.
    pub is_back: bool,
    /// Index of its link in the route.
    pub(crate) leg: u16,
    /// Number, from 0, of the sender's address that it comes from, or goes to.
    pub(crate) address: u16,
    /// Bytes of the IP packet.
    pub size_bytes: u32,
    /// Its ECN codepoint, which queues that mark set to CE.
    pub ecn: Ecn,
    /// A bit of it has been flipped, and its checksum does not fit.
    pub(crate) is_damaged: bool,
    /// Content for the receiving end.
    pub body: Body,
}

/// Content of a packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// A segment of a TCP model.
    Tcp(Box<Segment>),
    /// A datagram of a protocol whose own code runs here.
    Datagram(Datagram),
    /// A packet of QUIC.
    Quic(Vec<u8>),
    /// A datagram of a model of messages.
    Model(ModelSegment),
    /// A segment of one of the connections of web traffic.
    Web {
        /// Number of the connection, from 0 in the order in which they open.
        connection: u32,
        /// Segment of that connection.
        segment: Box<Segment>,
    },
}

/// Longest content that fits beside its length without making [`Body`] larger.
const SHORT_BYTES_MAX: usize = 38;

/// The bytes of a datagram. Short ones lie in the packet itself: most of those whose symbols are only counted. Of these a
/// great many are under way, and each further cache miss would cost more than all the rest.
#[derive(Clone, Debug)]
pub struct Datagram(Place);

#[derive(Clone, Debug)]
enum Place {
    Short { length: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Vec<u8>),
}

impl Datagram {
    /// A copy of `bytes`, in a buffer which was used before if it needs one.
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

    /// Gives its buffer, if it has one, to those which are used again.
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
            // UDP's checksum finds it before QUIC does; whose bytes are random, so which bit it is must not matter.
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
