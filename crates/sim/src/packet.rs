//! What links carry.

use dfcp_netem::{Packet as OnLink, flip_bit};

use crate::tcp::Segment;

/// A packet of a flow, on its way to one of its ends.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its number: packets are counted in the order in which ends send them; a copy has the number of its original.
    pub id: u64,
    /// The flow it belongs to.
    pub flow: u32,
    /// Whether it goes from the flow's receiver to its sender.
    pub is_back: bool,
    /// Which link of its route it is on.
    pub(crate) leg: u16,
    /// Bytes of the IP packet.
    pub size_bytes: u32,
    /// A bit of it has been flipped, and its checksum does not fit.
    pub(crate) is_damaged: bool,
    /// What the receiving end gets.
    pub body: Body,
}

/// What a packet says.
#[derive(Clone, Debug)]
pub enum Body {
    /// A segment of a TCP model.
    Tcp(Segment),
    /// A datagram of a protocol whose own code runs here.
    Datagram(Vec<u8>),
    /// The same of QUIC.
    Quic(Vec<u8>),
}

impl OnLink for Packet {
    fn size_bytes(&self) -> u32 {
        self.size_bytes
    }

    fn flow(&self) -> u64 {
        self.flow.into()
    }

    fn corrupt(&mut self, random: u64) {
        match &mut self.body {
            // UDP's checksum finds it before QUIC does; whose bytes are random, so which bit it is must not matter.
            Body::Tcp(_) | Body::Quic(_) => self.is_damaged = true,
            Body::Datagram(bytes) => flip_bit(bytes, random),
        }
    }
}
