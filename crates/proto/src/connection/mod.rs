//! One connection: wiring over the small owners which decide (handshake, sender, receiver, reporter, pacer, breaker,
//! closing).
//!
//! # Run loop
//!
//! Hand in what happened (`handle_datagram`, `handle_timeout`, or the application's `write`, `read`, `shutdown`, …),
//! then drain [`poll_transmit`](Connection::poll_transmit) until it returns `None` and
//! [`poll_event`](Connection::poll_event) until it does, then sleep until
//! [`next_timeout`](Connection::next_timeout) or the next input. Time only ever enters as an argument.

pub(crate) mod application;
mod closing;
mod counters;
mod events;
pub(crate) mod handshake;
mod memory;
pub(crate) mod noise;
mod opening;
mod paths;
pub(crate) mod protection;
mod receive;
mod repeats;
pub(crate) mod sharing;
mod spending;
mod timers;
pub(crate) mod transmit;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::raptor::State as GeneratorState;
use dfcp_time::Time;
use dfcp_wire::Profile;
use dfcp_wire::handshake::{Offer, Parameters};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::config::{Config, Rate};
use crate::connection::closing::Closing;
use crate::connection::counters::Counters;
use crate::connection::events::{Events, Occurrence};
use crate::connection::handshake::{Handshake, PeerLimits, Role};
use crate::connection::noise::Opening;
use crate::connection::paths::Paths;
use crate::connection::protection::Protection;
use crate::connection::timers::KEEP_ALIVE_MIN;
use crate::error::{ConfigError, ConnectionError};
use crate::path::arrivals::Arrivals;
use crate::path::breaker::Breaker;
use crate::path::numbers::DatagramNumbers;
use crate::path::pacing::{Pacer, TokenBucket};
use crate::path::rtt::RttEstimator;
use crate::random::Draws;
use crate::recv::classic::ClassicReceiver;
use crate::recv::modern::RecvWindow;
use crate::recv::reporter::Reporter;
use crate::send::adaptive::Adaptive;
use crate::send::classic::ClassicSender;
use crate::send::credit::Credit;
use crate::state::State;

/// Something the application may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done.
    Connected,
    /// There may be something to read, or the peer's stream has ended.
    Readable,
    /// There is room to write again.
    Writable,
    /// The peer has every byte written before `shutdown`, and says so.
    Finished,
    /// The connection is over, with the reason unless both sides closed it.
    Closed(Option<ConnectionError>),
}

/// The two ports of a classic connection, or of a modern SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    /// Ours.
    pub local: u16,
    /// The peer's.
    pub remote: u16,
}

#[derive(Debug)]
enum Sender {
    Classic(Box<ClassicSender>),
    Modern(Box<Adaptive>),
}

#[derive(Debug)]
enum Receiver {
    Classic(Box<ClassicReceiver>),
    Modern(Box<RecvWindow>),
}

/// What protects a connection's datagrams.
#[derive(Debug)]
enum Seal {
    /// Nothing: classic, and modern where both ends asked for it.
    Off,
    /// The acceptor's answer is awaited.
    Opening(Box<Opening>),
    /// Keys are agreed: nothing is taken that does not authenticate.
    On(Box<Protection>),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Shared by all connections which an endpoint accepts, until it is changed for one of them.
    config: Arc<Config>,
    /// The configured one, or what both ends have agreed on.
    symbol_size: u16,
    /// The configured ones, or what the path and the peer need.
    overhead_bytes: u32,
    keep_alive: Option<Duration>,
    ports: Ports,
    paths: Paths,
    seal: Seal,
    random: Draws<ChaCha20Rng>,
    /// The state during the handshake and after the end; in between, `closing` knows.
    phase: Phase,
    handshake: Handshake,
    closing: Closing,
    sender: Sender,
    receiver: Receiver,
    /// Of our datagrams (modern) or segments (classic).
    numbers: DatagramNumbers,
    arrivals: Arrivals,
    reporter: Reporter,
    /// What the system holds of what arrives until we look at it; 0 for unknown.
    receive_queue_bytes: u64,
    /// The window, in blocks and bytes, which the latest report told.
    reported_window: (u32, u64),
    rtt: RttEstimator,
    pacer: Pacer,
    /// What the peer has yet to prove (modern).
    credit: Credit,
    bucket: TokenBucket,
    breaker: Breaker,
    peer_rate_max_bps: u64,
    /// What the peer's SYN declared, until its address is proven.
    pending_peer: (PeerLimits, u16),
    /// Whether the sender should be asked for data when the pacer permits.
    may_send: bool,
    /// Whether the sender had nothing the last time it was asked, and when that was.
    was_idle: bool,
    sender_asked_at: Time,
    last_heard: Time,
    last_sent: Time,
    last_keep_alive: Time,
    /// An RST is to be sent, with this in S1.
    reset: Option<u32>,
    /// Whether the application has been told that it cannot write.
    write_blocked: bool,
    events: Events,
    counters: Counters,
    reported_bytes: u64,
    sent_bits: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    SynSent,
    SynReceived,
    Open,
    Closed(Option<ConnectionError>),
}

impl Connection {
    /// Opens a connection to `remote`: the SYN is what [`poll_transmit`](Self::poll_transmit) returns first. `seed` must
    /// be unpredictable to others in real use, and serve once.
    ///
    /// # Errors
    /// It is not said whom to trust.
    pub fn connect(
        now: Time,
        config: Config,
        ports: Ports,
        remote: SocketAddr,
        seed: [u8; 32],
    ) -> Result<Self, ConfigError> {
        Self::initiate(now, Arc::new(config), ports, remote, seed)
    }

    /// As [`connect`](Self::connect), with a configuration which others may share.
    pub(crate) fn initiate(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        seed: [u8; 32],
    ) -> Result<Self, ConfigError> {
        let mut connection = Self::new(now, config, ports, remote, Role::Initiator, seed);
        let (offer, local_id) = (connection.own_offer(), connection.handshake.local_id);
        if let Some(credentials) = connection.config.credentials() {
            let opening = Opening::new(&connection.config, credentials, local_id, &offer, &mut connection.random)?;
            connection.seal = Seal::Opening(Box::new(opening));
        }
        connection.handshake.start_repeats(now, connection.config.profile);
        connection.phase = Phase::SynSent;
        Ok(connection)
    }

    pub(crate) fn new(
        now: Time,
        config: Arc<Config>,
        ports: Ports,
        remote: SocketAddr,
        role: Role,
        seed: [u8; 32],
    ) -> Self {
        let mut random = Draws::<ChaCha20Rng>::new(seed);
        let (local_id, initial) = random.with(|random| (random.next_u32().max(1), initial_state(random)));
        let kernel = Kernel::detect();
        let proofs = config.credentials().is_some().then(|| random.bytes());
        let (sender, receiver) = match config.profile {
            Profile::Classic => (
                Sender::Classic(Box::new(ClassicSender::new(&config, initial))),
                // The peer's own initial state takes the place of ours when its SYN or SYNACK comes.
                Receiver::Classic(Box::new(ClassicReceiver::new(&config, initial))),
            ),
            Profile::Modern => (
                Sender::Modern(Box::new(Adaptive::new(&config, kernel, proofs))),
                Receiver::Modern(Box::new(RecvWindow::new(&config, kernel, proofs.is_some()))),
            ),
        };
        Self {
            ports,
            paths: Paths::new(remote),
            seal: Seal::Off,
            random,
            phase: Phase::SynReceived,
            handshake: Handshake::new(role, local_id, initial),
            closing: Closing::default(),
            sender,
            receiver,
            numbers: DatagramNumbers::default(),
            arrivals: Arrivals::default(),
            reporter: Reporter::default(),
            receive_queue_bytes: 0,
            reported_window: (config.window_blocks, config.receive_memory_bytes),
            rtt: RttEstimator::default(),
            pacer: Pacer::new(None),
            credit: Credit::default(),
            bucket: TokenBucket::new(),
            breaker: Breaker::new(),
            peer_rate_max_bps: 0,
            pending_peer: (PeerLimits::default(), config.symbol_size),
            symbol_size: config.symbol_size,
            overhead_bytes: config.overhead_bytes,
            keep_alive: config.keep_alive,
            may_send: false,
            was_idle: true,
            sender_asked_at: Time::ZERO,
            last_heard: now,
            last_sent: now,
            last_keep_alive: now,
            reset: None,
            write_blocked: false,
            events: Events::default(),
            counters: Counters::default(),
            reported_bytes: 0,
            sent_bits: 0,
            config,
        }
    }

    /// Where the connection is in its life.
    #[must_use]
    pub fn state(&self) -> State {
        match self.phase {
            Phase::SynSent => State::SynSent,
            Phase::SynReceived => State::SynReceived,
            Phase::Open => self.closing.state(),
            Phase::Closed(_) => State::Closed,
        }
    }

    /// The profile which it speaks.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.config.profile
    }

    /// Its ports.
    #[must_use]
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// The id which modern segments to this end carry.
    #[must_use]
    pub fn local_id(&self) -> u32 {
        self.handshake.local_id
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        Some(match self.events.pop()? {
            Occurrence::Connected => Event::Connected,
            Occurrence::Readable => Event::Readable,
            Occurrence::Writable => Event::Writable,
            Occurrence::Finished => Event::Finished,
            Occurrence::Closed => Event::Closed(match &self.phase {
                Phase::Closed(error) => error.clone(),
                Phase::SynSent | Phase::SynReceived | Phase::Open => None,
            }),
        })
    }

    /// A configuration of its own, to be changed.
    fn config_mut(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }

    fn establish(&mut self, now: Time, peer: PeerLimits, symbol_size: u16) {
        self.phase = Phase::Open;
        self.peer_rate_max_bps = peer.rate_max_bps;
        // A peer which gives up sooner than we would speak must hear of us in time.
        if let (Some(keep_alive), Some(idle)) = (&mut self.keep_alive, peer.idle_timeout) {
            *keep_alive = (*keep_alive).min(idle / 3).max(KEEP_ALIVE_MIN);
        }
        match &mut self.sender {
            Sender::Classic(sender) => sender.establish(now),
            Sender::Modern(sender) => {
                sender.establish(now, symbol_size, peer.window_blocks, peer.window_bytes);
                self.numbers.skip_some(self.random.bytes());
            }
        }
        if let Receiver::Modern(receiver) = &mut self.receiver {
            receiver.set_symbol_size(symbol_size);
        }
        self.update_rate();
        self.may_send = true;
        self.events.push(Occurrence::Connected);
        self.events.push(Occurrence::Writable);
    }

    /// What we declare in SYN and SYNACK.
    fn own_parameters(&self) -> Parameters {
        Parameters { connection_id: self.handshake.local_id, offer: self.own_offer() }
    }

    fn own_offer(&self) -> Offer {
        self.config.offer()
    }

    /// The rate follows the configuration, the peer's cap and the breaker.
    fn update_rate(&mut self) {
        let mut rate = self.configured_bps();
        if let Some(configured) = rate.filter(|_| self.breaker_is_on()) {
            rate = Some(self.breaker.allowed_bps(configured));
        }
        if rate != self.pacer.rate_bps() {
            self.pacer.set_rate_bps(rate);
        }
    }

    /// The rate without the breaker: the smaller of our own and the peer's cap; `None` is the line rate.
    fn configured_bps(&self) -> Option<u64> {
        let own = match self.config.rate {
            Rate::Line => None,
            Rate::Fixed { rate_bps } => Some(rate_bps),
        };
        let cap = (self.peer_rate_max_bps > 0).then_some(self.peer_rate_max_bps);
        own.into_iter().chain(cap).min()
    }

    fn breaker_is_on(&self) -> bool {
        self.config.breaker && self.config.profile == Profile::Modern && self.config.rate != Rate::Line
    }

    fn close(&mut self, error: Option<ConnectionError>) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        self.phase = Phase::Closed(error);
        self.may_send = false;
        self.events.push(Occurrence::Readable);
        self.events.push(Occurrence::Writable);
        self.events.push(Occurrence::Closed);
    }

    /// Before the connection is closed: the peer is to be told by an RST, unless that would be more than its SYNs have
    /// earned while its address is not proven ([open-11]).
    fn reset_peer(&mut self) {
        let is_unproven = self.phase == Phase::SynReceived && self.config.profile == Profile::Modern;
        self.reset = (!is_unproven).then_some(0);
    }

    /// After anything that can end a direction: reach the states which follow.
    fn update_closing(&mut self, now: Time) {
        if self.phase != Phase::Open {
            return;
        }
        let (end, drained, exhausted) = match &self.sender {
            Sender::Classic(sender) => (sender.end(), sender.is_drained(), sender.is_exhausted()),
            Sender::Modern(sender) => (sender.end(), sender.is_drained(), sender.is_exhausted()),
        };
        if exhausted {
            self.reset = Some(0);
            return self.close(Some(ConnectionError::StreamTooLong));
        }
        // Classic gives FIN up after six copies, so it waits until every block is acknowledged; modern repeats it as
        // long as there is progress and sends it at once.
        if let Some(end) = end.filter(|_| drained || self.config.profile == Profile::Modern) {
            self.closing.start(now, end, self.config.profile);
        }
        let finished = match &self.receiver {
            Receiver::Classic(receiver) => receiver.is_finished(),
            Receiver::Modern(receiver) => receiver.is_finished(),
        };
        if finished && self.closing.on_peer_done() {
            self.events.push(Occurrence::Readable);
        }
        match self.closing.state() {
            State::TimeWait => {
                if self.closing.time_wait_until().is_none() {
                    self.closing.enter_time_wait(now + self.config.time_wait);
                }
            }
            State::Closed => self.close(None),
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::LastAck => {}
        }
    }
}

/// A generator state from the connection's seed (classic, thesis §3.8.3).
fn initial_state(random: &mut ChaCha20Rng) -> GeneratorState {
    loop {
        let words = [random.next_u32(), random.next_u32(), random.next_u32()];
        if let Some(state) = GeneratorState::new(words[0], words[1], words[2]) {
            return state;
        }
    }
}

#[cfg(test)]
mod opening_tests;
#[cfg(test)]
mod sealed_tests;
