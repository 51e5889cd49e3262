//! End of a QUIC flow, with an application that writes or reads as fast as it can.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use dfcp_time::Time;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionStats, DatagramEvent, Dir, Endpoint, Event, Incoming,
    ReadError, StreamEvent, StreamId, WriteError,
};

use super::clock::{instant, time};
use super::identity::NAME;
use super::settings::Settings;
use super::{OVERHEAD_BYTES, QuicConfig, QuicError};
use crate::endpoint::{RECEIVER, SENDER, numbered};

/// Data of one write. Quinn walks through its unsent data piece by piece, so pieces are large. All pieces share this
/// memory.
static PIECE: [u8; 1 << 20] = [0; 1 << 20];

/// Application that uses an end's stream.
#[derive(Debug)]
enum Application {
    /// Writes `left` more bytes (`None`: without end), then finishes the stream.
    Write { stream: Option<StreamId>, left: Option<u64>, written_bytes: u64, is_confirmed: bool },
    /// Reads the stream that the sender opens.
    Read { stream: Option<StreamId>, bytes: u64 },
}

/// One end of a QUIC flow.
#[derive(Debug)]
pub struct QuicEnd {
    endpoint: Endpoint,
    remote: SocketAddr,
    /// Configuration of the connection that is opened at the first timeout; `None` once it is open.
    opens: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    application: Application,
    /// Reply of the endpoint outside of any connection, with the number of its destination address.
    reply: Option<(Vec<u8>, u16)>,
    sends_to: u16,
    next_timeout: Option<Time>,
    /// UDP payload that the connection has sent so far, bytes.
    sent_bytes: u64,
    failure: Option<String>,
}

impl QuicEnd {
    pub(crate) fn pair(config: QuicConfig, bytes: Option<u64>, seed: u64) -> Result<[Self; 2], QuicError> {
        let settings = Settings::new(config, seed, u64::MAX)?;
        let base = |endpoint, remote, application| Self {
            endpoint,
            remote: SocketAddr::from(remote),
            opens: None,
            connection: None,
            application,
            reply: None,
            sends_to: 0,
            next_timeout: None,
            sent_bytes: 0,
            failure: None,
        };
        let write = Application::Write { stream: None, left: bytes, written_bytes: 0, is_confirmed: false };
        let read = Application::Read { stream: None, bytes: 0 };
        let allows_discovery = config.mtu_discovery;
        let caller = Endpoint::new(settings.client_endpoint, None, allows_discovery, None);
        let listener = Endpoint::new(settings.server_endpoint, Some(settings.server), allows_discovery, None);
        let sender = Self { opens: Some(settings.client), ..base(caller, RECEIVER, write) };
        Ok([sender, base(listener, SENDER, read)])
    }

    /// Returns counters, window and RTT of the connection; `None` before it is opened.
    #[must_use]
    pub fn stats(&self) -> Option<ConnectionStats> {
        self.connection.as_ref().map(|(_, connection)| connection.stats())
    }

    pub(crate) fn handle_datagram(&mut self, now: Time, from: u16, datagram: &[u8]) {
        let mut reply = Vec::new();
        let datagram = BytesMut::from(datagram);
        match self.endpoint.handle(instant(now), numbered(self.remote, from), None, None, datagram, &mut reply) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((_, connection)) = self.connection.as_mut().filter(|(own, _)| *own == handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, from, incoming),
            Some(DatagramEvent::Response(_)) => self.reply = Some((reply, from)),
            None => {}
        }
        self.work(now);
    }

    fn accept(&mut self, now: Time, from: u16, incoming: Incoming) {
        if self.connection.is_some() {
            return self.endpoint.ignore(incoming);
        }
        let mut reply = Vec::new();
        match self.endpoint.accept(incoming, instant(now), &mut reply, None) {
            Ok(accepted) => self.connection = Some(accepted),
            Err(error) => {
                self.reply = error.response.map(|_| (reply, from));
                self.failure = Some(error.cause.to_string());
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if let Some(config) = self.opens.take() {
            match self.endpoint.connect(instant(now), config, self.remote, NAME) {
                Ok(opened) => self.connection = Some(opened),
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(instant(now));
        }
        self.work(now);
    }

    /// Writes the UDP payload of the next packet into `out`. Returns the size of the IP packet in bytes.
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<u32> {
        if let Some((reply, to)) = self.reply.take() {
            self.sends_to = to;
            *out = reply;
            return Some(out.len() as u32 + OVERHEAD_BYTES);
        }
        self.write();
        let (_, connection) = self.connection.as_mut()?;
        out.clear();
        let Some(transmit) = connection.poll_transmit(instant(now), 1, out) else {
            self.look_at_timers(now);
            return None;
        };
        self.sent_bytes += transmit.size as u64;
        self.sends_to = transmit.destination.port().wrapping_sub(self.remote.port());
        Some(transmit.size as u32 + OVERHEAD_BYTES)
    }

    fn look_at_timers(&mut self, now: Time) {
        let Some((_, connection)) = &mut self.connection else { return };
        // A delay below a nanosecond would be rounded to zero, and time would stand still.
        let earliest = Time::from_ns(now.as_ns().saturating_add(1));
        self.next_timeout = connection.poll_timeout().map(|at| time(at).max(earliest));
    }

    /// Returns the number of the destination address of the last polled datagram.
    pub(crate) fn sends_to(&self) -> u16 {
        self.sends_to
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next_timeout
    }

    pub(crate) fn delivered_bytes(&self) -> u64 {
        match self.application {
            Application::Write { .. } => 0,
            Application::Read { bytes, .. } => bytes,
        }
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(self.application, Application::Write { is_confirmed: true, .. })
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.clone()
    }

    /// Exchanges events between connection and endpoint, and passes events of the connection to the application.
    fn work(&mut self, now: Time) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(answer);
            }
        }
        let mut is_readable = false;
        while let Some(event) = connection.poll() {
            match (event, &mut self.application) {
                (Event::Connected, Application::Write { stream, .. }) => *stream = connection.streams().open(Dir::Uni),
                (Event::Stream(StreamEvent::Opened { dir: Dir::Uni }), Application::Read { stream, .. }) => {
                    *stream = connection.streams().accept(Dir::Uni);
                    is_readable = true;
                }
                (Event::Stream(StreamEvent::Readable { .. }), _) => is_readable = true,
                (Event::Stream(StreamEvent::Finished { .. }), Application::Write { is_confirmed, .. }) => {
                    *is_confirmed = true;
                }
                (Event::ConnectionLost { reason }, _) => self.failure = Some(reason.to_string()),
                _ => {}
            }
        }
        if is_readable {
            self.read();
        }
        // Packets are polled later, because the interface may be full now.
        self.look_at_timers(now);
    }

    /// Writes enough data that quinn always has more than it can send.
    fn write(&mut self) {
        let Application::Write { stream, left, written_bytes, .. } = &mut self.application else { return };
        let (Some(id), Some((_, connection))) = (*stream, &mut self.connection) else { return };
        while *left != Some(0) && *written_bytes < self.sent_bytes + PIECE.len() as u64 {
            let most = left.map_or(PIECE.len(), |left| left.min(PIECE.len() as u64) as usize);
            match connection.send_stream(id).write_chunks(&mut [Bytes::from_static(&PIECE[..most])]) {
                Ok(written) => {
                    *written_bytes += written.bytes as u64;
                    *left = left.map(|left| left - written.bytes as u64);
                }
                Err(WriteError::Blocked) => return,
                Err(error) => {
                    self.failure = Some(error.to_string());
                    *stream = None;
                    return;
                }
            }
        }
        if *left == Some(0) {
            *stream = None;
            if let Err(error) = connection.send_stream(id).finish() {
                self.failure = Some(error.to_string());
            }
        }
    }

    /// Reads everything that has arrived. Quinn widens its windows when `chunks` is dropped; the caller polls it
    /// afterwards, so that it sends the updates.
    fn read(&mut self) {
        let Application::Read { stream, bytes } = &mut self.application else { return };
        let (Some(id), Some((_, connection))) = (*stream, &mut self.connection) else { return };
        let mut incoming = connection.recv_stream(id);
        let mut chunks = match incoming.read(true) {
            Ok(chunks) => chunks,
            Err(error) => {
                self.failure = Some(error.to_string());
                *stream = None;
                return;
            }
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => *bytes += chunk.bytes.len() as u64,
                Err(ReadError::Blocked) => break,
                Ok(None) => {
                    *stream = None;
                    break;
                }
                Err(error) => {
                    self.failure = Some(error.to_string());
                    *stream = None;
                    break;
                }
            }
        }
    }
}
