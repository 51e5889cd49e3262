//! The part of a session that exists in every phase.

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_time::Time;
use dfcp_wire::Features;
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::Segment;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::config::{Config, Content};
use crate::path::Path;
use crate::path::ecn::Ecn;
use crate::random::SeekableRng;
use crate::session::link::Link;
use crate::session::open::messages::Messages;
use crate::session::stream_set::StreamSet;
use crate::shared::counters::Counters;
use crate::shared::events::Events;
use crate::shared::{Data, Ports, Role, Transmit};

/// State of a session from its first datagram to its last.
#[derive(Debug)]
pub(super) struct Common {
    /// Shared by all connections which an endpoint accepts, until it is changed for one of them.
    pub(super) config: Arc<Config>,
    pub(super) role: Role,
    /// The configured one, or what both ends have agreed on.
    pub(super) symbol_size: u16,
    /// Those which both ends have chosen; none before.
    pub(super) features: Features,
    /// The configured ones, or what the path needs.
    pub(super) overhead_bytes: u32,
    /// KiB of arrivals that the system buffers until we read them, as reports tell it (\[report-11\]); 0 for
    /// unknown.
    pub(super) receive_queue_kib: u32,
    pub(super) random: SeekableRng<ChaCha20Rng>,
    pub(super) link: Link,
    pub(super) streams: StreamSet,
    /// In an open session, if both ends have chosen them.
    pub(super) messages: Option<Box<Messages>>,
    pub(super) path: Path,
    pub(super) last_heard: Time,
    pub(super) last_sent: Time,
    pub(super) events: Events,
    pub(super) counters: Counters,
    /// Bits of IP packets sent.
    pub(super) sent_bits: u64,
}

impl Common {
    pub(super) fn new(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        role: Role,
        seed: [u8; 32],
    ) -> Self {
        let mut random = SeekableRng::<ChaCha20Rng>::new(seed);
        let local_id = random.with(|random| random.next_u32().max(1));
        let is_sealed = config.credentials().is_some();
        let proofs = is_sealed.then(|| random.bytes());
        Self {
            role,
            symbol_size: config.symbol_size,
            features: Features::NONE,
            overhead_bytes: config.overhead_bytes,
            receive_queue_kib: 0,
            random,
            link: Link::new(ports, local_id, remote, is_sealed),
            streams: StreamSet::new(&config, role, proofs),
            messages: None,
            path: Path::default(),
            last_heard: now,
            last_sent: now,
            events: Events::default(),
            counters: Counters::default(),
            sent_bits: 0,
            config,
        }
    }

    /// Our declarations in SYN and SYNACK.
    pub(super) fn own_parameters(&self) -> Parameters {
        Parameters { connection_id: self.link.local_id, offer: self.own_offer() }
    }

    pub(super) fn own_offer(&self) -> Offer {
        self.config.offer()
    }

    pub(super) fn count_received(&mut self, bytes: usize) {
        self.counters.segments_received += 1;
        self.counters.bytes_received += bytes as u64;
    }

    /// A datagram has been written: without data, or with `data`.
    pub(super) fn on_sent(&mut self, now: Time, length: usize, data: Option<Data>, remote: SocketAddr) -> Transmit {
        let elided_bytes = data.map_or(0, |data| data.elided_bytes);
        self.sent_bits += self.ip_bytes(length, elided_bytes) * 8;
        self.counters.segments_sent += 1;
        self.counters.bytes_sent += length as u64 + u64::from(elided_bytes);
        self.last_sent = now;
        let ecn = if self.config.ecn { Ecn::Capable } else { Ecn::NotCapable };
        Transmit { length, remote, elided_bytes, is_alone: false, ecn }
    }

    /// The size of the IP packet of a datagram of ours.
    pub(super) fn ip_bytes(&self, length: usize, elided_bytes: u32) -> u64 {
        length as u64 + u64::from(elided_bytes) + u64::from(self.overhead_bytes)
    }

    /// Bytes of the symbol which a data segment stands for without having it.
    pub(super) fn elided_bytes(&self, segment: &Segment) -> usize {
        match segment {
            Segment::Data(data) if self.config.content == Content::Elided => {
                let symbol_bytes = data.block.length_bytes.div_ceil(u32::from(data.block.k));
                data.fragment.range(symbol_bytes as usize).len()
            }
            _ => 0,
        }
    }
}
