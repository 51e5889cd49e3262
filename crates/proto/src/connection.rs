//! One connection of either profile, as its driver sees it.

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_secure::EndpointResetKey;
use dfcp_time::Time;
use dfcp_wire::classic::StateWords;
use dfcp_wire::{Outline, Profile, StreamId};

use crate::classic::ClassicConnection;
use crate::config::{Config, Rate, SendBuffering, Traffic};
use crate::error::{ConfigError, ConnectionError, ParameterError, WriteError};
use crate::observe::Watch;
use crate::path::ecn::Origin;
use crate::path::hint::PathHint;
use crate::session::Session;
use crate::session::closed::LastWords;
use crate::session::handshake::Opener;
use crate::session::message_calls::Messages;
use crate::session::protection::Identity;
use crate::session::sharing::{Sending, WriteAllowance};
use crate::session::streams::Streams;
use crate::shared::events::Event;
use crate::shared::memory::MemoryReservation;
use crate::shared::parameters::Parameter;
use crate::shared::state::State;
use crate::shared::{Ports, Read, Timer, Transmit};
use crate::spare::SpareBlocks;
use crate::stats::{Stats, StreamStats};

/// One end of a connection.
///
/// # Run loop
///
/// Hand in what happened (`handle_datagram`, `handle_timeout`, or the application's `write`, `read`, `shutdown`, …), then
/// drain [`poll_transmit`](Self::poll_transmit) until it returns `None` and [`poll_event`](Self::poll_event) until it
/// does, then sleep until [`next_timeout`](Self::next_timeout) or the next input. Time only ever enters as an argument.
#[derive(Debug)]
pub struct Connection {
    pub(crate) inner: Inner,
    /// `None` without an observer.
    watch: Option<Box<Watch>>,
}

/// The profiles have nothing in common but this interface.
#[derive(Debug)]
pub(crate) enum Inner {
    Classic(Box<ClassicConnection>),
    Modern(Box<Session>),
}

/// Calls the same method of whichever profile it is.
macro_rules! of_either {
    ($connection:expr, $inner:ident => $call:expr) => {
        match $connection {
            Inner::Classic($inner) => $call,
            Inner::Modern($inner) => $call,
        }
    };
}

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

    pub(crate) fn identity(&self) -> Option<Identity> {
        match self {
            Self::Classic(_) => None,
            Self::Modern(session) => session.identity(),
        }
    }

    /// The ids of this end and of the peer, as far as they are known.
    pub(crate) fn ids(&self) -> (Option<u32>, Option<u32>) {
        match self {
            Self::Classic(_) => (None, None),
            Self::Modern(session) => (Some(session.local_id()), session.peer_id()),
        }
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
        Ok(match config.profile {
            Profile::Classic => ClassicConnection::initiate(now, config, ports, remote, seed).into(),
            Profile::Modern => Session::initiate(now, config, ports, remote, seed, Some(reset_key))?.into(),
        })
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
            UnsealedSyn::Classic { initial } => {
                ClassicConnection::accept(now, config, ports, remote, *initial, bytes, seed).map(Self::from)
            }
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
        if let Inner::Modern(session) = &mut self.inner {
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
        let Inner::Modern(session) = &self.inner else { return Ok(()) };
        session.find_fault().map_or(Ok(()), Err)
    }

    /// The modern connection inside.
    #[cfg(test)]
    pub(crate) fn into_session(self) -> Session {
        match self.inner {
            Inner::Classic(_) => panic!("it is a classic connection"),
            Inner::Modern(session) => *session,
        }
    }

    fn modern_mut(&mut self) -> Option<&mut Session> {
        match &mut self.inner {
            Inner::Classic(_) => None,
            Inner::Modern(session) => Some(session),
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
        if let Inner::Modern(session) = &mut self.inner {
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

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        of_either!(&mut self.inner, it => it.poll_event())
    }
}

/// The application's stream.
impl Connection {
    /// Takes as many bytes of `data` as the send buffer has room for, of which a modern connection keeps only a part for
    /// what is not sent yet ([`SendBuffering`]); 0 means none, and a [`Writable`](Event::Writable) event will follow. May be
    /// called before the handshake is done.
    ///
    /// # Errors
    /// After `shutdown`, or when the connection has ended with an error.
    pub fn write(&mut self, now: Time, data: &[u8]) -> Result<usize, WriteError> {
        of_either!(&mut self.inner, it => it.write(now, data))
    }

    /// Sends what has been written without waiting for a full block.
    pub fn flush(&mut self) {
        of_either!(&mut self.inner, it => it.flush());
    }

    /// Copies received bytes, in order, into `out`.
    ///
    /// # Errors
    /// The reason why the connection ended, once everything received before has been read.
    pub fn read(&mut self, now: Time, out: &mut [u8]) -> Result<Read, ConnectionError> {
        match &mut self.inner {
            Inner::Classic(connection) => connection.read(out),
            Inner::Modern(session) => session.read(now, out),
        }
    }

    /// True if [`read`](Self::read) would return something other than `Blocked`.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        of_either!(&self.inner, it => it.is_readable())
    }

    /// Ends our half of the stream: what has been written is delivered, then the peer reads its end. A
    /// [`Finished`](Event::Finished) event says that the peer has all of it.
    pub fn shutdown(&mut self, now: Time) {
        of_either!(&mut self.inner, it => it.shutdown(now));
    }

    /// Ends the connection at once: what is unsent is lost, and the peer is told by an RST.
    pub fn abort(&mut self) {
        of_either!(&mut self.inner, it => it.abort());
    }

    /// As [`abort`](Self::abort), with a code for the peer's application, which gets [`ConnectionError::EndedByPeer`]. It is not told
    /// the code by a classic connection, nor before the handshake is done.
    pub fn abort_with(&mut self, error: u32) {
        match &mut self.inner {
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

    /// True once the peer has confirmed the end of our half.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        of_either!(&self.inner, it => it.is_finished())
    }
}

/// Streams.
impl Connection {
    /// The streams of a modern connection beside its first; a classic one has no others.
    pub fn streams(&mut self) -> Option<Streams<'_>> {
        self.modern_mut().map(Streams)
    }
}

/// Messages.
impl Connection {
    /// The messages of a modern connection; a classic one has none.
    pub fn messages(&mut self) -> Option<Messages<'_>> {
        self.modern_mut().map(Messages)
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
        match &self.inner {
            Inner::Classic(_) => None,
            Inner::Modern(session) => session.path_hint(),
        }
    }

    /// The RST that has told its peer that it is over, for [`Endpoint::keep_last_words`](crate::Endpoint::keep_last_words); `None` if none has
    /// left, and in classic, which is known by nothing but its ports.
    #[must_use]
    pub fn last_words(&self) -> Option<LastWords> {
        match &self.inner {
            Inner::Classic(_) => None,
            Inner::Modern(session) => session.last_words().cloned(),
        }
    }

    /// Counters and estimates.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Figures of the first stream: in classic of the whole connection.
    #[must_use]
    pub fn first_stream_stats(&mut self) -> StreamStats {
        match &mut self.inner {
            Inner::Modern(session) => Streams(session).stats(StreamId::FIRST),
            Inner::Classic(classic) => classic.stream_stats(),
        }
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
        if let Some(session) = self.modern_mut() {
            session.set_traffic(traffic);
        }
    }

    /// Sets a parameter of thesis table 3.2. A modern connection has *Window size* only.
    ///
    /// # Errors
    /// If the table does not let it be set, this profile does not have it, the value is out of range, or it is too late.
    pub fn set(&mut self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        of_either!(&mut self.inner, it => it.set(parameter, value))
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not let it be read, or this profile does not have it.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        of_either!(&self.inner, it => it.get(parameter))
    }
}

/// Resources that connections share which are driven together. A classic connection shares none: these calls have no effect on it.
impl Connection {
    /// Says how many bytes of what comes from the peer, on all connections with it, the system holds until it is handed in,
    /// a socket's buffer; 0, as at first, if that is unknown or without limit. The peer is told, and keeps no more in
    /// flight than fits into that and the path.
    pub fn set_receive_queue_bytes(&mut self, bytes: u64) {
        if let Some(session) = self.modern_mut() {
            session.set_receive_queue_bytes(bytes);
        }
    }

    /// Says how far ahead of sending a modern connection takes what is written; at first [`SendBuffering::Deep`].
    pub fn set_send_buffering(&mut self, send_buffering: SendBuffering) {
        if let Some(session) = self.modern_mut() {
            session.set_send_buffering(send_buffering);
        }
    }

    /// The data that it has to send; none for a connection which is not modern or not open.
    #[must_use]
    pub fn sending(&self) -> Sending {
        match &self.inner {
            Inner::Classic(_) => Sending::default(),
            Inner::Modern(session) => session.sending(),
        }
    }

    /// Says how much more may be written to a modern connection; at first [`WriteAllowance::Any`]. An application that waits for room gets a [`Writable`](Event::Writable) event.
    pub fn allow_writing(&mut self, allowance: WriteAllowance) {
        if let Some(session) = self.modern_mut() {
            session.allow_writing(allowance);
        }
    }

    /// Tells how many connections, this one included, send to the same peer now, whose reports tell each of them of the whole
    /// queue in front of it (`spec/protocol.md` \[plan-7\]). At first 1.
    pub fn set_queue_sharers(&mut self, sharers: usize) {
        if let Some(session) = self.modern_mut() {
            session.set_queue_sharers(sharers);
        }
    }
}
