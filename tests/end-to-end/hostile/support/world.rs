//! Two endpoints in virtual time, and somebody between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use dfcp_proto::{
    Accept, Config, Connection, ConnectionError, DATAGRAM_BUFFER_BYTES, Endpoint, Event, Handle, Read, Routed, State,
    Stats,
};
use dfcp_testkit::Pattern;
use dfcp_time::Time;

/// So many steps at one instant mean a timer which nothing serves.
const STEPS_AT_ONCE_MAX: u32 = 20_000;

/// A datagram under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it claims to come from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// What becomes of a datagram which an end has sent: the datagrams which the network carries in its place.
pub type Middle = Box<dyn FnMut(Time, Packet) -> Vec<Packet>>;

/// One end: an endpoint, its connections, and an application which writes and checks a pattern.
#[derive(Debug)]
pub struct Node {
    /// The socket's address.
    pub address: SocketAddr,
    /// The endpoint under attack.
    pub endpoint: Endpoint,
    /// Its connections.
    pub connections: BTreeMap<Handle, Connection>,
    /// How each connection ended, in order.
    pub ended: Vec<Option<ConnectionError>>,
    /// Connections whose handshake was done.
    pub connected: u64,
    /// Bytes given to the network, by destination.
    pub sent_bytes: BTreeMap<SocketAddr, u64>,
    /// Datagrams given to the network, by destination.
    pub sent_datagrams: BTreeMap<SocketAddr, u64>,
    /// Bytes taken from the network, by source.
    pub received_bytes: BTreeMap<SocketAddr, u64>,
    /// Bytes which the application wants to send on each connection; then it shuts its half down.
    pub to_send: u64,
    /// Whether it does shut it down.
    pub shuts_down: bool,
    /// Bytes read, all connections together; each is checked against the peer's pattern.
    pub read: u64,
    /// Connections whose stream was read to its end.
    pub read_to_end: u64,
    /// The first error that a reader saw.
    pub read_error: Option<ConnectionError>,
    /// Whether a byte which was read was not what the peer wrote.
    pub corrupt: bool,
    own: Pattern,
    peer: Pattern,
    written: BTreeMap<Handle, u64>,
    read_at: BTreeMap<Handle, u64>,
    shut: BTreeMap<Handle, bool>,
}

impl Node {
    fn new(address: SocketAddr, endpoint: Endpoint, own: u64, peer: u64) -> Self {
        Self {
            address,
            endpoint,
            connections: BTreeMap::new(),
            ended: Vec::new(),
            connected: 0,
            sent_bytes: BTreeMap::new(),
            sent_datagrams: BTreeMap::new(),
            received_bytes: BTreeMap::new(),
            to_send: 0,
            shuts_down: true,
            read: 0,
            read_to_end: 0,
            read_error: None,
            corrupt: false,
            own: Pattern(own),
            peer: Pattern(peer),
            written: BTreeMap::new(),
            read_at: BTreeMap::new(),
            shut: BTreeMap::new(),
        }
    }

    /// The only connection, or the oldest.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        self.connections.values().next()
    }

    /// The state of the oldest connection; `Closed` if there is none.
    #[must_use]
    pub fn state(&self) -> State {
        self.connection().map_or(State::Closed, Connection::state)
    }

    /// Takes a datagram, and gives the answer which needs no connection. Nothing else is sent: that is for the world's
    /// next step, so this may be called at any moment.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        *self.received_bytes.entry(from).or_default() += datagram.len() as u64;
        let mut reply = [0; DATAGRAM_BUFFER_BYTES];
        match self.endpoint.handle_datagram(now, from, datagram, &mut reply) {
            Routed::Connection(handle, remote) => {
                if let Some(connection) = self.connections.get_mut(&handle) {
                    connection.handle_datagram(now, remote, &mut datagram.to_vec());
                }
            }
            Routed::Opened(handle, connection) => {
                self.connections.insert(handle, *connection);
            }
            Routed::Reply(length) => {
                self.count_sent(from, length);
                return Some(reply[..length].to_vec());
            }
            _ => {}
        }
        None
    }

    fn count_sent(&mut self, to: SocketAddr, bytes: usize) {
        *self.sent_bytes.entry(to).or_default() += bytes as u64;
        *self.sent_datagrams.entry(to).or_default() += 1;
    }

    /// Everything the node wants to send at `now`.
    pub fn transmit(&mut self, now: Time) -> Vec<Packet> {
        let mut out = Vec::new();
        let mut buffer = [0; DATAGRAM_BUFFER_BYTES];
        for connection in self.connections.values_mut() {
            while let Some(transmit) = connection.poll_transmit(now, &mut buffer) {
                let bytes = buffer[..transmit.length].to_vec();
                out.push(Packet { from: self.address, to: transmit.remote, bytes });
            }
        }
        for packet in &out {
            self.count_sent(packet.to, packet.bytes.len());
        }
        out
    }

    /// Lets time pass and the applications work.
    pub fn work(&mut self, now: Time) {
        let handles: Vec<Handle> = self.connections.keys().copied().collect();
        for handle in handles {
            if let Some(connection) = self.connections.get_mut(&handle) {
                connection.handle_timeout(now);
            }
            self.poll_events(handle);
            self.write(now, handle);
            self.read(now, handle);
            self.poll_events(handle);
            let over = self
                .connections
                .get(&handle)
                .is_some_and(|it| it.state() == State::Closed && it.next_timeout(now).is_none());
            if over {
                self.connections.remove(&handle);
                self.endpoint.forget(handle);
                self.written.remove(&handle);
                self.read_at.remove(&handle);
                self.shut.remove(&handle);
            }
        }
    }

    fn poll_events(&mut self, handle: Handle) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => {
                    self.connected += 1;
                    self.endpoint.established(handle);
                }
                Event::Closed(error) => self.ended.push(error),
                _ => {}
            }
        }
    }

    fn write(&mut self, now: Time, handle: Handle) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        if matches!(connection.state(), State::Closed) {
            return;
        }
        let written = self.written.entry(handle).or_default();
        let mut buffer = [0; 16 << 10];
        while *written < self.to_send {
            let length = (self.to_send - *written).min(buffer.len() as u64) as usize;
            self.own.fill(*written, &mut buffer[..length]);
            match connection.write(now, &buffer[..length]) {
                Ok(0) | Err(_) => return,
                Ok(taken) => *written += taken as u64,
            }
        }
        if self.shuts_down && !self.shut.insert(handle, true).unwrap_or(false) {
            connection.shutdown(now);
        }
    }

    fn read(&mut self, now: Time, handle: Handle) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        let mut buffer = [0; 16 << 10];
        let at = self.read_at.entry(handle).or_default();
        if *at == u64::MAX {
            return;
        }
        loop {
            match connection.read(now, &mut buffer) {
                Ok(Read::Bytes(count)) => {
                    self.corrupt |= self.peer.first_difference(*at, &buffer[..count]).is_some();
                    *at += count as u64;
                    self.read += count as u64;
                }
                Ok(Read::Blocked) => return,
                Ok(Read::End) => {
                    self.read_to_end += 1;
                    *at = u64::MAX;
                    return;
                }
                Err(error) => {
                    self.read_error.get_or_insert(error);
                    *at = u64::MAX;
                    return;
                }
            }
        }
    }

    fn next_time(&self, now: Time) -> Option<Time> {
        self.connections.values().filter_map(|connection| connection.next_timeout(now)).min()
    }

    /// Bytes sent to every port of an IP address.
    #[must_use]
    pub fn sent_to(&self, ip: IpAddr) -> u64 {
        self.sent_bytes.iter().filter(|(to, _)| to.ip() == ip).map(|(_, bytes)| bytes).sum()
    }

    /// Bytes received from every port of an IP address.
    #[must_use]
    pub fn received_from(&self, ip: IpAddr) -> u64 {
        self.received_bytes.iter().filter(|(from, _)| from.ip() == ip).map(|(_, bytes)| bytes).sum()
    }

    /// What may not change when a datagram is without effect: the state, the timer, the peer's address, when it was heard, and
    /// all counters but those of what arrived.
    #[must_use]
    pub fn observable(&self, now: Time) -> Vec<(State, Option<Time>, SocketAddr, Time, Stats)> {
        let masked = |connection: &Connection| {
            let mut stats = connection.stats();
            stats.segments_received = 0;
            stats.bytes_received = 0;
            stats.segments_dropped = 0;
            stats.segments_forged = 0;
            (connection.state(), connection.next_timeout(now), connection.remote(), connection.last_heard(), stats)
        };
        self.connections.values().map(masked).collect()
    }
}

/// Two ends, a path of fixed delay between them, and somebody on it.
pub struct World {
    /// The virtual clock.
    pub now: Time,
    /// The connecting end.
    pub client: Node,
    /// The accepting end.
    pub server: Node,
    /// One way.
    pub delay: Duration,
    /// Who stands between: sees every datagram that the ends send. By default lets all pass.
    pub middle: Middle,
    /// What was delivered in the latest step.
    pub delivered: Vec<Packet>,
    /// What was sent to addresses which are neither end's.
    pub elsewhere: Vec<Packet>,
    queue: BTreeMap<(Time, u64), Packet>,
    serial: u64,
    trace: blake3::Hasher,
    steps_here: u32,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { now, client, server, .. } = self;
        f.debug_struct("World")
            .field("now", now)
            .field("client", client)
            .field("server", server)
            .finish_non_exhaustive()
    }
}

/// Where the client is at first.
#[must_use]
pub fn client_address() -> SocketAddr {
    ([192, 0, 2, 1], 40_000).into()
}

/// Where the server is.
#[must_use]
pub fn server_address() -> SocketAddr {
    ([192, 0, 2, 2], 9_000).into()
}

/// An address of an attacker's, or of an attacker's victim.
#[must_use]
pub fn stranger(number: u16) -> SocketAddr {
    let [high, low] = number.to_be_bytes();
    ([198, 51, high, low], 7_000).into()
}

fn seed32(seed: u64, salt: u8) -> [u8; 32] {
    let mut out = [salt; 32];
    out[..8].copy_from_slice(&seed.to_le_bytes());
    out
}

impl World {
    /// A server and no client connection yet.
    #[must_use]
    pub fn new(seed: u64, accept: impl Into<Accept>) -> Self {
        let server = Endpoint::new(9_000, Some(accept.into()), seed32(seed, 2));
        let client = Endpoint::new(40_000, None, seed32(seed, 1));
        let (up, down) = (seed.wrapping_mul(2), seed.wrapping_mul(2).wrapping_add(1));
        Self {
            now: Time::from_s(1),
            client: Node::new(client_address(), client, up, down),
            server: Node::new(server_address(), server, down, up),
            delay: Duration::from_millis(5),
            middle: Box::new(|_, packet| vec![packet]),
            delivered: Vec::new(),
            elsewhere: Vec::new(),
            queue: BTreeMap::new(),
            serial: 0,
            trace: blake3::Hasher::new(),
            steps_here: 0,
        }
    }

    /// The client opens a connection.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn connect(&mut self, config: Config) -> Result<()> {
        let (handle, connection) = self.client.endpoint.connect(self.now, self.server.address, config)?;
        self.client.connections.insert(handle, connection);
        Ok(())
    }

    /// Puts a datagram on its way to either end, to arrive after `delay`.
    pub fn put(&mut self, packet: Packet, delay: Duration) {
        self.serial += 1;
        self.queue.insert((self.now + delay, self.serial), packet);
    }

    fn send(&mut self, packets: Vec<Packet>) {
        for packet in packets {
            self.trace.update(&self.now.as_ns().to_le_bytes());
            self.trace.update(packet.to.to_string().as_bytes());
            self.trace.update(&packet.bytes);
            for packet in (self.middle)(self.now, packet) {
                self.put(packet, self.delay);
            }
        }
    }

    fn transmit(&mut self) {
        let packets = self.client.transmit(self.now);
        self.send(packets);
        let packets = self.server.transmit(self.now);
        self.send(packets);
    }

    /// Moves to the next thing that happens; `false` if that is after `limit`, or nothing.
    ///
    /// # Errors
    /// If time stands still.
    pub fn step(&mut self, limit: Time) -> Result<bool> {
        self.transmit();
        let now = self.now;
        let queued = self.queue.keys().next().map(|(at, _)| *at);
        let timers = [self.client.next_time(now), self.server.next_time(now), queued];
        let Some(next) = timers.into_iter().flatten().min() else { return Ok(false) };
        if next > limit {
            return Ok(false);
        }
        self.steps_here = if next > now { 0 } else { self.steps_here + 1 };
        ensure!(self.steps_here < STEPS_AT_ONCE_MAX, "time stands still at {now}");
        self.now = now.max(next);
        self.deliver();
        self.client.work(self.now);
        self.server.work(self.now);
        Ok(true)
    }

    fn deliver(&mut self) {
        self.delivered.clear();
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let packet = entry.remove();
            let node = if packet.to == self.server.address {
                &mut self.server
            } else if packet.to == self.client.address {
                &mut self.client
            } else {
                self.elsewhere.push(packet);
                continue;
            };
            let reply = node.receive(self.now, packet.from, &packet.bytes);
            if let Some(bytes) = reply {
                self.send(vec![Packet { from: packet.to, to: packet.from, bytes }]);
            }
            self.delivered.push(packet);
        }
    }

    /// Runs until `until`, whatever happens.
    ///
    /// # Errors
    /// If time stands still.
    pub fn run_until(&mut self, until: Time) -> Result<()> {
        while self.step(until)? {}
        self.now = self.now.max(until);
        Ok(())
    }

    /// Runs until both ends have read everything to its end, and checks that.
    ///
    /// # Errors
    /// If they have not by `limit`, or a byte was wrong.
    pub fn finish(&mut self, limit: Time) -> Result<()> {
        while !self.is_done() {
            if !self.step(limit)? {
                let (client, server) = (&self.client, &self.server);
                let ends = (client.state(), &client.ended, client.read, server.state(), &server.ended, server.read);
                bail!("not done at {limit}: {ends:?}");
            }
        }
        ensure!(!self.client.corrupt && !self.server.corrupt, "a wrong byte was read");
        ensure!(
            self.client.read == self.server.to_send && self.server.read == self.client.to_send,
            "bytes are missing"
        );
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.client.read_to_end == 1 && self.server.read_to_end == 1
    }

    /// A hash of everything that both ends have sent, with times and destinations.
    #[must_use]
    pub fn trace(&self) -> blake3::Hash {
        self.trace.finalize()
    }
}
