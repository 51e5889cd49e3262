//! One connection of either profile, as its driver sees it.

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
/// Hand in what happened (`handle_datagram`, `handle_timeout`, or the application's calls on [`streams`](Self::streams) and
/// [`messages`](Self::messages)), then drain [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event) and
/// [`Streams::poll_event`] until they return `None`, then sleep until [`next_timeout`](Self::next_timeout) or the next input.
/// Time only ever enters as an argument.
#[derive(Debug)]
pub struct Connection {
    pub(crate) inner: Inner,
    /// `None` without an observer.
    watch: Option<Box<Watch>>,
}

/// The profiles have nothing in common but this interface.
#[derive(Debug)]
pub(crate) enum Inner {
    #[cfg(feature = "classic")]
    Classic(Box<ClassicConnection>),
    Modern(Box<Session>),
}

/// Calls the same method of whichever profile it is.
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

    /// Why it is over, unless it is not or both sides closed it.
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

    /// The ids of this end and of the peer, as far as they are known.
    pub(crate) fn ids(&self) -> (Option<u32>, Option<u32>) {
        self.modern().map_or((None, None), |session| (Some(session.local_id()), session.peer_id()))
    }
}

/// A SYN which asks for a connection without seals.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnsealedSyn<'a> {
    /// Classic: the generator state of the initiator's.
    Classic { initial: StateWords },
    /// Modern: the id which the initiator has chosen, and all of its SYN.
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

    /// Answers an unsealed SYN of this many bytes: the connection that the listening side gets. `None` if `config`, which is
    /// of the same profile, cannot serve it.
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

    /// Lets the observer of `config`, if it has one, watch the connection from now on.
    pub(crate) fn watch(&mut self, now: Time, config: &Config, opened_here: bool) {
        self.watch = Watch::begin(now, config, &self.inner, opened_here);
    }

    /// Received blocks are charged to `reservation`. To be called before the first one comes.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        of_either!(&mut self.inner, it => it.charge_to(reservation));
    }

    /// Memory of modern blocks comes from `spare`, and goes back to it.
    pub(crate) fn take_from(&mut self, spare: &SpareBlocks) {
        if let Some(session) = self.inner.modern_mut() {
            session.take_from(spare);
        }
    }

    /// The id that modern segments to this end carry; a classic connection has none.
    #[must_use]
    pub fn local_id(&self) -> Option<u32> {
        self.inner.ids().0
    }

    /// Compares the lists of a session's streams with the streams, which takes as long as there are many: for tests.
    ///
    /// # Errors
    /// The first fault that is found.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn check_lists(&self) -> Result<(), String> {
        self.inner.modern().and_then(Session::find_fault).map_or(Ok(()), Err)
    }

    /// The modern connection inside.
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
    /// Takes in a datagram which came from `origin`, an address or an [`Origin`], and decrypts it in place. Everything invalid is
    /// dropped and counted.
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

    /// As [`handle_datagram`](Self::handle_datagram), and tells of it. Apart from what is on the way of every datagram.
    #[cold]
    #[inline(never)]
    fn handle_watched(&mut self, now: Time, origin: Origin, datagram: &mut [u8]) {
        // It is decrypted in place, and its header tells what it is.
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

    /// Tells that its datagrams leave from another socket from now on, with another address or port (`spec/protocol.md` \[path-6\]): the peer
    /// hears of it at once. With `is_other_host` nothing that was known of the path is kept. A classic connection, and one without seals,
    /// stays with its peer at the address that it began with.
    pub fn on_own_move(&mut self, now: Time, is_other_host: bool) {
        if let Some(session) = self.inner.modern_mut() {
            session.on_own_move(now, is_other_host);
        }
    }

    /// Lets time pass: timeouts end what must end. What is due to be sent, `poll_transmit` sends.
    pub fn handle_timeout(&mut self, now: Time) {
        of_either!(&mut self.inner, it => it.handle_timeout(now));
        if let Some(watch) = &mut self.watch {
            watch.on_timeout(now, &self.inner);
        }
    }

    /// Latest time for the next call of [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit), with its
    /// reason; a time in the past means now. `None` once the connection is closed and owes the peer no RST.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        of_either!(&self.inner, it => it.next_timeout(now))
    }

    /// Writes the next datagram to send at `now` into `out`, which must hold
    /// [`DATAGRAM_BUFFER_BYTES`](crate::DATAGRAM_BUFFER_BYTES); `None` if there is nothing to send before
    /// [`next_timeout`](Self::next_timeout).
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        let sent = of_either!(&mut self.inner, it => it.poll_transmit(now, out));
        if let Some(watch) = &mut self.watch {
            watch.on_transmit(now, sent.as_ref(), out, &self.inner);
        }
        sent
    }

    /// The next event of the connection as a whole, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        of_either!(&mut self.inner, it => it.poll_event())
    }
}

/// Its end, and what is on its way.
impl Connection {
    /// Ends the connection at once: what is unsent is lost, and the peer is told by an RST.
    pub fn abort(&mut self) {
        of_either!(&mut self.inner, it => it.abort());
    }

    /// As [`abort`](Self::abort), with a code for the peer's application, which gets [`ConnectionError::EndedByPeer`]. It is not told
    /// the code by a classic connection, nor before the handshake is done.
    pub fn abort_with(&mut self, error: u32) {
        match &mut self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(classic) => classic.abort(),
            Inner::Modern(session) => session.abort_with(error),
        }
    }

    /// Blocks of which something may have been sent and which the peer has not acknowledged.
    #[must_use]
    pub fn blocks_in_flight(&self) -> usize {
        of_either!(&self.inner, it => it.blocks_in_flight())
    }

    /// True once the peer's decoder has acknowledged everything written.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        of_either!(&self.inner, it => it.is_drained())
    }
}

/// Streams.
impl Connection {
    /// Its streams: those of a session, or the one of a classic connection.
    pub fn streams(&mut self) -> Streams<'_> {
        Streams(&mut self.inner)
    }

    /// True if [`Streams::read`] would return something other than [`Read::Blocked`](crate::Read::Blocked).
    #[must_use]
    pub fn is_readable(&self, id: StreamId) -> bool {
        of_either!(&self.inner, it => it.is_readable(id))
    }
}

/// Messages.
impl Connection {
    /// The messages of a modern connection; a classic one has none.
    pub fn messages(&mut self) -> Option<Messages<'_>> {
        self.inner.modern_mut().map(Messages)
    }
}

/// Properties and figures of the connection.
impl Connection {
    /// The connection's state, by the thesis's names (§3.6, §3.11).
    #[must_use]
    pub fn state(&self) -> State {
        self.inner.state()
    }

    /// The profile which it speaks.
    #[must_use]
    pub fn profile(&self) -> Profile {
        match &self.inner {
            #[cfg(feature = "classic")]
            Inner::Classic(_) => Profile::Classic,
            Inner::Modern(_) => Profile::Modern,
        }
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> Ports {
        of_either!(&self.inner, it => it.ports())
    }

    /// The peer's address. Changes after the peer has moved (`spec/protocol.md`, "Paths").
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote()
    }

    /// The peer's proven identity; `None` before the handshake is done, and without seals.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.inner.identity()
    }

    /// Time of the latest datagram from the peer that authenticated, and at first of the connection's beginning. In plaintext: of the
    /// latest that was not out of place.
    #[must_use]
    pub fn last_heard(&self) -> Time {
        of_either!(&self.inner, it => it.last_heard())
    }

    /// Rate and round trip that its automatic rate has found on the path, for the next connection there ([`Config::path_hint`]); `None`
    /// before they are proven.
    #[must_use]
    pub fn path_hint(&self) -> Option<PathHint> {
        self.inner.modern()?.path_hint()
    }

    /// The RST that has told its peer that it is over, for [`Endpoint::keep_last_words`](crate::Endpoint::keep_last_words); `None` if none has
    /// left, and in classic, which is known by nothing but its ports.
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
    /// If the rate is out of range; the one before stays.
    pub fn set_rate(&mut self, rate: Rate) -> Result<(), ConfigError> {
        of_either!(&mut self.inner, it => it.set_rate(rate))
    }

    /// Tells what the headers below ours cost on the path of this connection, once its peer is known.
    pub fn set_overhead_bytes(&mut self, overhead_bytes: u32) {
        of_either!(&mut self.inner, it => it.set_overhead_bytes(overhead_bytes));
    }

    /// Changes the kind of traffic while the connection runs. Classic has only one kind.
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

/// Resources that connections share which are driven together. A classic connection shares none: these calls have no effect on it.
impl Connection {
    /// Says how many bytes of what comes from the peer, on all connections with it, the system holds until it is handed in,
    /// a socket's buffer; 0, as at first, if that is unknown or without limit. The peer is told, and keeps no more in
    /// flight than fits into that and the path.
    pub fn set_receive_queue_bytes(&mut self, bytes: u64) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_receive_queue_bytes(bytes);
        }
    }

    /// Says how far ahead of sending a modern connection takes what is written; at first [`SendBuffering::Deep`].
    pub fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_send_buffering(send_buffering);
        }
    }

    /// The data that it has to send; none for a connection which is not modern or not open.
    #[must_use]
    pub fn sending(&self) -> Sending {
        self.inner.modern().map_or_else(Sending::default, Session::sending)
    }

    /// Says how much more may be written to a modern connection; at first [`WriteAllowance::Any`]. An application that waits for room gets
    /// [`StreamEvent::Writable`](crate::StreamEvent::Writable).
    pub fn allow_writing(&mut self, allowance: WriteAllowance) {
        if let Some(session) = self.inner.modern_mut() {
            session.allow_writing(allowance);
        }
    }

    /// Tells how many connections, this one included, send to the same peer now, whose reports tell each of them of the whole
    /// queue in front of it (`spec/protocol.md` \[plan-7\]). At first 1.
    pub fn set_queue_sharers(&mut self, sharers: usize) {
        if let Some(session) = self.inner.modern_mut() {
            session.set_queue_sharers(sharers);
        }
    }
}

/// The parameters of thesis table 3.2 ([`Connection::parameters`]). A modern connection has *Window size*, and the counters.
#[cfg(feature = "classic")]
#[derive(Debug)]
pub struct Parameters<'a>(&'a mut Inner);

#[cfg(feature = "classic")]
impl Parameters<'_> {
    /// Sets a parameter.
    ///
    /// # Errors
    /// If the table does not let it be set, this profile does not have it, the value is out of range, or it is too late.
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        of_either!(self.0, it => it.set(parameter, value))
    }

    /// Reads a parameter.
    ///
    /// # Errors
    /// If the table does not let it be read, or this profile does not have it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        of_either!(&*self.0, it => it.get(parameter))
    }
}
