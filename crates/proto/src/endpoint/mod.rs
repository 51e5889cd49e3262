//! The connections of one socket: routes datagrams to them, and accepts peers.

mod accept;
mod address;
mod half_open;
mod last_words;
mod rate_limit;
mod refused;
mod sealed;
mod stateless_reset;
mod stats;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_secure::{AddressPrefix, ResetKey};
use dfcp_time::Time;
use dfcp_wire::handshake::Payload;
use dfcp_wire::segment::{Address, Clear, Reset, ResetReason, Segment};
use dfcp_wire::{Profile, Unverified, classic};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use slab::Slab;

use crate::config::Config;
use crate::config::PathHint;
use crate::connection::{Connection, UnsealedSyn};
use crate::endpoint::accept::reserve_bytes;
use crate::endpoint::half_open::{HalfOpens, Syn};
use crate::endpoint::last_words::KeptWords;
use crate::endpoint::stateless_reset::StatelessResets;
use crate::limits;
use crate::path::hint::PathMemory;
use crate::session::closed::LastWords;
use crate::session::handshake::Opener;
use crate::shared::Ports;
use crate::shared::memory::{MemoryBudget, MemoryReservation};
use crate::spare::SpareBlocks;

pub use accept::{Accept, Cookies};
pub use stats::EndpointStats;

/// Identifies a connection of an endpoint. Reused after [`Endpoint::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(usize);

impl Handle {
    /// A small number, usable as a table index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// The destination of a received datagram.
#[derive(Debug)]
#[non_exhaustive]
pub enum Routed {
    /// The datagram is for this connection: pass it to [`Connection::handle_datagram`], with this source address.
    Connection(Handle, SocketAddr),
    /// The datagram has opened this connection, which has already processed it.
    Opened(Handle, Connection),
    /// An answer of this length, bytes, is in the reply buffer and must be sent to the datagram's source.
    Reply(usize),
    /// The datagram was dropped.
    Dropped,
}

/// The reason why a connection could not be opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] crate::error::ConfigError),
    /// The endpoint already has the maximum number of connections.
    #[error("this endpoint already has {} connections", limits::CONNECTIONS_MAX)]
    TooManyConnections,
}

/// The way in which a connection was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    /// Opened by this end.
    Connecting,
    /// Accepted by answering a plaintext SYN.
    HalfOpen,
    /// Accepted after its initiator has proven itself.
    Proven,
}

#[derive(Debug)]
struct Entry {
    remote: SocketAddr,
    ports: Ports,
    /// Connection id in modern segments to this end. `None` for classic connections, which their ports identify.
    local_id: Option<u32>,
    /// Connection id chosen by the initiator, which identifies copies of its SYN (\[open-4\]).
    syn_id: Option<u32>,
    half_open: bool,
    connecting: bool,
    accepted: bool,
}

/// Routes datagrams to connections, and opens new connections. The caller owns the connections themselves.
#[derive(Debug)]
pub struct Endpoint {
    local_port: u16,
    /// The socket receives every DFCP datagram of the host, and ports are those in DFCP's header.
    raw_ip: bool,
    accept: Option<Accept>,
    /// The configurations in `accept`, shared by connections.
    modern: Option<Arc<Config>>,
    classic: Option<Arc<Config>>,
    random: ChaCha20Rng,
    entries: Slab<Entry>,
    by_id: BTreeMap<u32, Handle>,
    by_ports: BTreeMap<(SocketAddr, Ports), Handle>,
    by_syn: BTreeMap<(SocketAddr, u32), Handle>,
    /// Number of plaintext half-open connections.
    half_open: usize,
    /// Sealed half-open connections, if sealed connections are accepted.
    half_opens: Option<HalfOpens>,
    /// Number of accepted connections by the address that opened them.
    per_address: BTreeMap<AddressPrefix, usize>,
    /// Memory budget for received blocks of accepted connections.
    memory: Arc<MemoryBudget>,
    /// Memory of finished blocks, for reuse.
    spare: SpareBlocks,
    refused: u64,
    resets: StatelessResets,
    kept_words: KeptWords,
    /// Path hints from connections that were opened here.
    paths: PathMemory,
}

impl Endpoint {
    /// Creates an endpoint on a UDP socket bound to `local_port`. `seed` must be unpredictable to others in real use.
    /// Without [`Accept::reset_key`], the endpoint can prove only during its own lifetime that it has lost a session.
    #[must_use]
    pub fn new(local_port: u16, accept: Option<Accept>, seed: [u8; 32]) -> Self {
        let mut random = ChaCha20Rng::from_seed(seed);
        let given = accept.as_ref().and_then(|accept| accept.reset_key.clone());
        let reset_key = Arc::new(given.unwrap_or_else(|| ResetKey::from_seed(&seed)).at_port(local_port));
        let half_opens = accept.as_ref().and_then(|accept| {
            let credentials = accept.modern.as_ref()?.credentials()?;
            let key = Arc::clone(&reset_key);
            Some(HalfOpens::new(credentials, accept.cookies, accept.half_open_max, key, &mut random))
        });
        let shared = |profile| accept.as_ref()?.of_profile(profile).cloned().map(Arc::new);
        let (modern, classic) = (shared(Profile::Modern), shared(Profile::Classic));
        let memory = MemoryBudget::new(accept.as_ref().map_or(0, Accept::memory_budget_bytes));
        Self {
            local_port,
            raw_ip: false,
            accept,
            modern,
            classic,
            random,
            entries: Slab::new(),
            by_id: BTreeMap::new(),
            by_ports: BTreeMap::new(),
            by_syn: BTreeMap::new(),
            half_open: 0,
            half_opens,
            per_address: BTreeMap::new(),
            memory,
            spare: SpareBlocks::default(),
            refused: 0,
            resets: StatelessResets::new(reset_key),
            kept_words: KeptWords::new(),
            paths: PathMemory::default(),
        }
    }

    /// Creates an endpoint on a raw IP socket. The host passes every datagram of the protocol number to this socket:
    /// also those for other endpoints and, over loopback, its own (`spec/wire-format.md` §6). Ports are those in DFCP's
    /// header, so the `remote` of [`handle_datagram`](Self::handle_datagram) needs no port. Datagrams for ports other
    /// than `local_port` get no answer.
    #[must_use]
    pub fn on_raw_ip(local_port: u16, accept: Option<Accept>, seed: [u8; 32]) -> Self {
        Self { raw_ip: true, ..Self::new(local_port, accept, seed) }
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    /// If the configuration is invalid, or the endpoint is full.
    pub fn connect(
        &mut self,
        now: Time,
        remote: SocketAddr,
        mut config: Config,
    ) -> Result<(Handle, Connection), ConnectError> {
        config.validate()?;
        config.path_hint = config.path_hint.or_else(|| self.paths.hint(now, remote.ip()));
        if self.entries.len() >= limits::CONNECTIONS_MAX {
            return Err(ConnectError::TooManyConnections);
        }
        let ports = Ports { local: self.free_port(remote), remote: remote.port() };
        let config = Arc::new(config);
        let mut connection = loop {
            let seed = self.seed();
            let connection = Connection::initiate(now, Arc::clone(&config), ports, remote, seed, &self.resets.key)?;
            if connection.local_id().is_none_or(|id| !self.by_id.contains_key(&id)) {
                break connection;
            }
        };
        connection.take_from(&self.spare);
        connection.watch(now, &config, true);
        let handle = self.insert(remote, &connection, None, Entered::Connecting);
        Ok((handle, connection))
    }

    /// Returns a local port that no other connection to `remote` uses. Over UDP it only distinguishes classic
    /// connections. Over raw IP it always differs from the remote port: otherwise a connection to this host would
    /// receive its own segments as the peer's.
    fn free_port(&mut self, remote: SocketAddr) -> u16 {
        let taken = |port: u16| {
            (self.raw_ip && port == remote.port())
                || self.by_ports.contains_key(&(remote, Ports { local: port, remote: remote.port() }))
        };
        let start = self.local_port;
        (0..=u16::MAX).map(|i| start.wrapping_add(i)).find(|&port| !taken(port)).unwrap_or(start)
    }

    fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.random.fill_bytes(&mut seed);
        seed
    }

    fn insert(&mut self, remote: SocketAddr, connection: &Connection, syn_id: Option<u32>, entered: Entered) -> Handle {
        let entry = Entry {
            remote,
            ports: connection.ports(),
            local_id: connection.local_id(),
            syn_id,
            half_open: entered == Entered::HalfOpen,
            connecting: entered == Entered::Connecting,
            accepted: entered != Entered::Connecting,
        };
        if entry.accepted {
            *self.per_address.entry(remote.into()).or_default() += 1;
        }
        self.half_open += usize::from(entry.half_open);
        let (id, ports) = (entry.local_id, entry.ports);
        let handle = Handle(self.entries.insert(entry));
        match id {
            Some(id) => self.by_id.insert(id, handle),
            None => self.by_ports.insert((remote, ports), handle),
        };
        if let Some(syn_id) = syn_id {
            self.by_syn.insert((remote, syn_id), handle);
        }
        handle
    }

    /// Finds the destination of a datagram from `remote` (`spec/protocol.md` \[state-3\]). An answer that needs no
    /// connection is written into `reply`, which should hold [`DATAGRAM_BUFFER_BYTES`](crate::DATAGRAM_BUFFER_BYTES).
    pub fn handle_datagram(&mut self, now: Time, remote: SocketAddr, datagram: &[u8], reply: &mut [u8]) -> Routed {
        if let Some(&handle) = Unverified::connection_id(datagram).and_then(|id| self.by_id.get(&id)) {
            return Routed::Connection(handle, self.path_of(handle, remote));
        }
        let Ok(header) = Unverified::read(datagram) else { return Routed::Dropped };
        match header {
            Unverified::Classic(header) => self.handle_classic(now, remote, &header, datagram, reply),
            Unverified::Clear(clear) if clear.is_syn() => self.handle_modern_syn(now, remote, &clear, datagram, reply),
            Unverified::Clear(clear) => {
                self.handle_unknown(now, remote, (clear.connection_id(), &header), datagram, reply)
            }
            Unverified::Sealed(sealed) => {
                self.handle_unknown(now, remote, (sealed.connection_id(), &header), datagram, reply)
            }
        }
    }

    fn handle_classic(
        &mut self,
        now: Time,
        remote: SocketAddr,
        header: &classic::Unverified,
        datagram: &[u8],
        reply: &mut [u8],
    ) -> Routed {
        let (remote, ports) = self.addresses(remote, header.ports());
        if let Some(&handle) = self.by_ports.get(&(remote, ports)).filter(|_| !header.is_syn()) {
            return Routed::Connection(handle, remote);
        }
        if !header.is_syn() || self.is_for_others(ports) {
            return Routed::Dropped;
        }
        let Ok(classic::Received { segment: classic::Segment::Syn { initial }, .. }) = header.verify(datagram) else {
            return Routed::Dropped;
        };
        self.handle_unsealed_syn(now, remote, ports, &UnsealedSyn::Classic { initial }, datagram.len(), reply)
    }

    fn handle_modern_syn(
        &mut self,
        now: Time,
        remote: SocketAddr,
        header: &Clear,
        datagram: &[u8],
        reply: &mut [u8],
    ) -> Routed {
        let (remote, ports) = self.addresses(remote, header.ports());
        if self.is_for_others(ports) {
            return Routed::Dropped;
        }
        let Ok(received) = header.verify(datagram) else { return Routed::Dropped };
        let (Segment::Syn(syn), Ok(payload)) = (received.segment, Payload::decode(received.payload)) else {
            return Routed::Dropped;
        };
        let Some(initiator_id) = payload.connection_id else { return Routed::Dropped };
        let opener = Opener { options: syn.options, number: received.number, payload: received.payload };
        if let Some((pattern, message)) = payload.noise {
            let syn = Syn {
                remote,
                bytes: datagram.len(),
                options: opener.options,
                option_bytes: header.option_bytes(datagram),
                number: opener.number,
                initiator_id,
                pattern,
                message,
                cookie: payload.cookie,
            };
            return self.handle_sealed_syn(now, &syn, reply);
        }
        let syn = UnsealedSyn::Modern { initiator_id, syn: opener };
        self.handle_unsealed_syn(now, remote, ports, &syn, datagram.len(), reply)
    }

    /// Returns the source address of a datagram, and its ports from our side. Over raw IP, the source port comes from
    /// DFCP's header.
    fn addresses(&self, mut remote: SocketAddr, ports: dfcp_wire::Ports) -> (SocketAddr, Ports) {
        if self.raw_ip {
            remote.set_port(ports.source);
        }
        (remote, Ports::of_received(ports))
    }

    /// Returns true for a SYN to another port of this host. Raw IP sockets receive such SYNs, too.
    fn is_for_others(&self, ports: Ports) -> bool {
        self.raw_ip && self.accept.is_some() && ports.local != self.local_port
    }

    /// Returns the source address of a connection's datagram. Over raw IP the port is that of the connection, as the
    /// datagram's address has none.
    fn path_of(&self, handle: Handle, mut remote: SocketAddr) -> SocketAddr {
        if self.raw_ip
            && let Some(entry) = self.entries.get(handle.0)
        {
            remote.set_port(entry.remote.port());
        }
        remote
    }

    /// Returns true if one more connection from `remote` may be accepted.
    fn has_room(&self, remote: SocketAddr) -> bool {
        let Some(accept) = &self.accept else { return false };
        let from_there = self.per_address.get(&remote.into()).copied().unwrap_or_default();
        self.entries.len() < accept.connections_max && from_there < accept.connections_per_address_max
    }

    fn handle_unsealed_syn(
        &mut self,
        now: Time,
        remote: SocketAddr,
        ports: Ports,
        syn: &UnsealedSyn<'_>,
        bytes: usize,
        reply: &mut [u8],
    ) -> Routed {
        let (known, syn_id) = match syn {
            UnsealedSyn::Classic { .. } => (self.by_ports.get(&(remote, ports)), None),
            UnsealedSyn::Modern { initiator_id, .. } => {
                (self.by_syn.get(&(remote, *initiator_id)), Some(*initiator_id))
            }
        };
        if let Some(&handle) = known {
            return Routed::Connection(handle, remote);
        }
        if self.accept.is_none() {
            let known = self.simultaneous(remote, ports, syn_id);
            return known.map_or(Routed::Dropped, |handle| Routed::Connection(handle, remote));
        }
        let config = match syn {
            UnsealedSyn::Classic { .. } => self.classic.clone(),
            // An endpoint that accepts sealed connections accepts no plaintext ones ([open-1]).
            UnsealedSyn::Modern { .. } => self.modern.clone().filter(|config| config.credentials().is_none()),
        };
        let Some(config) = config else { return self.refuse_unsealed(ports, syn, reply) };
        let reserve = reserve_bytes(&config);
        let unproven_max = self.memory.bytes_max() / limits::HALF_OPEN_MEMORY_SHARE;
        // Half-open peers have proven nothing: SYNs with forged addresses must not take all memory.
        let fits = self.half_open == 0 || (self.half_open as u64 + 1).saturating_mul(reserve) <= unproven_max;
        let has_room = fits && self.half_open < limits::HALF_OPEN_MAX && self.has_room(remote);
        let Some(reservation) = has_room.then(|| MemoryReservation::open(&self.memory, reserve)).flatten() else {
            self.refused += 1;
            return Routed::Dropped;
        };
        let mut connection = loop {
            let seed = self.seed();
            let accepted = Connection::accept(now, Arc::clone(&config), ports, remote, syn, bytes, seed);
            let Some(connection) = accepted else { return self.refuse_unsealed(ports, syn, reply) };
            if connection.local_id().is_none_or(|id| !self.by_id.contains_key(&id)) {
                break connection;
            }
        };
        connection.charge_to(reservation);
        connection.take_from(&self.spare);
        connection.watch(now, &config, false);
        let handle = self.insert(remote, &connection, syn_id, Entered::HalfOpen);
        Routed::Opened(handle, connection)
    }

    /// Without a listener, a SYN from a host that we are calling is a simultaneous open. Returns the connection.
    fn simultaneous(&mut self, remote: SocketAddr, ports: Ports, syn_id: Option<u32>) -> Option<Handle> {
        let raw_ip = self.raw_ip;
        let (index, _) = self.entries.iter().find(|(_, entry)| {
            entry.connecting
                && entry.syn_id.is_none()
                && entry.remote == remote
                && (!raw_ip || entry.ports == ports)
                && entry.local_id.is_some() == syn_id.is_some()
        })?;
        if let (Some(id), Some(entry)) = (syn_id, self.entries.get_mut(index)) {
            entry.syn_id = Some(id);
            self.by_syn.insert((remote, id), Handle(index));
        }
        Some(Handle(index))
    }

    /// Refuses a SYN by an RST that the initiator can trust: it contains the initiator's connection id or generator
    /// state, which only the SYN contained (`spec/protocol.md` \[open-3\]).
    fn refuse_unsealed(&mut self, ports: Ports, syn: &UnsealedSyn<'_>, reply: &mut [u8]) -> Routed {
        let initial = match syn {
            UnsealedSyn::Classic { initial } => *initial,
            UnsealedSyn::Modern { initiator_id, .. } => {
                return self.refuse(*initiator_id, ResetReason::Unspecified, reply);
            }
        };
        self.refused += 1;
        let Some(out) = reply.first_chunk_mut() else { return Routed::Dropped };
        let reset = classic::Segment::Reset { echo: initial };
        Routed::Reply(reset.begin(ports.outgoing(), out).finish())
    }

    /// Refuses a modern SYN by an RST.
    fn refuse(&mut self, initiator_id: u32, reason: ResetReason, reply: &mut [u8]) -> Routed {
        self.refused += 1;
        let Some(out) = reply.first_chunk_mut() else { return Routed::Dropped };
        let reset = Segment::Reset(Reset { reason });
        Routed::Reply(reset.begin_clear(Address::Connection(initiator_id), 0, out).finish())
    }

    /// Call this when a connection's handshake is complete: it no longer counts as half open.
    pub fn established(&mut self, handle: Handle) {
        if let Some(entry) = self.entries.get_mut(handle.0) {
            self.half_open -= usize::from(std::mem::take(&mut entry.half_open));
            entry.connecting = false;
        }
    }

    /// Remembers the path hint of a closed connection ([`Connection::path_hint`]), from which the next connection to
    /// the same host starts (\[auto-12\]). Must be called before [`forget`](Self::forget). Hints of accepted
    /// connections are ignored, since anybody can open such connections.
    pub fn remember_path(&mut self, now: Time, handle: Handle, hint: PathHint) {
        if let Some(entry) = self.entries.get(handle.0).filter(|entry| !entry.accepted) {
            self.paths.remember(now, entry.remote.ip(), hint);
        }
    }

    /// Keeps the RST of a closed connection ([`Connection::last_words`]), to repeat it to a peer that has missed it and
    /// goes on sending (\[rst-10\]). Must be called before [`forget`](Self::forget).
    pub fn keep_last_words(&mut self, now: Time, handle: Handle, words: LastWords) {
        if let Some(id) = self.entries.get(handle.0).and_then(|entry| entry.local_id) {
            self.kept_words.keep(now, id, words);
        }
    }

    /// Forgets a closed connection. Its handle may be reused.
    pub fn forget(&mut self, handle: Handle) {
        let Some(entry) = self.entries.try_remove(handle.0) else { return };
        self.half_open -= usize::from(entry.half_open);
        match entry.local_id {
            Some(id) => self.by_id.remove(&id),
            None => self.by_ports.remove(&(entry.remote, entry.ports)),
        };
        if let Some(syn_id) = entry.syn_id {
            self.by_syn.remove(&(entry.remote, syn_id));
        }
        let address = entry.remote.into();
        if entry.accepted
            && let Some(count) = self.per_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address);
            }
        }
    }

    /// The peer's address when the connection was created. `None` for an unknown handle.
    #[must_use]
    pub fn remote(&self, handle: Handle) -> Option<SocketAddr> {
        self.entries.get(handle.0).map(|entry| entry.remote)
    }

    /// Number of connections in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no connection in any state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
