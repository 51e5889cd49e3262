//! State of a session that exists in every phase.

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::Segment;
use dfcp_wire::{Features, STREAM_ID_BYTES};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::config::Config;
use crate::config::PathHint;
use crate::path::credit::Spending;
use crate::path::ecn::Ecn;
use crate::path::paths::Paths;
use crate::path::rate::RateBounds;
use crate::path::{Path, PathId};
use crate::proof;
use crate::random::SeekableRng;
use crate::session::link::Link;
use crate::session::messages::Messages;
use crate::session::stream_set::StreamSet;
use crate::shared::counters::Counters;
use crate::shared::events::Events;
use crate::shared::{Data, Ports, Role, Transmit};

/// State of a session from its first datagram to its last.
#[derive(Debug)]
pub(super) struct Common {
    /// Shared by all connections that an endpoint accepts; cloned when it is changed for one of them.
    pub(super) config: Arc<Config>,
    pub(super) role: Role,
    /// Symbol size, bytes: the configured size before the handshake, then the agreed one.
    pub(super) symbol_size: u16,
    /// Features agreed in the handshake; none before.
    pub(super) features: Features,
    /// Receive queue, KiB: datagrams that the system buffers until we read them, as told in reports (\[report-11\]). 0
    /// means unknown.
    pub(super) receive_queue_kib: u32,
    pub(super) random: SeekableRng<ChaCha20Rng>,
    pub(super) link: Link,
    pub(super) streams: StreamSet,
    /// State of messages, in an open session if both ends have chosen messages.
    pub(super) messages: Option<Box<Messages>>,
    pub(super) paths: Paths,
    /// Count of application calls and peer segments that may have given the sender something to send.
    pub(super) inputs: u64,
    pub(super) last_heard: Time,
    pub(super) last_sent: Time,
    pub(super) events: Events,
    pub(super) counters: Counters,
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
            receive_queue_kib: 0,
            random,
            link: Link::new(ports, local_id, is_sealed),
            streams: StreamSet::new(&config, role, proofs),
            messages: None,
            paths: Paths::new(Path::new(remote, config.overhead_bytes, RateBounds::new(&config, 0))),
            inputs: 0,
            last_heard: now,
            last_sent: now,
            events: Events::default(),
            counters: Counters::default(),
            config,
        }
    }

    /// Returns our parameters for SYN and SYNACK.
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

    /// Counts a sent datagram. `data` describes the data segment in it, if any.
    pub(super) fn on_sent(&mut self, now: Time, length: usize, data: Option<Data>, remote: SocketAddr) -> Transmit {
        let virtual_bytes = data.map_or(0, |data| data.virtual_bytes);
        let path = self.paths.active_mut();
        path.count_sent(path.ip_bytes(length, virtual_bytes));
        self.counters.segments_sent += 1;
        self.counters.bytes_sent += length as u64 + u64::from(virtual_bytes);
        self.last_sent = now;
        let ecn = if self.config.ecn { Ecn::Capable } else { Ecn::NotCapable };
        Transmit { length, remote, virtual_bytes, is_alone: false, ecn }
    }

    // ---- the path ----

    /// The active path.
    pub(super) fn path(&self) -> &Path {
        self.paths.active()
    }

    /// Bytes of an IP packet besides the payload of its segment.
    pub(super) fn around_payload_bytes(&self) -> usize {
        self.path().overhead_bytes() as usize + dfcp_wire::overhead_bytes(self.link.is_sealed)
    }

    /// Bytes of an IP packet besides the symbol data, for any stream.
    pub(super) fn around_symbol_bytes(&self) -> usize {
        let secret_bytes = if self.link.is_sealed { proof::SECRET_BYTES } else { 0 };
        self.around_payload_bytes() + STREAM_ID_BYTES + secret_bytes
    }

    /// Symbol bytes that fit into a packet of the current size.
    pub(super) fn packet_symbol_bytes(&self) -> usize {
        (self.path().packet_bytes() as usize).saturating_sub(self.around_symbol_bytes()).max(1)
    }

    /// Changes the paths. If the packet size changes, new blocks use the new size.
    pub(super) fn change_paths(&mut self, now: Time, change: impl FnOnce(&mut Paths, &Link)) {
        let before = self.path().packet_bytes();
        change(&mut self.paths, &self.link);
        if self.path().packet_bytes() != before {
            let bytes = self.packet_symbol_bytes();
            self.streams.send.set_packet_symbol_size(now, self.paths.active(), bytes);
        }
    }

    /// Returns the data that the credit permits now. The path accounts for bytes and rates; the send side supplies the
    /// size of the oldest block's symbols.
    pub(super) fn spending(&self) -> Spending {
        let around_bytes = self.around_payload_bytes() as u64;
        self.path().spending(u64::from(self.symbol_size) + around_bytes, || {
            let (symbols, symbol_bytes) = self.streams.send.oldest_block_symbols(self.path());
            symbols * (symbol_bytes + around_bytes)
        })
    }

    /// Path hint of the configuration. `None` if the session has left its first path.
    pub(super) fn hint(&self) -> Option<PathHint> {
        self.config.path_hint.filter(|_| self.path().id() == PathId::FIRST)
    }

    /// Symbol bytes that a data segment stands for without carrying them. A segment carries all bytes of its symbol or
    /// none.
    pub(super) fn virtual_bytes(&self, segment: &Segment, payload: &[u8]) -> usize {
        match segment {
            Segment::Data(data) if payload.is_empty() => {
                let symbol_bytes = data.block.length_bytes.div_ceil(u32::from(data.block.k));
                let bytes = data.fragment.range(symbol_bytes as usize).len();
                bytes.saturating_sub(self.config.codec.carried_bytes(bytes))
            }
            _ => 0,
        }
    }
}
