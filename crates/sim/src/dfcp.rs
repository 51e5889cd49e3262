//! End that runs DFCP's own code, with an application that by default writes or reads as fast as it can.
//!
//! The test code in `tests/testkit` is not used here, for two reasons. The command `dfcp lab` runs this crate, which
//! must not depend on test code. With symbols that are only counted ([`Counting`](crate::Counting)), a packet is larger
//! than its bytes ([`Transmit::virtual_bytes`](dfcp_proto::Transmit::virtual_bytes)), and all data read is zero, so a
//! test could not check it.

use std::net::SocketAddr;

use dfcp_netem::Ecn;
use dfcp_proto::{
    Accept, Config, ConfigError, ConnectError, Connection, ConnectionError, Endpoint, Event, Handle, Origin, Profile,
    Rate, Read, Routed, State, Stats, StreamError, StreamEvent, StreamId,
};
use dfcp_time::Time;

use crate::behaviour::{Behaviour, Clock, Demand, Meter};
use crate::endpoint::{RECEIVER, SENDER, numbered, seed32};
use crate::lie::Lie;
use crate::messages::{MessageApplication, Messages, MessagesError, Received, Sent};

/// Configuration of both ends.
#[derive(Clone, Debug)]
pub struct DfcpConfig {
    /// Configuration of the sender, which opens the connection.
    pub sender: Config,
    /// Configuration of the receiver, which must have the same profile as the sender.
    pub receiver: Config,
    /// Applications, clocks and false reports of the ends.
    pub behaviour: Behaviour,
    /// Messages sent instead of a stream, or in addition to it; `None` for a stream alone.
    pub messages: Option<Messages>,
}

impl DfcpConfig {
    /// Uses the same configuration at both ends.
    #[must_use]
    pub fn both(config: Config) -> Self {
        Self { sender: config.clone(), receiver: config, behaviour: Behaviour::default(), messages: None }
    }

    /// Sets the behaviour of the ends.
    #[must_use]
    pub fn with_behaviour(self, behaviour: Behaviour) -> Self {
        Self { behaviour, ..self }
    }

    /// Sets the messages, and permits messages at both ends.
    #[must_use]
    pub fn with_messages(self, messages: Messages) -> Self {
        let Self { sender, receiver, .. } = self;
        let (sender, receiver) = (sender.with_messages(true), receiver.with_messages(true));
        Self { sender, receiver, messages: Some(messages), ..self }
    }

    /// Checks the messages, if there are any, for a flow of `bytes`.
    pub(crate) fn validate_messages(&self, bytes: Option<u64>) -> Result<(), MessagesError> {
        let Some(messages) = &self.messages else { return Ok(()) };
        messages.validate_dfcp()?;
        if bytes.is_some() {
            return Err(MessagesError::Sized);
        }
        if self.sender.profile == Profile::Classic {
            return Err(MessagesError::Classic);
        }
        Ok(())
    }
}

/// Application that uses an end's stream.
#[derive(Debug)]
enum Application {
    /// Writes `left` more bytes (`None`: without end), then shuts the stream down.
    Write { left: Option<u64>, is_writable: bool, demand: Option<Meter> },
    /// Reads the stream and counts its bytes.
    Read { bytes: u64, limit: Option<Meter> },
}

/// One end of a DFCP flow.
#[derive(Debug)]
pub struct DfcpEnd {
    endpoint: Endpoint,
    remote: SocketAddr,
    /// Configuration of the connection that is opened at the first timeout; `None` once it is open.
    opens: Option<Config>,
    connection: Option<(Handle, Connection)>,
    application: Application,
    messages: Option<MessageApplication>,
    clock: Clock,
    lie: Option<Lie>,
    overhead_bytes: u32,
    waits_for_uplink: bool,
    /// Reply of the endpoint outside of any connection, with the number of its destination address.
    reply: Option<(Vec<u8>, u16)>,
    sends_to: u16,
    /// Error that ended the connection; `None` after an orderly close.
    ended_by: Option<ConnectionError>,
    failure: Option<ConnectError>,
}

/// Maximum length of a datagram, bytes.
const DATAGRAM_BYTES_MAX: usize = 1_500;

impl DfcpEnd {
    /// Creates both ends of a flow of `bytes`. The caller has checked the [messages](DfcpConfig::validate_messages).
    pub(crate) fn pair(config: DfcpConfig, bytes: Option<u64>, seed: u64) -> Result<[Self; 2], ConfigError> {
        let DfcpConfig { sender, receiver, behaviour, messages } = config;
        sender.validate()?;
        receiver.validate()?;
        let accept = match receiver.profile {
            Profile::Classic => Accept { classic: Some(receiver.clone()), ..Accept::default() },
            Profile::Modern => Accept { modern: Some(receiver.clone()), ..Accept::default() },
        };
        let base = |endpoint, remote, config: &Config, application| Self {
            endpoint,
            remote: SocketAddr::from(remote),
            opens: None,
            connection: None,
            application,
            messages: None,
            clock: Clock::default(),
            lie: None,
            overhead_bytes: config.overhead_bytes,
            waits_for_uplink: config.rate == Rate::Line,
            reply: None,
            sends_to: 0,
            ended_by: None,
            failure: None,
        };
        // If only messages are sent, the stream stays open and unused.
        let is_silent = messages.is_some_and(|messages| !messages.beside_stream);
        let demand = if is_silent { Some(Demand::NONE) } else { behaviour.demand };
        let write = Application::Write { left: bytes, is_writable: true, demand: demand.map(Meter::new) };
        let read = Application::Read { bytes: 0, limit: behaviour.read_bps.map(Meter::at_rate) };
        let caller = base(Endpoint::new(SENDER.1, None, seed32(seed, 1)), RECEIVER, &sender, write);
        let listener = base(Endpoint::new(RECEIVER.1, Some(accept), seed32(seed, 2)), SENDER, &receiver, read);
        let clock = Clock::new(behaviour.clock_ppm);
        let [sends, receives] = messages.map_or([None, None], |messages| MessageApplication::pair(messages).map(Some));
        Ok([
            Self { opens: Some(sender), messages: sends, ..caller },
            Self { waits_for_uplink: false, clock, lie: behaviour.lie, messages: receives, ..listener },
        ])
    }

    /// Returns the counters of the connection.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.connection.as_ref().map(|(_, connection)| connection.stats()).unwrap_or_default()
    }

    /// Returns the number of blocks that are not acknowledged yet.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        self.connection.as_ref().map_or(0, |(_, connection)| connection.blocks_in_flight())
    }

    /// Returns the length of the headers below DFCP in each packet, bytes: 20 over IP, 28 over UDP.
    #[must_use]
    pub fn overhead_bytes(&self) -> u32 {
        self.overhead_bytes
    }

    pub(crate) fn handle_datagram(&mut self, now: Time, from: u16, ecn: Ecn, datagram: &mut [u8], buffer: &mut [u8]) {
        let shown = self.clock.shows(now);
        let ecn = match ecn {
            Ecn::NotEct => dfcp_proto::Ecn::NotCapable,
            Ecn::Ect0 | Ecn::Ect1 => dfcp_proto::Ecn::Capable,
            Ecn::Ce => dfcp_proto::Ecn::CongestionExperienced,
        };
        match self.endpoint.handle_datagram(
            shown,
            numbered(self.remote, from),
            datagram,
            &mut buffer[..DATAGRAM_BYTES_MAX],
        ) {
            Routed::Connection(handle, remote) => {
                if let Some((_, connection)) = self.connection.as_mut().filter(|(own, _)| *own == handle) {
                    connection.handle_datagram(shown, Origin { remote, ecn }, datagram);
                }
            }
            Routed::Opened(handle, connection) if self.connection.is_none() => {
                self.connection = Some((handle, connection));
            }
            Routed::Reply(length) => self.reply = Some((buffer[..length].to_vec(), from)),
            _ => {}
        }
        self.work(now, shown, buffer);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time, buffer: &mut [u8]) {
        let shown = self.clock.shows(now);
        if let Some(config) = self.opens.take() {
            match self.endpoint.connect(shown, self.remote, config) {
                Ok((handle, connection)) => self.connection = Some((handle, connection)),
                Err(error) => self.failure = Some(error),
            }
        }
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(shown);
        }
        self.work(now, shown, buffer);
    }

    /// Writes the next datagram into `buffer`. Returns the datagram's length, and size and ECN codepoint of its IP
    /// packet.
    pub(crate) fn poll_transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<(usize, u32, Ecn)> {
        let now = self.clock.shows(now);
        let (length, virtual_bytes, is_capable) = if let Some((reply, to)) = self.reply.take() {
            self.sends_to = to;
            buffer[..reply.len()].copy_from_slice(&reply);
            (reply.len(), 0, false)
        } else {
            let (_, connection) = self.connection.as_mut()?;
            let transmit = connection.poll_transmit(now, &mut buffer[..DATAGRAM_BYTES_MAX])?;
            self.sends_to = transmit.remote.port().wrapping_sub(self.remote.port());
            if let Some(lie) = self.lie {
                lie.tell(buffer, transmit.length);
            }
            (transmit.length, transmit.virtual_bytes, transmit.ecn == dfcp_proto::Ecn::Capable)
        };
        let ecn = if is_capable { Ecn::Ect0 } else { Ecn::NotEct };
        Some((length, length as u32 + virtual_bytes + self.overhead_bytes, ecn))
    }

    /// Returns the number of the destination address of the last polled datagram.
    pub(crate) fn sends_to(&self) -> u16 {
        self.sends_to
    }

    pub(crate) fn next_timeout(&self, now: Time) -> Option<Time> {
        if self.reply.is_some() || self.opens.is_some() {
            return Some(now);
        }
        let (_, connection) = self.connection.as_ref()?;
        let of_connection = connection.next_timeout(self.clock.shows(now)).map(|(at, _)| at);
        let next = of_connection.into_iter().chain(self.next_piece(connection)).min();
        let next_message = self.messages.as_ref().and_then(MessageApplication::next_at);
        next.map(|at| self.clock.time_of(at)).into_iter().chain(next_message).min()
    }

    /// Returns the time of the next write or read by an application that is slower than the connection.
    fn next_piece(&self, connection: &Connection) -> Option<Time> {
        match self.application {
            Application::Write { left, is_writable, demand } => {
                demand.filter(|_| is_writable && left != Some(0))?.next()
            }
            Application::Read { limit, .. } => limit.filter(|_| connection.is_readable(StreamId::FIRST))?.next(),
        }
    }

    pub(crate) fn waits_for_uplink(&self) -> bool {
        self.waits_for_uplink
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        let of_messages = self.messages.as_ref().map_or(0, MessageApplication::delivered_bytes);
        match self.application {
            Application::Write { .. } => 0,
            Application::Read { bytes, .. } => bytes + of_messages,
        }
    }

    pub(crate) fn messages_sent(&self, now: Time) -> Option<Sent> {
        self.messages.as_ref()?.sent(now, self.stats().messages_sent.datagrams)
    }

    pub(crate) fn messages_received(&self, now: Time) -> Option<Received> {
        self.messages.as_ref()?.received(now, self.stats().messages_received.late)
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.connection.as_ref().is_some_and(|(_, connection)| connection.is_drained())
    }

    pub(crate) fn failure(&self) -> Option<String> {
        let failed = self.failure.as_ref().map(ToString::to_string);
        failed.or_else(|| self.ended_by.as_ref().map(ToString::to_string))
    }

    /// Lets the application and the messages proceed. `shown` is the time on this end's clock.
    fn work(&mut self, now: Time, shown: Time, buffer: &mut [u8]) {
        self.work_on_stream(shown, buffer);
        if let (Some(messages), Some((_, connection))) = (&mut self.messages, &mut self.connection) {
            messages.work(now, shown, connection, buffer);
        }
    }

    fn work_on_stream(&mut self, now: Time, buffer: &mut [u8]) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_event() {
            match (event, &mut self.application) {
                (Event::Connected, _) => self.endpoint.established(*handle),
                (Event::Closed(error), _) => self.ended_by = error,
                _ => {}
            }
        }
        while let Some(event) = connection.streams().poll_event() {
            if let (StreamEvent::Writable(StreamId::FIRST), Application::Write { is_writable, .. }) =
                (event, &mut self.application)
            {
                *is_writable = true;
            }
        }
        match &mut self.application {
            Application::Write { left, is_writable, demand } => {
                while *is_writable && *left != Some(0) {
                    let there = demand.as_mut().map_or(u64::MAX, |demand| demand.left(now));
                    let most = there.min(left.unwrap_or(u64::MAX)).min(buffer.len() as u64) as usize;
                    if most == 0 {
                        break;
                    }
                    let Ok(taken) = connection.streams().write(now, StreamId::FIRST, &buffer[..most]) else { break };
                    *is_writable = taken == most;
                    if let Some(demand) = demand {
                        demand.use_up(taken as u64);
                    }
                    if let Some(left) = left {
                        *left -= taken as u64;
                    }
                }
                let unshut = matches!(connection.state(), State::Established | State::SynSent);
                if *left == Some(0) && unshut {
                    connection.streams().finish(now, StreamId::FIRST);
                }
            }
            Application::Read { bytes, limit } => {
                while connection.is_readable(StreamId::FIRST) {
                    let most = limit.as_mut().map_or(u64::MAX, |limit| limit.left(now)).min(buffer.len() as u64);
                    if most == 0 {
                        break;
                    }
                    match connection.streams().read(now, StreamId::FIRST, &mut buffer[..most as usize]) {
                        Ok(Read::Bytes(count)) => {
                            *bytes += count as u64;
                            if let Some(limit) = limit {
                                limit.use_up(count as u64);
                            }
                        }
                        Err(StreamError::Connection(error)) => {
                            self.ended_by.get_or_insert(error);
                            break;
                        }
                        Ok(Read::Blocked | Read::End) | Err(_) => break,
                    }
                }
            }
        }
    }
}
