//! One end: an endpoint, its connections, and applications which write and check patterns. Everything which the driver
//! does to `dfcp-proto` goes through here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{
    Accept, Config, Connection, DATAGRAM_BUFFER_BYTES, Endpoint, Event, Handle, Parameter, Rate, Read, Routed, State,
    Traffic,
};
use dfcp_time::Time;

use crate::input::{Input, pattern_byte};

/// Datagrams which an interface takes before it must be asked again a little later: what makes the rate `Line` finite.
const BURST_MAX: usize = 32;
/// How much later.
const BURST_PAUSE: Duration = Duration::from_micros(400);
/// Attempts to serve a timer at one instant, after which it counts as stuck.
const TIMER_ATTEMPTS_MAX: usize = 8;
/// Connections which one end has at most, the late copies' attempts included: bounds the driver, not the code under test.
const CONNECTIONS_MAX: usize = 24;

/// A datagram on its way to `to`.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Whom it is for.
    pub to: SocketAddr,
    /// The datagram.
    pub bytes: Vec<u8>,
}

/// A connection with its application.
#[derive(Debug)]
pub struct Stream {
    /// The code under test.
    pub connection: Connection,
    /// Bytes which it took to be sent.
    pub written: u64,
    /// Bytes which it delivered.
    pub read: u64,
    /// The peer's stream has ended, or the connection has.
    pub read_over: bool,
}

/// One end.
#[derive(Debug)]
pub struct Side {
    endpoint: Endpoint,
    /// Its own address.
    pub address: SocketAddr,
    streams: BTreeMap<Handle, Stream>,
    /// The first connection, which the input acts on; it stays here when it is over.
    pub main: Option<Handle>,
    main_is_over: bool,
    pattern: u64,
    peer_pattern: u64,
    /// The most that any of its connections has taken.
    pub written_max: u64,
    /// The most that any of its connections has delivered.
    pub read_max: u64,
    /// All that its connections have delivered.
    pub read_total: u64,
    /// Whether what is delivered is compared with what the peer writes.
    pub is_checked: bool,
    /// The input has set a rate or a token bucket at which the rest of a story may take for ever.
    pub is_throttled: bool,
    next_transmit: Time,
    buffer: Vec<u8>,
}

impl Side {
    /// An end at `address` which writes the stream of `pattern` on each of its connections and expects the peer's.
    #[must_use]
    pub fn new(address: SocketAddr, accept: Option<Accept>, pattern: u64, peer_pattern: u64) -> Self {
        Self {
            endpoint: Endpoint::new(address.port(), accept, [pattern as u8; 32]),
            address,
            streams: BTreeMap::new(),
            main: None,
            main_is_over: false,
            pattern,
            peer_pattern,
            written_max: 0,
            read_max: 0,
            read_total: 0,
            is_checked: true,
            is_throttled: false,
            next_transmit: Time::ZERO,
            buffer: vec![0; DATAGRAM_BUFFER_BYTES],
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self, now: Time, remote: SocketAddr, config: Config) {
        let (handle, connection) = self.endpoint.connect(now, remote, config).expect("the configuration is valid");
        self.adopt(handle, connection);
    }

    fn adopt(&mut self, handle: Handle, connection: Connection) {
        self.main.get_or_insert(handle);
        self.streams.insert(handle, Stream { connection, written: 0, read: 0, read_over: false });
    }

    /// The main connection, until it is over.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        self.streams.get(&self.main?).filter(|_| !self.main_is_over)
    }

    fn stream_mut(&mut self) -> Option<&mut Stream> {
        self.streams.get_mut(&self.main?).filter(|_| !self.main_is_over)
    }

    /// Whether the main connection existed and has ended, in order or not.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.main.is_some() && self.stream().is_none_or(|stream| stream.connection.state() == State::Closed)
    }

    /// Whether the main connection's application has read the end of the peer's stream.
    #[must_use]
    pub fn has_read_all(&self) -> bool {
        self.stream().is_some_and(|stream| stream.read_over)
    }

    /// A datagram comes from `from`; an answer which needs no connection is appended to `out`.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8], out: &mut Vec<Outgoing>) {
        let mut reply = [0; DATAGRAM_BUFFER_BYTES];
        match self.endpoint.handle_datagram(now, from, datagram, &mut reply) {
            Routed::Connection(handle, from) => {
                if let Some(stream) = self.streams.get_mut(&handle) {
                    stream.connection.handle_datagram(now, from, &mut datagram.to_vec());
                }
            }
            Routed::Opened(handle, _) if self.streams.len() >= CONNECTIONS_MAX => self.endpoint.forget(handle),
            Routed::Opened(handle, connection) => self.adopt(handle, connection),
            Routed::Reply(length) => out.push(Outgoing { to: from, bytes: reply[..length].to_vec() }),
            _ => {}
        }
    }

    /// Serves timers and events at `now`, and appends what is to be sent to `out`. Panics if a timer is due which
    /// nothing serves: a real program would spin.
    pub fn work(&mut self, now: Time, out: &mut Vec<Outgoing>) {
        for attempt in 0.. {
            self.serve(now);
            let drained = self.transmit(now, out);
            let due = self.next_timeout(now).filter(|&at| at <= now && drained);
            if due.is_none() {
                break;
            }
            assert!(attempt < TIMER_ATTEMPTS_MAX, "a timer is due and nothing serves it: {:?}", self.streams);
        }
    }

    fn serve(&mut self, now: Time) {
        let mut over = Vec::new();
        for (&handle, stream) in &mut self.streams {
            stream.connection.handle_timeout(now);
            while let Some(event) = stream.connection.poll_event() {
                if event == Event::Connected {
                    self.endpoint.established(handle);
                }
            }
            let closed = stream.connection.state() == State::Closed;
            if closed && stream.connection.next_timeout(now).is_none() {
                over.push(handle);
            }
        }
        for handle in over {
            self.read_from(now, handle, usize::MAX);
            self.streams.remove(&handle);
            self.endpoint.forget(handle);
            self.main_is_over |= self.main == Some(handle);
        }
    }

    /// `false` if the interface was full first.
    fn transmit(&mut self, now: Time, out: &mut Vec<Outgoing>) -> bool {
        if self.next_transmit > now {
            return false;
        }
        let mut room = BURST_MAX;
        for stream in self.streams.values_mut() {
            while let Some(sent) = stream.connection.poll_transmit(now, &mut self.buffer) {
                out.push(Outgoing { to: sent.remote, bytes: self.buffer[..sent.length].to_vec() });
                room -= 1;
                if room == 0 {
                    self.next_transmit = now + BURST_PAUSE;
                    return false;
                }
            }
        }
        true
    }

    /// When it must be asked again.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        let earliest = self.streams.values().filter_map(|stream| stream.connection.next_timeout(now)).min();
        earliest.map(|at| if at <= now { at.max(self.next_transmit) } else { at })
    }

    /// Lets the main connection's application write up to `length` bytes.
    pub fn write(&mut self, now: Time, length: usize) {
        let pattern = self.pattern;
        let Some(stream) = self.stream_mut() else { return };
        let data: Vec<u8> =
            (stream.written..stream.written + length as u64).map(|at| pattern_byte(pattern, at)).collect();
        let Ok(taken) = stream.connection.write(now, &data) else { return };
        assert!(taken <= length);
        stream.written += taken as u64;
        let written = stream.written;
        self.written_max = self.written_max.max(written);
    }

    /// Reads up to `length` bytes from every connection, and compares them.
    pub fn read(&mut self, now: Time, length: usize) {
        let handles: Vec<Handle> = self.streams.keys().copied().collect();
        for handle in handles {
            self.read_from(now, handle, length);
        }
    }

    fn read_from(&mut self, now: Time, handle: Handle, length: usize) {
        let Some(stream) = self.streams.get_mut(&handle) else { return };
        let mut left = length;
        let mut out = [0; 4096];
        while left > 0 && !stream.read_over {
            let room = left.min(out.len());
            match stream.connection.read(now, &mut out[..room]) {
                Ok(Read::Bytes(count)) => {
                    assert!((1..=room).contains(&count));
                    for (at, &byte) in (stream.read..).zip(&out[..count]) {
                        let right = !self.is_checked || byte == pattern_byte(self.peer_pattern, at);
                        assert!(right, "byte {at} is not the one that was written");
                    }
                    stream.read += count as u64;
                    self.read_total += count as u64;
                    left -= count;
                }
                Ok(Read::Blocked) => break,
                Ok(Read::End) | Err(_) => stream.read_over = true,
            }
        }
        self.read_max = self.read_max.max(stream.read);
    }

    /// What the main connection's application may do besides.
    pub fn act(&mut self, now: Time, action: Action) {
        let Some(stream) = self.stream_mut() else { return };
        let connection = &mut stream.connection;
        match action {
            Action::Flush => connection.flush(),
            Action::ShutDown => connection.shutdown(now),
            Action::Abort => connection.abort(),
        }
    }

    /// Changes a setting of the main connection to something of the input's choice. *Coding* and *Decoding* are left
    /// alone: without them other bytes are delivered, as documented.
    pub fn set_something(&mut self, input: &mut Input<'_>) {
        let Some(stream) = self.stream_mut() else { return };
        let connection = &mut stream.connection;
        match input.below(3) {
            0 => connection.set_traffic(input.pick(&[Traffic::Bulk, Traffic::Prompt])),
            1 => {
                let rate_bps = input.number();
                let taken = connection.set_rate(Rate::Fixed { rate_bps }).is_ok();
                self.is_throttled |= taken && rate_bps < 1_000_000;
            }
            _ => {
                let parameter = input.pick(&Parameter::ALL);
                if !matches!(parameter, Parameter::Coding | Parameter::Decoding) {
                    self.is_throttled |= connection.set(parameter, input.number()).is_ok();
                }
            }
        }
    }
}

/// What an application may do besides writing and reading.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Send what has been written.
    Flush,
    /// End this half of the stream.
    ShutDown,
    /// End the connection at once.
    Abort,
}
