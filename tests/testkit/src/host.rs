//! An endpoint with its connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use dfcp_proto::{
    Accept, Config, ConnectError, Connection, DATAGRAM_BUFFER_BYTES, Endpoint, Event, Handle, Routed, State,
};
use dfcp_time::Time;

/// A datagram with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address, possibly forged.
    pub from: SocketAddr,
    /// Destination address.
    pub to: SocketAddr,
    /// Payload.
    pub bytes: Vec<u8>,
}

/// Result of a received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// The datagram was processed by this connection.
    Taken(Handle),
    /// The datagram opened this connection.
    Opened(Handle),
    /// The endpoint answers without a connection.
    Reply(Vec<u8>),
    /// The datagram was dropped.
    Dropped,
}

impl Received {
    /// Answer without a connection, if there is one.
    #[must_use]
    pub fn reply(self) -> Option<Vec<u8>> {
        match self {
            Self::Reply(bytes) => Some(bytes),
            Self::Taken(_) | Self::Opened(_) | Self::Dropped => None,
        }
    }
}

/// An endpoint at an address, with its opened and accepted connections.
pub struct Host {
    /// Address of the socket.
    pub address: SocketAddr,
    /// Endpoint, which routes datagrams to the connections.
    pub endpoint: Endpoint,
    /// Open connections.
    pub connections: BTreeMap<Handle, Connection>,
    /// Buffer for answers and sent datagrams, which are copied from it.
    buffer: [u8; DATAGRAM_BUFFER_BYTES],
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { address, endpoint, connections, buffer: _ } = self;
        let host = &mut f.debug_struct("Host");
        host.field("address", address).field("endpoint", endpoint).field("connections", connections).finish()
    }
}

impl Host {
    /// Makes a host without connections; `seed` is the endpoint's.
    #[must_use]
    pub fn new(address: SocketAddr, accept: Option<Accept>, seed: [u8; 32]) -> Self {
        let endpoint = Endpoint::new(address.port(), accept, seed);
        Self { address, endpoint, connections: BTreeMap::new(), buffer: [0; DATAGRAM_BUFFER_BYTES] }
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    /// Fails if the configuration is invalid or the endpoint is full.
    pub fn connect(&mut self, now: Time, remote: SocketAddr, config: Config) -> Result<Handle, ConnectError> {
        let (handle, connection) = self.endpoint.connect(now, remote, config)?;
        self.connections.insert(handle, connection);
        Ok(handle)
    }

    /// Returns the oldest remaining connection: in most tests the only one.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        self.connections.values().next()
    }

    /// Like [`connection`](Self::connection), mutable.
    pub fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.connections.values_mut().next()
    }

    /// Processes a datagram, which is decrypted in place.
    #[inline] // into the loop of `Flow`, whose instructions are counted
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &mut [u8]) -> Received {
        match self.endpoint.handle_datagram(now, from, datagram, &mut self.buffer) {
            Routed::Connection(handle, from) => match self.connections.get_mut(&handle) {
                Some(connection) => {
                    connection.handle_datagram(now, from, datagram);
                    Received::Taken(handle)
                }
                None => Received::Dropped,
            },
            Routed::Opened(handle, connection) => {
                self.connections.insert(handle, connection);
                Received::Opened(handle)
            }
            Routed::Reply(length) => Received::Reply(self.buffer[..length].to_vec()),
            _ => Received::Dropped,
        }
    }

    /// Next datagram sent by any of the connections at `now`.
    pub fn transmit(&mut self, now: Time) -> Option<Packet> {
        let Self { address, connections, buffer, .. } = self;
        let sent = connections.values_mut().find_map(|connection| connection.poll_transmit(now, buffer))?;
        Some(Packet { from: *address, to: sent.remote, bytes: buffer[..sent.length].to_vec() })
    }

    /// Earliest timer of the connections.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        self.connections.values().filter_map(|connection| connection.next_timeout(now)).map(|(at, _)| at).min()
    }

    /// Handles the timers of all connections.
    pub fn handle_timeout(&mut self, now: Time) {
        for connection in self.connections.values_mut() {
            connection.handle_timeout(now);
        }
    }

    /// Next event of a connection. The endpoint is informed here that a connection is established.
    pub fn poll_event(&mut self, handle: Handle) -> Option<Event> {
        let event = self.connections.get_mut(&handle)?.poll_event()?;
        if event == Event::Connected {
            self.endpoint.established(handle);
        }
        Some(event)
    }

    /// True if a connection is closed and has nothing left to do.
    #[must_use]
    pub fn is_over(&self, now: Time, handle: Handle) -> bool {
        let connection = self.connections.get(&handle);
        connection.is_none_or(|it| it.state() == State::Closed && it.next_timeout(now).is_none())
    }

    /// Removes a closed connection, but keeps its last datagrams for answers.
    pub fn end(&mut self, now: Time, handle: Handle) {
        if let Some(words) = self.connections.get(&handle).and_then(Connection::last_words) {
            self.endpoint.keep_last_words(now, handle, words);
        }
        self.forget(handle);
    }

    /// Removes a connection; its handle may be reused.
    pub fn forget(&mut self, handle: Handle) {
        self.connections.remove(&handle);
        self.endpoint.forget(handle);
    }
}

/// Seed of an endpoint: `seed`, and a salt that distinguishes the ends of a test.
#[must_use]
pub fn seed32(seed: u64, salt: u8) -> [u8; 32] {
    let mut out = [salt; 32];
    out[..8].copy_from_slice(&seed.to_le_bytes());
    out
}
