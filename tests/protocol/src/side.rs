//! One end: an endpoint, its connection, and an application which writes and checks a pattern.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{Connection, ConnectionError, Endpoint, Event, Handle, Read, Routed, State, Stats};
use dfcp_time::Time;

use crate::pattern::Pattern;

/// What an end's application does.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Bytes it sends; then it shuts its half down.
    pub send_bytes: u64,
    /// The most it writes at a time.
    pub write_bytes: usize,
    /// The most it reads per [`Job::read_every`]; `usize::MAX` is everything at once.
    pub read_bytes: usize,
    /// How often it reads; zero is whenever there is something.
    pub read_every: Duration,
    /// Whether it shuts down after its last byte (otherwise it leaves its half open).
    pub shut_down: bool,
}

impl Job {
    /// Sends `send_bytes` as fast as it may, and reads everything at once.
    #[must_use]
    pub fn send(send_bytes: u64) -> Self {
        Self {
            send_bytes,
            write_bytes: 256 * 1024,
            read_bytes: usize::MAX,
            read_every: Duration::ZERO,
            shut_down: true,
        }
    }
}

/// One end.
#[derive(Debug)]
pub struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: SocketAddr,
    pub(crate) connections: BTreeMap<Handle, Connection>,
    /// The connection under test.
    pub(crate) main: Option<Handle>,
    /// Attempts which a late copy of a SYN began after the connection under test was over. None may ever be established.
    ghosts: BTreeMap<Handle, Connection>,
    pub(crate) ghost_established: bool,
    job: Job,
    pattern: Pattern,
    peer_pattern: Pattern,
    pub(crate) written: u64,
    pub(crate) read: u64,
    next_read: Time,
    /// No write has been refused since the last `Writable` event.
    writable: bool,
    pub(crate) read_end: bool,
    pub(crate) connected_at: Option<Time>,
    pub(crate) finished_at: Option<Time>,
    pub(crate) drained_at: Option<Time>,
    pub(crate) closed: Option<Option<ConnectionError>>,
    pub(crate) read_error: Option<ConnectionError>,
    pub(crate) corrupt_at: Option<u64>,
    pub(crate) last_stats: Stats,
    pub(crate) next_tx: Time,
    /// Switched off: it neither sends nor receives any more, like a machine whose plug was pulled.
    pub(crate) dead: bool,
    buffer: Vec<u8>,
}

impl Side {
    pub(crate) fn new(endpoint: Endpoint, address: SocketAddr, job: Job, pattern: Pattern, peer: Pattern) -> Self {
        Self {
            endpoint,
            address,
            connections: BTreeMap::new(),
            main: None,
            ghosts: BTreeMap::new(),
            ghost_established: false,
            job,
            pattern,
            peer_pattern: peer,
            written: 0,
            read: 0,
            next_read: Time::ZERO,
            writable: true,
            read_end: false,
            connected_at: None,
            finished_at: None,
            drained_at: None,
            closed: None,
            read_error: None,
            corrupt_at: None,
            last_stats: Stats::default(),
            next_tx: Time::ZERO,
            dead: false,
            buffer: vec![0; 64 * 1024],
        }
    }

    /// The connection under test, if it is (still) there.
    #[must_use]
    pub fn connection(&self) -> Option<&Connection> {
        self.connections.get(&self.main?)
    }

    /// The same, to be changed.
    pub fn connection_mut(&mut self) -> Option<&mut Connection> {
        self.connections.get_mut(&self.main?)
    }

    /// Its latest statistics, also after its end.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.connection().map_or(self.last_stats, Connection::stats)
    }

    /// When everything it wrote had been acknowledged.
    #[must_use]
    pub fn confirmed_at(&self) -> Option<Time> {
        self.drained_at
    }

    /// How its connection ended, once it has: `Some(None)` if both sides closed it.
    #[must_use]
    pub fn ended(&self) -> Option<Option<ConnectionError>> {
        self.closed.clone()
    }

    pub(crate) fn adopt(&mut self, handle: Handle, connection: Connection) {
        self.main.get_or_insert(handle);
        self.connections.insert(handle, connection);
    }

    pub(crate) fn receive(&mut self, now: Time, remote: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        if self.dead {
            return None;
        }
        let mut reply = [0; 1500];
        match self.endpoint.handle_datagram(now, remote, datagram, &mut reply) {
            Routed::Connection(handle, remote) => {
                // Handles are used again, and a ghost may have that of the connection which is over.
                let ghost = self.ghosts.get_mut(&handle);
                if let Some(connection) = ghost.or_else(|| self.connections.get_mut(&handle)) {
                    connection.handle_datagram(now, remote, &mut datagram.to_vec());
                }
            }
            Routed::Opened(handle, connection) if self.main.is_some() && self.connections.is_empty() => {
                self.ghosts.insert(handle, connection);
            }
            Routed::Opened(handle, connection) => self.adopt(handle, connection),
            Routed::Reply(length) => return Some(reply[..length].to_vec()),
            _ => {}
        }
        None
    }

    /// Lets the application work, and forgets what is closed.
    pub(crate) fn work(&mut self, now: Time) {
        self.watch_ghosts();
        let Some(handle) = self.main else { return };
        self.poll_events(now, handle);
        self.write(now);
        self.read(now);
        self.poll_events(now, handle);
        let Some(connection) = self.connections.get(&handle) else { return };
        self.last_stats = connection.stats();
        let done = self.written == self.job.send_bytes && connection.is_drained();
        if done && self.job.send_bytes > 0 {
            self.drained_at.get_or_insert(now);
        }
        let over = connection.state() == State::Closed && connection.next_timeout(now).is_none();
        if over && (self.read_end || self.read_error.is_some()) {
            self.connections.remove(&handle);
            self.endpoint.forget(handle);
        }
    }

    fn watch_ghosts(&mut self) {
        for ghost in self.ghosts.values_mut() {
            while let Some(event) = ghost.poll_event() {
                self.ghost_established |= matches!(event, Event::Connected);
            }
        }
    }

    fn poll_events(&mut self, now: Time, handle: Handle) {
        let Some(connection) = self.connections.get_mut(&handle) else { return };
        while let Some(event) = connection.poll_event() {
            match event {
                Event::Connected => {
                    self.connected_at.get_or_insert(now);
                    self.endpoint.established(handle);
                }
                Event::Writable => self.writable = true,
                Event::Finished => {
                    self.finished_at.get_or_insert(now);
                }
                Event::Closed(error) => self.closed = Some(error),
                _ => {}
            }
        }
    }

    fn write(&mut self, now: Time) {
        let Some(connection) = self.main.and_then(|handle| self.connections.get_mut(&handle)) else { return };
        if self.closed.is_some() {
            return;
        }
        let mut progress = false;
        while self.writable && self.written < self.job.send_bytes {
            let rest = usize::try_from(self.job.send_bytes - self.written).unwrap_or(usize::MAX);
            let length = rest.min(self.job.write_bytes).min(self.buffer.len());
            self.pattern.fill(self.written, &mut self.buffer[..length]);
            let Ok(taken) = connection.write(now, &self.buffer[..length]) else { return };
            self.written += taken as u64;
            progress = true;
            self.writable = taken == length;
        }
        if self.written < self.job.send_bytes {
            return;
        }
        let state = connection.state();
        let unshut = matches!(state, State::SynSent | State::SynReceived | State::Established | State::CloseWait);
        if self.job.shut_down && unshut && self.closed.is_none() && (progress || state != State::SynReceived) {
            connection.shutdown(now);
        }
    }

    fn read(&mut self, now: Time) {
        let Some(connection) = self.main.and_then(|handle| self.connections.get_mut(&handle)) else { return };
        if self.read_end || now < self.next_read {
            return;
        }
        let mut budget = self.job.read_bytes;
        while budget > 0 {
            let length = budget.min(self.buffer.len());
            match connection.read(now, &mut self.buffer[..length]) {
                Ok(Read::Bytes(n)) => {
                    let wrong = self.peer_pattern.first_difference(self.read, &self.buffer[..n]);
                    self.corrupt_at = self.corrupt_at.or(wrong);
                    self.read += n as u64;
                    budget -= n;
                }
                Ok(Read::Blocked) => break,
                Ok(Read::End) => {
                    self.read_end = true;
                    return;
                }
                Err(error) => {
                    self.read_error.get_or_insert(error);
                    return;
                }
            }
        }
        if !self.job.read_every.is_zero() {
            self.next_read = now + self.job.read_every;
        }
    }

    /// When the application wants to read next, if it does so by the clock and something is there.
    pub(crate) fn next_read(&self) -> Option<Time> {
        let readable = self.connection().is_some_and(Connection::is_readable);
        (!self.job.read_every.is_zero() && readable && !self.read_end && !self.dead).then_some(self.next_read)
    }
}
