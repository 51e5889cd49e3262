//! A connection of either profile, as seen by the code that drives it.

mod streams;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_secure::EndpointResetKey;
use dfcp_time::Time;
use dfcp_wire::classic::StateWords;
use dfcp_wire::{Outline, Profile, StreamId};

pub use self::streams::Streams;
use self::watch::Watch;
#[cfg(feature = "classic")]
use crate::classic::ClassicConnection;
use crate::config::PathHint;
use crate::config::{Config, Rate, SendBuffering, Traffic};
#[cfg(feature = "classic")]
use crate::error::ParameterError;
use crate::error::{ConfigError, ConnectionError};
use crate::identity::Identity;
use crate::path::ecn::Origin;
use crate::session::Session;
use crate::session::closed::LastWords;
use crate::session::handshake::Opener;
use crate::session::message_calls::Messages;
use crate::session::sharing::Sending;
use crate::shared::events::Event;
use crate::shared::memory::MemoryReservation;
#[cfg(feature = "classic")]
use crate::shared::parameters::Parameter;
use crate::shared::{Ports, Timer, Transmit};
use crate::spare::SpareBlocks;
use crate::state::State;
use crate::stats::Stats;
use crate::stream::send::write_turns::WriteAllowance;

/// One end of a connection.
///
/// # Run loop
///
/// Pass in each event (`handle_datagram`, `handle_timeout`, or the application's calls on [`streams`](Self::streams)
/// and [`messages`](Self::messages)). Then drain [`poll_transmit`](Self::poll_transmit),
/// [`poll_event`](Self::poll_event) and [`Streams::poll_event`] until they return `None`. Then sleep until
/// [`next_timeout`](Self::next_timeout) or the next input. Time only ever enters as an argument.
#[derive(Debug)]
pub struct Connection {
    pub(crate) inner: Inner,
    /// `None` without an observer.
    watch: Option<Box<Watch>>,
}

/// A connection of either profile. Classic and modern connections share this interface and no state.
#[derive(Debug)]
pub(crate) enum Inner {
    #[cfg(feature = "classic")]
    Classic(Box<ClassicConnection>),
    Modern(Box<Session>),
}

/// Calls the same method on a classic or a modern connection.
macro_rules! of_either {
    ($connection:expr, $inner:ident => $call:expr) => {
        match $connection {
            #[cfg(feature = "classic")]
            $crate::connection::Inner::Classic($inner) => $call,
            $crate::connection::Inner::Modern($inner) => $call,
        }
    };
}
pub(crate) use of_either;

impl Inner {
    pub(crate) fn state(&self) -> State {
        of_either!(self, it => it.state())
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        of_either!(self, it => it.remote())
    }

    pub(crate) fn stats(&self) -> Stats {
        of_either!(self, it => it.stats())
    }

    /// Returns the error that ended the connection. `None` while it is open, and after both sides have closed it.
    pub(crate) fn error(&self) -> Option<&ConnectionError> {
        of_either!(self, it => it.error())
    }

    pub(crate) fn modern_mut(&mut self) -> Option<&mut Session> {
        match self {
            #[cfg(feature = "classic")]
            Self::Classic(_) => None,
            Self::Modern(session) => Some(session),
        }
    }

    fn modern(&self) -> Option<&Session> {
        match self {
            #[cfg(feature = "classic")]
            Self::Classic(_) => None,
            Self::Modern(session) => Some(session),
        }
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.modern()?.identity()
    }

    /// Returns the connection ids of this end and of the peer. Each is `None` until known, and on classic connections.
    pub(crate) fn ids(&self) -> (Option<u32>, Option<u32>) {
        self.modern().map_or((None, None), |session| (Some(session.local_id()), session.peer_id()))
    }
}

/// A SYN that opens a plaintext connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnsealedSyn<'a> {
    /// Classic: the initiator's initial generator state.
    Classic { initial: StateWords },
    /// Modern: the connection id chosen by the initiator, and the SYN's contents.
    Modern { initiator_id: u32, syn: Opener<'a> },
}

impl From<Inner> for Connection {
    fn from(inner: Inner) -> Self {
        Self { inner, watch: None }
    }
}

#[cfg(feature = "classic")]
impl From<ClassicConnection> for Connection {
    fn from(connection: ClassicConnection) -> Self {
        Inner::Classic(Box::new(connection)).into()
    }
}

impl From<Session> for Connection {
    fn from(session: Session) -> Self {
        Box::new(session).into()
    }
}

impl From<Box<Session>> for Connection {
    fn from(session: Box<Session>) -> Self {
        Inner::Modern(session).into()
    }
}

/// An endpoint's calls on its connections.
impl Connection {
    pub(crate) fn initiate(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        seed: [u8; 32],
        reset_key: &EndpointResetKey,
    ) -> Result<Self, ConfigError> {
        #[cfg(feature = "classic")]
        if config.profile == Profile::Classic {
            return Ok(ClassicConnection::initiate(now, config, ports, remote, seed).into());
        }
        Ok(Session::initiate(now, config, ports, remote, seed, Some(reset_key))?.into())
    }

    /// Accepts a plaintext SYN of `bytes` bytes. Returns the acceptor's connection, or `None` if `config`, which has
    /// the same profile, cannot serve it.
    pub(crate) fn accept(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        syn: &UnsealedSyn<'_>,
        bytes: usize,
        seed: [u8; 32],
    ) -> Option<Self> {
        match syn {
            #[cfg(feature = "classic")]
            UnsealedSyn::Classic { initial } => {
                ClassicConnection::accept(now, config, ports, remote, *initial, bytes, seed).map(Self::from)
            }
            #[cfg(not(feature = "classic"))]
            UnsealedSyn::Classic { .. } => None,
            UnsealedSyn::Modern { syn, .. } => {
                Session::accept(now, config, ports, remote, syn, bytes, seed).map(Self::from)
            }
        }
    }

    /// Starts reporting the connection to the observer of `config`, if it has one.
    pub(crate) fn watch(&mut self, now: Time, config: &Config, opened_here: bool) {
        self.watch = Watch::begin(now, config, &self.inner, opened_here);
    }

    /// Charges received blocks to `reservation`. Must be called before the first block is received.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        of_either!(&mut self.inner, it => it.charge_to(reservation));
    }

    /// Takes memory for blocks from `spare`, and returns it there. Modern only.
    pub(crate) fn take_from(&mut self, spare: &SpareBlocks) {
        if let Some(session) = self.inner.modern_mut() {
            session.take_from(spare);
        }
    }

    /// Connection id in modern segments to this end. Classic connections have none.
    #[must_use]
    pub fn local_id(&self) -> Option<u32> {
        self.inner.ids().0
    }

    /// Checks the stream lists of a session against its streams. Takes time linear in the number of streams, so it is
    /// for tests only.
    ///
    /// # Errors
    /// The first inconsistency that is found.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn check_lists(&self) -> Result<(), String> {
        self.inner.modern().and_then(Session::find_fault).map_or(Ok(()), Err)
    }

    /// Returns the modern connection inside.
    #[cfg(test)]
    pub(crate) fn into_session(self) -> Session {
        match self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(_) => panic!("it is a classic connection"),
            Inner::Modern(session) => *session,
        }
    }
}

/// Datagrams and time.
impl Connection {
    /// Processes a datagram received from `origin` (an address or an [`Origin`]), and decrypts it in place. Invalid
    /// datagrams are dropped and counted.
    pub fn handle_datagram(&mut self, now: Time, origin: impl Into<Origin>, datagram: &mut [u8]) {
        if self.watch.is_some() {
            return self.handle_watched(now, origin.into(), datagram);
        }
        match &mut self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(connection) => connection.handle_datagram(now, datagram),
            Inner::Modern(session) => session.handle_datagram(now, origin.into(), datagram),
        };
    }

    /// Like [`handle_datagram`](Self::handle_datagram), and reports to the observer. Out of line, to keep the
    /// unobserved path short.
    #[cold]
    #[inline(never)]
    fn handle_watched(&mut self, now: Time, origin: Origin, datagram: &mut [u8]) {
        // Read the outline first: decryption changes the datagram in place.
        let outline = Outline::of(datagram).ok();
        let why = match &mut self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(connection) => connection.handle_datagram(now, datagram),
            Inner::Modern(session) => session.handle_datagram(now, origin, datagram),
        };
        if let Some(watch) = &mut self.watch {
            watch.on_received(now, (outline.as_ref(), datagram.len()), why, &self.inner);
        }
    }

    /// Call this when datagrams leave from another socket from now on, with another address or port (`spec/protocol.md`
    /// \[path-6\]). The peer is notified immediately. `is_other_host` means that the IP address has changed; all
    /// estimates of the path are then discarded. Has no effect on classic and plaintext connections, which stay bound
    /// to their first address.
    pub fn on_own_move(&mut self, now: Time, is_other_host: bool) {
        if let Some(session) = self.inner.modern_mut() {
            session.on_own_move(now, is_other_host);
        }
    }

    /// Handles expired timeouts. Datagrams that have become due are sent by `poll_transmit`.
    pub fn handle_timeout(&mut self, now: Time) {
        of_either!(&mut self.inner, it => it.handle_timeout(now));
        if let Some(watch) = &mut self.watch {
            watch.on_timeout(now, &self.inner);
        }
    }

    /// Returns the latest time for the next call of [`handle_timeout`](Self::handle_timeout) and
    /// [`poll_transmit`](Self::poll_transmit), and the timer that causes it. A time in the past means now. `None` once
    /// the connection is closed and owes the peer no RST.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        of_either!(&self.inner, it => it.next_timeout(now))
    }

    /// Writes the next datagram to send at `now` into `out`, which must hold
    /// [`DATAGRAM_BUFFER_BYTES`](crate::DATAGRAM_BUFFER_BYTES). Returns `None` if nothing can be sent before
    /// [`next_timeout`](Self::next_timeout).
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        let sent = of_either!(&mut self.inner, it => it.poll_transmit(now, out));
        if let Some(watch) = &mut self.watch {
            watch.on_transmit(now, sent.as_ref(), out, &self.inner);
        }
        sent
    }

    /// Returns the next event that concerns the whole connection. Streams have [`Streams::poll_event`].
    pub fn poll_event(&mut self) -> Option<Event> {
        of_either!(&mut self.inner, it => it.poll_event())
    }
}

/// End of the connection, and unacknowledged data.
impl Connection {
    /// Ends the connection immediately. Unsent data is lost, and an RST is sent to the peer.
    pub fn abort(&mut self) {
        of_either!(&mut self.inner, it => it.abort());
    }

    /// Like [`abort`](Self::abort), with a code for the peer's application, which gets
    /// [`ConnectionError::EndedByPeer`]. The code is not sent on classic connections, nor before the handshake is
    /// complete.
    pub fn abort_with(&mut self, error: u32) {
        match &mut self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(classic) => classic.abort(),
            Inner::Modern(session) => session.abort_with(error),
        }
    }

    /// Number of blocks that may have been sent in part or in full, and that the peer has not acknowledged.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        of_either!(&self.inner, it => it.blocks_in_flight())
    }

    /// Returns true once the peer's decoder has acknowledged all bytes written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        of_either!(&self.inner, it => it.is_drained())
    }
}

/// Streams.
impl Connection {
    /// Gives access to the streams of a modern connection, or to the single stream of a classic one.
    pub fn streams(&mut self) -> Streams<'_> {
        Streams(&mut self.inner)
    }

    /// Returns true if [`Streams::read`] would return something other than [`Read::Blocked`](crate::Read::Blocked).
    #[must_use]
    pub fn is_readable(&self, id: StreamId) -> bool {
        of_either!(&self.inner, it => it.is_readable(id))
    }
}

/// Messages.
impl Connection {
    /// Gives access to the messages of a modern connection. `None` for a classic connection.
    pub fn messages(&mut self) -> Option<Messages<'_>> {
        self.inner.modern_mut().map(Messages)
    }
}

/// Properties and statistics of the connection.
impl Connection {
    /// The connection's state, by the thesis's names (§3.6, §3.11).
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.state()
    }

    /// The profile of this connection.
    #[must_use]
    pub fn profile(&self) -> Profile {
        match &self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(_) => Profile::Classic,
            Inner::Modern(_) => Profile::Modern,
        }
    }

    /// Local and remote port.
    #[must_use]
    pub fn ports(&self) -> Ports {
        of_either!(&self.inner, it => it.ports())
    }

    /// The peer's address. It changes after the peer has moved (`spec/protocol.md`, "Paths").
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote()
    }

    /// The peer's proven identity. `None` before the handshake is complete, and in plaintext.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    /// Arrival time of the latest authenticated datagram from the peer. In plaintext: of the latest datagram that was
    /// accepted. Before the first one: the time when the connection began.
    #[must_use]
    pub fn last_heard(&self) -> Time {
        of_either!(&self.inner, it => it.last_heard())
    }

    /// Rate and RTT that the automatic rate has found on this path, for the next connection on the same path
    /// ([`Config::path_hint`]). `None` before the peer has proven them.
    #[must_use]
    pub fn path_hint(&self) -> Option<PathHint> {
        self.inner.modern()?.path_hint()
    }

    /// The RST that has been sent to the peer, for [`Endpoint::keep_last_words`](crate::Endpoint::keep_last_words).
    /// `None` before an RST is sent, and on classic connections, which only their ports identify.
    #[must_use]
    pub fn last_words(&self) -> Option<LastWords> {
        self.inner.modern()?.last_words().cloned()
    }

    /// Counters and estimates.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

/// Settings.
impl Connection {
    /// Changes the sending rate while the connection runs.
    ///
    /// # Errors
    /// If the rate is out of range. The previous rate then stays.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        of_either!(&mut self.inner, it => it.set_rate(rate))
    }

    /// Sets the bytes per packet of all headers below DFCP's on the path to the peer.
    pub fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        of_either!(&mut self.inner, it => it.set_overhead_bytes(overhead_bytes));
    }

    /// Changes the kind of traffic while the connection runs. Has no effect on classic connections.
    pub fn set_traffic(&mut self, traffic: Traffic) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_traffic(traffic);
        }
    }

    /// The parameters of thesis table 3.2.
    #[cfg(feature = "classic")]
    pub fn parameters(&mut self) -> Parameters<'_> {
        Parameters(&mut self.inner)
    }
}

/// Resources shared by connections that one driver serves. Classic connections share none: these calls have no effect
/// on them.
impl Connection {
    /// Sets the size of the receive queue, bytes: the part of the socket's buffer for datagrams of this peer, on all
    /// connections with it. 0, the default, means unknown or unlimited. The size is reported to the peer, which limits
    /// its bytes in flight to this queue and the path.
    pub fn set_receive_queue_bytes(&mut self, bytes: u64) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_receive_queue_bytes(bytes);
        }
    }

    /// Sets how far ahead of sending a modern connection accepts data from the application. Default
    /// [`SendBuffering::Deep`].
    pub fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_send_buffering(send_buffering);
        }
    }

    /// Describes the data waiting to be sent. Default values for a classic connection, and for one that is not open.
    #[must_use]
    pub fn sending(&self) -> Sending {
        self.inner.modern().map_or_else(Sending::default, Session::sending)
    }

    /// Sets how much more may be written to a modern connection. Default [`WriteAllowance::Any`]. Applications waiting
    /// for room get [`StreamEvent::Writable`](crate::StreamEvent::Writable).
    pub fn allow_writing(&mut self, allowance: WriteAllowance) {
        if let Some(session) = self.inner.modern_mut() {
            session.allow_writing(allowance);
        }
    }

    /// Sets the number of connections, this one included, that currently send to the same peer. Each of these
    /// connections is told the size of the peer's whole receive queue, and divides it by this number
    /// (`spec/protocol.md` \[plan-7\]). Default 1.
    pub fn set_queue_sharers(&mut self, sharers: usize) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_queue_sharers(sharers);
        }
    }
}

/// The parameters of thesis table 3.2 ([`Connection::parameters`]). A modern connection has only *Window size* and the
/// counters.
#[cfg(feature = "classic")]
#[derive(Debug)]
pub struct Parameters<'a>(&'a mut Inner);

#[cfg(feature = "classic")]
impl Parameters<'_> {
    /// Sets a parameter.
    ///
    /// # Errors
    /// If the table does not permit setting it, this profile lacks it, or the value is out of range. *Window size* and
    /// *Coding* of a classic connection cannot be set once the handshake is complete.
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        of_either!(self.0, it => it.set(parameter, value))
    }

    /// Reads a parameter.
    ///
    /// # Errors
    /// If the table does not permit reading it, or this profile lacks it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        of_either!(&*self.0, it => it.get(parameter))
    }
}
