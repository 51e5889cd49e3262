//! A host whose applications do a job on each of its connections.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use dfcp_proto::{
    Accept, Config, ConnectError, Connection, ConnectionError, Event, Handle, State, Stats, StreamEvent, StreamId,
    Timer,
};
use dfcp_time::Time;

use crate::application::{Application, Job, Stream};
use crate::host::{Host, Packet, Received};
use crate::pattern::Pattern;

/// Bytes that an application writes or reads at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// One end of a test.
#[derive(Debug)]
pub struct Node {
    /// Endpoint with its connections.
    pub host: Host,
    /// Task of each connection's application.
    pub job: Job,
    /// True if the node is switched off: it neither sends nor receives, like a machine without power.
    pub is_off: bool,
    /// True if the node serves its present connections only, and ignores connections opened after these have ended.
    pub is_single: bool,
    /// Ends of the connections, in order: an error or none.
    pub ended: Vec<Option<ConnectionError>>,
    /// Number of established connections.
    pub connected: u64,
    /// Bytes written over all connections.
    pub written: u64,
    /// Bytes read over all connections; each is compared with the peer's pattern.
    pub read: u64,
    /// Connections whose stream was read to its end.
    pub read_to_end: u64,
    /// First error of a reader.
    pub read_error: Option<ConnectionError>,
    /// Offset of the first byte read that differs from the peer's pattern.
    pub corrupt_at: Option<u64>,
    /// Time at which a connection's job was first completely written and acknowledged.
    pub confirmed_at: Option<Time>,
    /// Bytes sent, by destination.
    pub sent_bytes: BTreeMap<SocketAddr, u64>,
    /// Datagrams sent, by destination.
    pub sent_datagrams: BTreeMap<SocketAddr, u64>,
    /// Bytes received, by source.
    pub received_bytes: BTreeMap<SocketAddr, u64>,
    own: Pattern,
    peer: Pattern,
    applications: BTreeMap<Handle, Application>,
    last_stats: Stats,
    /// True once the connections of a node with [`is_single`](Self::is_single) have ended.
    is_over: bool,
    buffer: Buffer,
}

/// Buffer of an application for writing and reading.
struct Buffer(Vec<u8>);

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Observable state of a connection: state, timer, peer's address, time of the last arrival, and all counters except those of arrivals.
pub type Observable = (State, Option<(Time, Timer)>, SocketAddr, Time, Stats);

impl Node {
    /// Makes a node at `address` whose applications write the pattern `own`, and expect `peer`. Until it has another job, it writes nothing
    /// and reads everything.
    #[must_use]
    pub fn new(address: SocketAddr, accept: Option<Accept>, seed: [u8; 32], own: Pattern, peer: Pattern) -> Self {
        Self {
            host: Host::new(address, accept, seed),
            job: Job::send(0),
            is_off: false,
            is_single: false,
            ended: Vec::new(),
            connected: 0,
            written: 0,
            read: 0,
            read_to_end: 0,
            read_error: None,
            corrupt_at: None,
            confirmed_at: None,
            sent_bytes: BTreeMap::new(),
            sent_datagrams: BTreeMap::new(),
            received_bytes: BTreeMap::new(),
            own,
            peer,
            applications: BTreeMap::new(),
            last_stats: Stats::default(),
            is_over: false,
            buffer: Buffer(vec![0; BUFFER_BYTES]),
        }
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    /// Fails if the configuration is invalid or the endpoint is full.
    pub fn connect(&mut self, now: Time, remote: SocketAddr, config: Config) -> Result<(), ConnectError> {
        let handle = self.host.connect(now, remote, config)?;
        self.begin(handle);
        Ok(())
    }

    fn begin(&mut self, handle: Handle) {
        self.applications.insert(handle, Application::new(Stream::new(self.own, self.peer)));
    }

    /// Returns the oldest connection: in most tests the only one.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        self.host.connection()
    }

    /// Like [`connection`](Self::connection), mutable.
    pub fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.host.connection_mut()
    }

    /// State of the oldest connection; `Closed` if there is none.
    #[must_use]
    pub fn state(&self) -> State {
        self.connection().map_or(State::Closed, Connection::state)
    }

    /// Latest statistics of the oldest connection, also after its end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        if self.is_over { self.last_stats } else { self.connection().map_or(self.last_stats, Connection::stats) }
    }

    /// True if the connections of a node with [`is_single`](Self::is_single) have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// True if the node never had a connection.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        !self.is_over && self.host.connections.is_empty()
    }

    /// True if a connection was established after those of a node with [`is_single`](Self::is_single) had ended; it is
    /// not served.
    pub fn has_established_more(&mut self) -> bool {
        let unserved = self.host.connections.values_mut().filter(|_| self.is_over);
        unserved.flat_map(|it| std::iter::from_fn(|| it.poll_event())).any(|event| event == Event::Connected)
    }

    /// Processes a datagram, and returns the answer without a connection, if any. Other datagrams are sent by the next
    /// [`transmit`](Self::transmit), so this may be called at any time.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        if self.is_off {
            return None;
        }
        *self.received_bytes.entry(from).or_default() += datagram.len() as u64;
        match self.host.receive(now, from, &mut datagram.to_vec()) {
            Received::Opened(handle) => {
                if !self.is_over {
                    self.begin(handle);
                }
                None
            }
            received => {
                let reply = received.reply()?;
                self.count_sent(from, reply.len());
                Some(reply)
            }
        }
    }

    /// Next datagram that the node sends at `now`.
    pub fn transmit(&mut self, now: Time) -> Option<Packet> {
        if self.is_idle() {
            return None;
        }
        let packet = self.host.transmit(now)?;
        self.count_sent(packet.to, packet.bytes.len());
        Some(packet)
    }

    /// True if nothing is served: the node is off, or its connections have ended.
    fn is_idle(&self) -> bool {
        self.is_off || self.is_over
    }

    fn count_sent(&mut self, to: SocketAddr, bytes: usize) {
        *self.sent_bytes.entry(to).or_default() += bytes as u64;
        *self.sent_datagrams.entry(to).or_default() += 1;
    }

    /// Time of the next timer or read. Datagrams that are due wait for the interface, which is free at `ready_at`.
    #[must_use]
    pub fn next_time(&self, now: Time, ready_at: Time) -> Option<Time> {
        if self.is_idle() {
            return None;
        }
        let timer = self.host.next_timeout(now).map(|at| if at <= now { at.max(ready_at) } else { at });
        let reads = self
            .applications
            .iter()
            .filter_map(|(handle, application)| application.next_read(&self.job, self.host.connections.get(handle)?));
        timer.into_iter().chain(reads).min()
    }

    /// Handles timers, runs the applications, and removes ended connections.
    pub fn work(&mut self, now: Time) {
        if self.is_idle() {
            return;
        }
        self.host.handle_timeout(now);
        let handles: Vec<Handle> = self.host.connections.keys().copied().collect();
        for handle in handles {
            self.poll_events(handle);
            self.apply(now, handle);
            self.poll_events(handle);
            let is_read = self.applications.get(&handle).is_none_or(|it| it.stream.is_read());
            if is_read && self.host.is_over(now, handle) {
                self.last_stats = self.host.connections.get(&handle).map_or(self.last_stats, Connection::stats);
                self.host.end(now, handle);
                self.applications.remove(&handle);
                self.is_over = self.is_single && self.host.connections.is_empty();
            }
        }
    }

    fn poll_events(&mut self, handle: Handle) {
        while let Some(event) = self.host.poll_event(handle) {
            match event {
                Event::Connected => self.connected += 1,
                Event::Closed(error) => self.ended.push(error),
                _ => {}
            }
        }
        // A job that writes nothing leaves stream events to other applications.
        let connection = self.host.connections.get_mut(&handle).filter(|_| self.job.send_bytes > 0);
        let Some((connection, application)) = connection.zip(self.applications.get_mut(&handle)) else { return };
        while let Some(event) = connection.streams().poll_event() {
            if event == StreamEvent::Writable(StreamId::FIRST) {
                application.writable();
            }
        }
    }

    /// Runs the application of one connection, and adds its results to the node's counters.
    fn apply(&mut self, now: Time, handle: Handle) {
        let Self { host, applications, job, buffer, .. } = self;
        let Some(connection) = host.connections.get_mut(&handle) else { return };
        let Some(application) = applications.get_mut(&handle) else { return };
        let before = application.stream.clone();
        application.work(now, job, connection, &mut buffer.0);
        let stream = &application.stream;
        self.written += stream.written - before.written;
        self.read += stream.read - before.read;
        self.read_to_end += u64::from(stream.has_ended && !before.has_ended);
        self.read_error = self.read_error.take().or_else(|| stream.read_error.clone());
        self.corrupt_at = self.corrupt_at.or(stream.corrupt_at);
        if job.send_bytes > 0 && stream.written == job.send_bytes && connection.is_drained() {
            self.confirmed_at.get_or_insert(now);
        }
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

    /// Number of datagrams sent.
    #[must_use]
    pub fn emitted(&self) -> u64 {
        self.sent_datagrams.values().sum()
    }

    /// State that a datagram without effect must not change.
    #[must_use]
    pub fn observable(&self, now: Time) -> Vec<Observable> {
        let masked = |connection: &Connection| {
            let mut stats = connection.stats();
            stats.segments_received = 0;
            stats.bytes_received = 0;
            stats.segments_dropped = 0;
            stats.segments_forged = 0;
            (connection.state(), connection.next_timeout(now), connection.remote(), connection.last_heard(), stats)
        };
        self.host.connections.values().map(masked).collect()
    }
}
