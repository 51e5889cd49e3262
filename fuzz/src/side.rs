//! One end: a host, and the bytes written and read by its applications. The driver accesses `dfcp-proto` only through
//! this module.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{Accept, Config, Connection, Handle, Parameter, Rate, State, StreamId, Traffic};
use dfcp_testkit::{Host, Packet, Pattern, Received, Stream};
use dfcp_time::Time;

use crate::input::Input;
use crate::messages::SideMessages;
use crate::streams::{SideStreams, StreamAction};

/// Datagrams that an interface accepts before a pause: this makes the rate `Line` finite.
const BURST_MAX: usize = 32;
/// Pause of a full interface.
const BURST_PAUSE: Duration = Duration::from_micros(400);
/// Attempts to serve a timer at one instant. After these, the timer counts as stuck.
const TIMER_ATTEMPTS_MAX: usize = 8;
/// Maximum number of connections of one end, including those opened by late copies. Limits the driver, not the code
/// under test.
const CONNECTIONS_MAX: usize = 24;
/// Bytes that an application reads at a time.
const READ_BYTES: usize = 4096;

/// One end.
#[derive(Debug)]
pub struct Side {
    /// The code under test.
    pub host: Host,
    streams: BTreeMap<Handle, Stream>,
    /// Streams of the main connection other than the first.
    others: SideStreams,
    /// Messages of the main connection.
    pub messages: SideMessages,
    /// Handle of the first connection, on which the input acts; kept after the end of the connection.
    pub main: Option<Handle>,
    main_is_over: bool,
    own: Pattern,
    peer: Pattern,
    /// Most bytes that any connection of this end has accepted.
    pub written_max: u64,
    /// Most bytes that any connection of this end has delivered.
    pub read_max: u64,
    /// Bytes that all connections of this end have delivered.
    pub read_total: u64,
    /// True if received bytes are compared with the peer's pattern.
    pub is_checked: bool,
    /// True if the input has set a rate or a token bucket so low that the rest of a scenario may never end.
    pub is_throttled: bool,
    next_transmit: Time,
}

impl Side {
    /// Makes an end at `address` that writes the pattern `own` on each of its connections and expects the pattern
    /// `peer`.
    #[must_use]
    pub fn new(address: SocketAddr, accept: Option<Accept>, own: u64, peer: u64) -> Self {
        Self {
            host: Host::new(address, accept, [own as u8; 32]),
            streams: BTreeMap::new(),
            others: SideStreams::default(),
            messages: SideMessages::default(),
            main: None,
            main_is_over: false,
            own: Pattern(own),
            peer: Pattern(peer),
            written_max: 0,
            read_max: 0,
            read_total: 0,
            is_checked: true,
            is_throttled: false,
            next_transmit: Time::ZERO,
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self, now: Time, remote: SocketAddr, config: Config) {
        let handle = self.host.connect(now, remote, config).expect("the configuration is valid");
        self.adopt(handle);
    }

    fn adopt(&mut self, handle: Handle) {
        self.main.get_or_insert(handle);
        self.streams.insert(handle, Stream::new(self.own, self.peer));
    }

    /// The main connection and its stream, until the connection is over.
    #[must_use]
    pub fn main(&self) -> Option<(&Connection, &Stream)> {
        let handle = self.main.filter(|_| !self.main_is_over)?;
        Some((self.host.connections.get(&handle)?, self.streams.get(&handle)?))
    }

    fn main_mut(&mut self) -> Option<(&mut Connection, &mut Stream)> {
        let handle = self.main.filter(|_| !self.main_is_over)?;
        Some((self.host.connections.get_mut(&handle)?, self.streams.get_mut(&handle)?))
    }

    /// Returns true if the main connection existed and has ended, with or without an error.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.main.is_some() && self.main().is_none_or(|(connection, _)| connection.state() == State::Closed)
    }

    /// Returns true if the main connection's application has read the peer's first stream to its end.
    #[must_use]
    pub fn has_read_all(&self) -> bool {
        self.main().is_some_and(|(_, stream)| stream.is_read())
    }

    /// Processes a datagram from `from`; an answer without a connection is appended to `out`.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8], out: &mut Vec<Packet>) {
        match self.host.receive(now, from, &mut datagram.to_vec()) {
            Received::Opened(handle) if self.host.connections.len() > CONNECTIONS_MAX => self.host.forget(handle),
            Received::Opened(handle) => self.adopt(handle),
            Received::Reply(bytes) => out.push(Packet { from: self.host.address, to: from, bytes }),
            Received::Taken(_) | Received::Dropped => {}
        }
    }

    /// Serves timers and events at `now`, and appends datagrams to send to `out`. Panics if a due timer stays due when
    /// served: a real program would spin.
    pub fn work(&mut self, now: Time, out: &mut Vec<Packet>) {
        for attempt in 0.. {
            self.serve(now);
            let drained = self.transmit(now, out);
            let due = self.next_timeout(now).filter(|&at| at <= now && drained);
            if due.is_none() {
                break;
            }
            assert!(attempt < TIMER_ATTEMPTS_MAX, "a timer is due and nothing serves it: {:?}", self.host.connections);
        }
    }

    fn serve(&mut self, now: Time) {
        self.host.handle_timeout(now);
        for handle in self.handles() {
            while self.host.poll_event(handle).is_some() {}
            if self.host.is_over(now, handle) {
                self.read_from(now, handle, usize::MAX);
                self.streams.remove(&handle);
                self.host.forget(handle);
                self.main_is_over |= self.main == Some(handle);
            }
        }
    }

    fn handles(&self) -> Vec<Handle> {
        self.host.connections.keys().copied().collect()
    }

    /// Appends datagrams to send; returns `false` if the interface became full before the last one.
    fn transmit(&mut self, now: Time, out: &mut Vec<Packet>) -> bool {
        if self.next_transmit > now {
            return false;
        }
        let before = out.len();
        out.extend(std::iter::from_fn(|| self.host.transmit(now)).take(BURST_MAX));
        let is_full = out.len() - before == BURST_MAX;
        if is_full {
            self.next_transmit = now + BURST_PAUSE;
        }
        !is_full
    }

    /// Time at which this end must be served again.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        self.host.next_timeout(now).map(|at| if at <= now { at.max(self.next_transmit) } else { at })
    }

    /// Lets the main connection's application write up to `length` bytes.
    pub fn write(&mut self, now: Time, length: usize) {
        let Some((connection, stream)) = self.main_mut() else { return };
        if stream.write(now, connection, &mut vec![0; length]).is_err() {
            return;
        }
        let written = stream.written;
        self.written_max = self.written_max.max(written);
    }

    /// Reads up to `length` bytes from every connection, and compares them.
    pub fn read(&mut self, now: Time, length: usize) {
        for handle in self.handles() {
            self.read_from(now, handle, length);
        }
    }

    fn read_from(&mut self, now: Time, handle: Handle, length: usize) {
        let Some(stream) = self.streams.get_mut(&handle) else { return };
        let Some(connection) = self.host.connections.get_mut(&handle) else { return };
        let before = stream.read;
        let mut left = length;
        let mut out = [0; READ_BYTES];
        while left > 0 {
            let room = left.min(out.len());
            let count = stream.read(now, connection, &mut out[..room]);
            if count == 0 {
                break;
            }
            left -= count;
        }
        if let Some(at) = stream.corrupt_at.filter(|_| self.is_checked) {
            panic!("byte {at} is not the one that was written");
        }
        self.read_total += stream.read - before;
        self.read_max = self.read_max.max(stream.read);
    }

    /// Performs an action of the main connection's application other than writing or reading.
    pub fn act(&mut self, now: Time, action: Action) {
        let Some((connection, _)) = self.main_mut() else { return };
        match action {
            Action::Flush => connection.streams().flush(StreamId::FIRST),
            Action::ShutDown => connection.streams().finish(now, StreamId::FIRST),
            Action::Abort => connection.abort(),
        }
    }

    /// Performs an action of the main connection's application on a stream other than the first.
    pub fn act_on_stream(&mut self, now: Time, action: StreamAction, input: &mut Input<'_>) {
        let Some(handle) = self.main.filter(|_| !self.main_is_over) else { return };
        let Some(connection) = self.host.connections.get_mut(&handle) else { return };
        let patterns = (self.own, Some(self.peer).filter(|_| self.is_checked));
        self.others.act(now, connection, action, patterns, input);
    }

    /// Lets the main connection's application send a message.
    pub fn send_message(&mut self, now: Time, input: &mut Input<'_>) {
        let Some(handle) = self.main.filter(|_| !self.main_is_over) else { return };
        if let Some(connection) = self.host.connections.get_mut(&handle) {
            self.messages.send(now, connection, input);
        }
    }

    /// Lets the main connection's application read all messages of `peer` that have arrived.
    pub fn receive_messages(&mut self, peer: &SideMessages) {
        let Some(handle) = self.main.filter(|_| !self.main_is_over) else { return };
        if let Some(connection) = self.host.connections.get_mut(&handle) {
            self.messages.receive(connection, peer);
        }
    }

    /// Ends all streams of the main connection except the first one, so that the connection can end.
    pub fn end_streams(&mut self, now: Time) {
        let Some(handle) = self.main.filter(|_| !self.main_is_over) else { return };
        if let Some(connection) = self.host.connections.get_mut(&handle) {
            self.others.end(now, connection);
        }
    }

    /// Sets a random setting of the main connection to a value from the input. *Coding* and *Decoding* stay unchanged:
    /// without them other bytes are delivered, as documented.
    pub fn set_something(&mut self, input: &mut Input<'_>) {
        let Some((connection, _)) = self.main_mut() else { return };
        match input.below(3) {
            0 => connection.set_traffic(input.pick(&[Traffic::Bulk, Traffic::LowLatency])),
            1 => {
                let rate_bps = input.number();
                let taken = connection.set_rate(Rate::Fixed { rate_bps }).is_ok();
                self.is_throttled |= taken && rate_bps < 1_000_000;
            }
            _ => {
                let parameter = input.pick(&Parameter::ALL);
                if !matches!(parameter, Parameter::Coding | Parameter::Decoding) {
                    self.is_throttled |= connection.parameters().set(parameter, input.number()).is_ok();
                }
            }
        }
    }
}

/// Action of an application other than writing or reading.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Send the written bytes.
    Flush,
    /// End this half of the stream.
    ShutDown,
    /// End the connection immediately.
    Abort,
}
