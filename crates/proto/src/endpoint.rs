//! One socket's connections: which datagram belongs to which, and who may come in.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use dfcp_time::Time;
use dfcp_wire::{Flags, Header, Options, Peek, Profile, Segment, handshake::Parameters, peek};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use slab::Slab;

use crate::config::Config;
use crate::connection::{Connection, Ports};
use crate::limits;

/// Names a connection of an endpoint. Reused after [`Endpoint::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(usize);

impl Handle {
    /// A small number, for tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0
    }
}

/// Where a datagram belongs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Routed {
    /// To this connection: hand it to its [`Connection::handle_datagram`].
    Connection(Handle),
    /// It opened this connection and has been taken in.
    Opened(Handle, Box<Connection>),
    /// It wants the answer which has been written into the reply buffer, of this length.
    Reply(usize),
    /// Nowhere.
    Dropped,
}

/// Why a connection could not be opened.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] crate::error::ConfigError),
    /// The endpoint is full.
    #[error("this endpoint already has {} connections", limits::CONNECTIONS_MAX)]
    TooManyConnections,
}

/// What a listening endpoint takes in.
#[derive(Clone, Debug, Default)]
pub struct Accept {
    /// How modern connections are configured; `None` refuses them.
    pub modern: Option<Config>,
    /// How classic connections, which have no security whatever, are configured; `None` refuses them.
    pub classic: Option<Config>,
}

impl From<Config> for Accept {
    /// Takes in the configuration's own profile and refuses the other.
    fn from(config: Config) -> Self {
        match config.profile {
            Profile::Modern => Self { modern: Some(config), classic: None },
            Profile::Classic => Self { modern: None, classic: Some(config) },
        }
    }
}

#[derive(Debug)]
struct Entry {
    remote: SocketAddr,
    ports: Ports,
    local_id: u32,
    profile: Profile,
    /// The id which the initiator chose, by which copies of its SYN are known.
    syn_id: Option<u32>,
    half_open: bool,
    connecting: bool,
}

/// Routes datagrams to connections, and opens new ones. The connections themselves belong to the caller.
#[derive(Debug)]
pub struct Endpoint {
    local_port: u16,
    /// The socket sees every datagram of the host's, and the ports are the header's.
    raw_ip: bool,
    accept: Option<Accept>,
    random: ChaCha20Rng,
    entries: Slab<Entry>,
    by_id: BTreeMap<u32, Handle>,
    by_ports: BTreeMap<(SocketAddr, Ports), Handle>,
    by_syn: BTreeMap<(SocketAddr, u32), Handle>,
    half_open: usize,
    refused: u64,
}

impl Endpoint {
    /// An endpoint on a UDP socket bound to `local_port`. `seed` must be unpredictable to others in real use.
    #[must_use]
    pub fn new(local_port: u16, accept: Option<Accept>, seed: [u8; 32]) -> Self {
        Self {
            local_port,
            raw_ip: false,
            accept,
            random: ChaCha20Rng::from_seed(seed),
            entries: Slab::new(),
            by_id: BTreeMap::new(),
            by_ports: BTreeMap::new(),
            by_syn: BTreeMap::new(),
            half_open: 0,
            refused: 0,
        }
    }

    /// An endpoint on a raw IP socket, to which the host gives every datagram of the protocol number, those for other
    /// endpoints and, over loopback, its own included (`spec/wire-format.md` §6). Ports are those of DFCP's header: the
    /// `remote` of [`handle_datagram`](Self::handle_datagram) needs none. What is not for `local_port` gets no answer.
    #[must_use]
    pub fn on_raw_ip(local_port: u16, accept: Option<Accept>, seed: [u8; 32]) -> Self {
        Self { raw_ip: true, ..Self::new(local_port, accept, seed) }
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    /// If the configuration makes no sense or the endpoint is full.
    pub fn connect(
        &mut self,
        now: Time,
        remote: SocketAddr,
        config: Config,
    ) -> Result<(Handle, Connection), ConnectError> {
        config.validate()?;
        if self.entries.len() >= limits::CONNECTIONS_MAX {
            return Err(ConnectError::TooManyConnections);
        }
        let ports = Ports { local: self.free_port(remote), remote: remote.port() };
        let connection = loop {
            let connection = Connection::connect(now, config.clone(), ports, self.seed());
            if !self.by_id.contains_key(&connection.local_id()) {
                break connection;
            }
        };
        let handle = self.insert(remote, &connection, None, true);
        Ok((handle, connection))
    }

    /// A local port which no other connection to `remote` uses. Over UDP it only tells classic connections apart. Over
    /// raw IP it is never the remote one: to a peer on this host, our own segments would come back as the peer's.
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

    fn insert(&mut self, remote: SocketAddr, connection: &Connection, syn_id: Option<u32>, connecting: bool) -> Handle {
        let entry = Entry {
            remote,
            ports: connection.ports(),
            local_id: connection.local_id(),
            profile: connection.profile(),
            syn_id,
            half_open: !connecting,
            connecting,
        };
        self.half_open += usize::from(entry.half_open);
        let (profile, id, ports) = (entry.profile, entry.local_id, entry.ports);
        let handle = Handle(self.entries.insert(entry));
        match profile {
            Profile::Modern => self.by_id.insert(id, handle),
            Profile::Classic => self.by_ports.insert((remote, ports), handle),
        };
        if let Some(syn_id) = syn_id {
            self.by_syn.insert((remote, syn_id), handle);
        }
        handle
    }

    /// Finds out where a datagram from `remote` belongs. An answer which needs no connection is written into `reply`,
    /// which should hold 1500 bytes.
    pub fn handle_datagram(&mut self, now: Time, remote: SocketAddr, datagram: &[u8], reply: &mut [u8]) -> Routed {
        let Some(peeked) = peek(datagram) else { return Routed::Dropped };
        let mut remote = remote;
        if self.raw_ip {
            // Modern segments other than a SYN have an id there, by which alone they are found.
            remote.set_port(peeked.source_port);
        }
        if peeked.flags == Flags::SYN {
            return self.handle_syn(now, remote, datagram, &peeked, reply);
        }
        let handle = match peeked.profile {
            Profile::Modern => self.by_id.get(&peeked.connection_id),
            Profile::Classic => {
                let ports = Ports { local: peeked.destination_port, remote: peeked.source_port };
                self.by_ports.get(&(remote, ports))
            }
        };
        handle.map_or(Routed::Dropped, |&handle| Routed::Connection(handle))
    }

    fn handle_syn(
        &mut self,
        now: Time,
        remote: SocketAddr,
        datagram: &[u8],
        peeked: &Peek,
        reply: &mut [u8],
    ) -> Routed {
        let ports = Ports { local: peeked.destination_port, remote: peeked.source_port };
        if self.raw_ip && self.accept.is_some() && ports.local != self.local_port {
            // It is for somebody else on this host, if for anybody.
            return Routed::Dropped;
        }
        let Ok(syn) = Segment::decode(datagram) else { return Routed::Dropped };
        let syn_id = match peeked.profile {
            Profile::Classic => None,
            Profile::Modern => match Parameters::decode(syn.payload) {
                Ok(parameters) => Some(parameters.connection_id),
                Err(_) => return Routed::Dropped,
            },
        };
        let known = match syn_id {
            Some(id) => self.by_syn.get(&(remote, id)),
            None => self.by_ports.get(&(remote, ports)),
        };
        if let Some(&handle) = known {
            return Routed::Connection(handle);
        }
        let Some(accept) = &self.accept else {
            return self.simultaneous(remote, ports, syn_id).map_or(Routed::Dropped, Routed::Connection);
        };
        let config = match peeked.profile {
            Profile::Classic => accept.classic.clone(),
            Profile::Modern => accept.modern.clone(),
        };
        let Some(config) = config else { return self.refuse(&syn.header, syn_id, reply) };
        if self.half_open >= limits::HALF_OPEN_MAX || self.entries.len() >= limits::CONNECTIONS_MAX {
            self.refused += 1;
            return Routed::Dropped;
        }
        let connection = loop {
            let seed = self.seed();
            let Some(connection) = Connection::accept(now, config.clone(), ports, &syn, datagram.len(), seed) else {
                return self.refuse(&syn.header, syn_id, reply);
            };
            if !self.by_id.contains_key(&connection.local_id()) {
                break connection;
            }
        };
        let handle = self.insert(remote, &connection, syn_id, false);
        Routed::Opened(handle, Box::new(connection))
    }

    /// Without a listener, a SYN from somebody whom we are calling is a simultaneous open.
    fn simultaneous(&mut self, remote: SocketAddr, ports: Ports, syn_id: Option<u32>) -> Option<Handle> {
        let raw_ip = self.raw_ip;
        let (index, _) = self.entries.iter().find(|(_, entry)| {
            entry.connecting
                && entry.syn_id.is_none()
                && entry.remote == remote
                && (!raw_ip || entry.ports == ports)
                && (entry.profile == Profile::Modern) == syn_id.is_some()
        })?;
        if let (Some(id), Some(entry)) = (syn_id, self.entries.get_mut(index)) {
            entry.syn_id = Some(id);
            self.by_syn.insert((remote, id), Handle(index));
        }
        Some(Handle(index))
    }

    /// An RST which the initiator can trust: it names the id, or echoes the state, which only its SYN told.
    fn refuse(&mut self, syn: &Header, syn_id: Option<u32>, reply: &mut [u8]) -> Routed {
        self.refused += 1;
        let header = Header {
            source_port: syn.destination_port,
            destination_port: syn.source_port,
            block_id: 0,
            s1: 0,
            flags: Flags::RST,
            profile: syn.profile,
            epoch: 0,
            s2: 0,
            s3: 0,
        };
        let header = match syn_id {
            Some(id) => header.with_connection_id(id),
            None => Header { s1: syn.s1, s2: syn.s2, s3: syn.s3, ..header },
        };
        match dfcp_wire::encode(reply, &header, &Options::default(), &[]) {
            Ok(length) => Routed::Reply(length),
            Err(_) => Routed::Dropped,
        }
    }

    /// The connection's handshake is done: it no longer counts as half open.
    pub fn established(&mut self, handle: Handle) {
        if let Some(entry) = self.entries.get_mut(handle.0) {
            self.half_open -= usize::from(std::mem::take(&mut entry.half_open));
            entry.connecting = false;
        }
    }

    /// The connection is over and its handle may be reused.
    pub fn forget(&mut self, handle: Handle) {
        let Some(entry) = self.entries.try_remove(handle.0) else { return };
        self.half_open -= usize::from(entry.half_open);
        match entry.profile {
            Profile::Modern => self.by_id.remove(&entry.local_id),
            Profile::Classic => self.by_ports.remove(&(entry.remote, entry.ports)),
        };
        if let Some(syn_id) = entry.syn_id {
            self.by_syn.remove(&(entry.remote, syn_id));
        }
    }

    /// Where the connection's datagrams go.
    #[must_use]
    pub fn remote(&self, handle: Handle) -> Option<SocketAddr> {
        self.entries.get(handle.0).map(|entry| entry.remote)
    }

    /// Connections in any state.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// SYNs refused or dropped for want of room.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests;
