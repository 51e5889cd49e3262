//! A modern connection: wiring over the small owners which decide (handshake, sender, receiver, reporter, pacer,
//! breaker, closing).
//!
//! # Run loop
//!
//! Hand in what happened (`handle_datagram`, `handle_timeout`, or the application's `write`, `read`, `shutdown`, …),
//! then drain [`poll_transmit`](Session::poll_transmit) until it returns `None` and
//! [`poll_event`](Session::poll_event) until it does, then sleep until
//! [`next_timeout`](Session::next_timeout) or the next input. Time only ever enters as an argument.

pub(crate) mod application;
mod emit;
mod feedback;
pub(crate) mod handshake;
mod memory;
pub(crate) mod noise;
mod opening;
mod paths;
pub(crate) mod protection;
mod receive;
pub(crate) mod recv_side;
mod reporter;
pub(crate) mod send_side;
pub(crate) mod sharing;
mod spending;
pub(crate) mod stream_ids;
pub(crate) mod streams;
mod timers;
pub(crate) mod transmit;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dfcp_fountain::kernel::Kernel;
use dfcp_time::Time;
use dfcp_wire::handshake::{Offer, Parameters};
use dfcp_wire::segment::ResetReason;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use crate::config::{Config, Rate};
use crate::error::{ConfigError, ConnectionError};
use crate::limits::KEEP_ALIVE_MIN;
use crate::path::arrivals::Arrivals;
use crate::path::breaker::Breaker;
use crate::path::credit::Credit;
use crate::path::numbers::DatagramNumbers;
use crate::path::pacing::Pacer;
use crate::path::rtt::RttEstimator;
use crate::random::SeekableRng;
use crate::session::handshake::{Handshake, PeerLimits};
use crate::session::noise::Opening;
use crate::session::paths::Paths;
use crate::session::protection::Protection;
use crate::session::recv_side::RecvSide;
use crate::session::reporter::Reporter;
use crate::session::send_side::SendSide;
use crate::session::stream_ids::StreamIds;
use crate::shared::closing::Closing;
use crate::shared::counters::Counters;
use crate::shared::events::{Event, EventKind, Events};
use crate::shared::retransmit::RetransmitSchedule;
use crate::shared::state::State;
use crate::shared::{Ports, Role};

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
pub struct Session {
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
    random: SeekableRng<ChaCha20Rng>,
    /// The state during the handshake and after the end; in between, `closing` knows.
    phase: Phase,
    handshake: Handshake,
    closing: Closing,
    /// Which streams there are and may be.
    ids: StreamIds,
    /// The application has wanted to open a stream, and the peer permitted none.
    wants_streams: bool,
    /// The peer permits more since, and the application has not been told.
    has_new_credit: bool,
    send: Box<SendSide>,
    recv: Box<RecvSide>,
    numbers: DatagramNumbers,
    arrivals: Arrivals,
    reporter: Reporter,
    /// What the system holds of what arrives until we look at it; 0 for unknown.
    receive_queue_bytes: u64,
    rtt: RttEstimator,
    pacer: Pacer,
    /// What the peer has yet to prove.
    credit: Credit,
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
    /// An RST is to be sent once, for this reason (\[rst-4\]).
    reset: Option<ResetReason>,
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

impl Session {
    /// Opens a connection to `remote`, with a configuration which others may share: the SYN is what
    /// [`poll_transmit`](Self::poll_transmit) returns first. `seed` must be unpredictable to others in real use, and serve once.
    ///
    /// # Errors
    /// It is not said whom to trust.
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
        connection.handshake.start_timer(now);
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
        let mut random = SeekableRng::<ChaCha20Rng>::new(seed);
        let local_id = random.with(|random| random.next_u32().max(1));
        let kernel = Kernel::detect();
        let proofs = config.credentials().is_some().then(|| random.bytes());
        Self {
            ports,
            paths: Paths::new(remote),
            seal: Seal::Off,
            random,
            phase: Phase::SynReceived,
            handshake: Handshake::new(role, local_id),
            closing: Closing::default(),
            send: Box::new(SendSide::new(&config, kernel, role.opener(), proofs)),
            ids: StreamIds::new(role, config.streams),
            wants_streams: false,
            has_new_credit: false,
            recv: Box::new(RecvSide::new(&config, kernel, proofs.is_some(), role)),
            numbers: DatagramNumbers::default(),
            arrivals: Arrivals::default(),
            reporter: Reporter::default(),
            receive_queue_bytes: 0,
            rtt: RttEstimator::default(),
            pacer: Pacer::new(None),
            credit: Credit::default(),
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
        if self.send.take_first_writable() {
            self.events.push(EventKind::Writable);
        }
        let kind = self.events.pop()?;
        Some(kind.with_reason(|| match &self.phase {
            Phase::Closed(error) => error.clone(),
            Phase::SynSent | Phase::SynReceived | Phase::Open => None,
        }))
    }

    /// A configuration of its own, to be changed.
    fn config_mut(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }

    fn establish(&mut self, now: Time, peer: PeerLimits, symbol_size: u16) {
        self.phase = Phase::Open;
        self.peer_rate_max_bps = peer.rate_max_bps;
        // A peer which gives up sooner than we would speak must hear of us in time ([idle-3]).
        if let (Some(keep_alive), Some(idle)) = (&mut self.keep_alive, peer.idle_timeout) {
            *keep_alive = (*keep_alive).min(idle / 3).max(KEEP_ALIVE_MIN);
        }
        self.send.establish(now, symbol_size, peer.window_blocks, peer.memory_bytes);
        let _permits_some = self.ids.on_peer_limits(peer.streams);
        self.numbers.skip_some(self.random.bytes());
        self.recv.set_symbol_size(symbol_size);
        self.update_rate();
        self.may_send = true;
        self.events.push(EventKind::Connected);
        self.events.push(EventKind::Writable);
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

    /// The rate without the breaker: the smaller of our own and the peer's cap (\[open-17\]); `None` is the line rate.
    fn configured_bps(&self) -> Option<u64> {
        let own = match self.config.rate {
            Rate::Line => None,
            Rate::Fixed { rate_bps } => Some(rate_bps),
        };
        let cap = (self.peer_rate_max_bps > 0).then_some(self.peer_rate_max_bps);
        own.into_iter().chain(cap).min()
    }

    fn breaker_is_on(&self) -> bool {
        self.config.breaker && self.config.rate != Rate::Line
    }

    fn close(&mut self, error: Option<ConnectionError>) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        self.phase = Phase::Closed(error);
        self.may_send = false;
        self.events.push_end();
    }

    /// Before the connection is closed: the peer is to be told by an RST, unless that would be more than its SYNs have
    /// earned while its address is not proven ([open-11]).
    fn reset_peer(&mut self) {
        self.reset = (self.phase != Phase::SynReceived).then_some(ResetReason::Unspecified);
    }

    /// After anything that can end a direction: reach the states which follow.
    fn update_closing(&mut self, now: Time) {
        if self.phase != Phase::Open {
            return;
        }
        if self.send.is_exhausted() {
            self.reset = Some(ResetReason::Unspecified);
            return self.close(Some(ConnectionError::StreamTooLong));
        }
        // FIN is repeated as long as there is progress, so it is sent at once ([close-1]).
        // The FIN of the first stream says that nothing else will come: it waits for all others.
        if let Some(end) = self.send.first_end().filter(|_| self.send.is_only_first()) {
            self.closing.start(now, end, &RetransmitSchedule::MODERN);
        }
        if self.recv.is_first_finished() && self.closing.on_peer_done() {
            self.events.push(EventKind::Readable);
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

#[cfg(test)]
mod opening_tests;
#[cfg(test)]
mod sealed_tests;
#[cfg(test)]
mod test_datagrams;
