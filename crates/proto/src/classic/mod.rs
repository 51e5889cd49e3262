//! The classic profile: one connection as chapter 3 of the thesis describes it. `spec/protocol.md` settles the
//! questions that the thesis leaves open. The profile has no security at all, and shares no connection state with the
//! modern profile.
//!
//! Exists only with the feature `classic`. [`Config::danger_classic`] configures it.

mod application;
mod config;
mod graphs;
mod open_loop;
mod opening;
mod receive;
mod receiver;
mod sender;
mod timers;
mod token_bucket;
mod transmit;

use std::net::SocketAddr;
use std::sync::Arc;

use dfcp_fountain::raptor::State as GeneratorState;
use dfcp_time::Time;
use dfcp_wire::StreamId;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::classic::opening::Handshake;
use crate::classic::receiver::ClassicReceiver;
use crate::classic::sender::ClassicSender;
use crate::classic::token_bucket::TokenBucket;
use crate::config::{Config, Rate};
use crate::error::ConnectionError;
use crate::path::pacing::Pacer;
use crate::path::rtt::RttEstimator;
use crate::shared::closing::Closing;
use crate::shared::counters::Counters;
use crate::shared::events::{Event, EventKind, Events, StreamEvent};
use crate::shared::memory::MemoryReservation;
use crate::shared::retransmit::RetransmitSchedule;
use crate::shared::{Ports, Role};
use crate::state::State;

pub(crate) use receiver::reserve_bytes;
pub use token_bucket::inctokens;

/// One end of a classic connection.
#[derive(Debug)]
pub(crate) struct ClassicConnection {
    /// Shared by all connections that an endpoint accepts; cloned when it is changed for one of them.
    config: Arc<Config>,
    ports: Ports,
    remote: SocketAddr,
    overhead_bytes: u32,
    phase: Phase,
    handshake: Handshake,
    closing: Closing,
    sender: ClassicSender,
    receiver: ClassicReceiver,
    rtt: RttEstimator,
    pacer: Pacer,
    bucket: TokenBucket,
    /// The sender may have data, so it is polled when pacer and token bucket permit.
    may_send: bool,
    /// The sender had no data at the last poll.
    was_idle: bool,
    /// Time of the last poll.
    sender_asked_at: Time,
    last_heard: Time,
    last_sent: Time,
    last_keep_alive: Time,
    reset: Option<Reset>,
    events: Events,
    stream_news: StreamNews,
    /// The application has read the end of the stream.
    is_end_told: bool,
    counters: Counters,
}

/// Phase of the connection. While it is open, [`Closing`] has the finer state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    SynSent,
    SynReceived,
    Open,
    Closed(Option<ConnectionError>),
}

/// Pending events of the stream. Each is delivered once.
#[derive(Clone, Copy, Debug, Default)]
struct StreamNews {
    readable: bool,
    writable: bool,
    finished: bool,
}

impl StreamNews {
    fn take(&mut self) -> Option<StreamEvent> {
        if std::mem::take(&mut self.readable) {
            return Some(StreamEvent::Readable(StreamId::FIRST));
        }
        if std::mem::take(&mut self.writable) {
            return Some(StreamEvent::Writable(StreamId::FIRST));
        }
        std::mem::take(&mut self.finished).then_some(StreamEvent::Finished(StreamId::FIRST))
    }
}

/// Marks that an RST must be sent.
#[derive(Clone, Copy, Debug)]
struct Reset;

impl ClassicConnection {
    /// Opens a connection to `remote`. Its SYN is due immediately.
    pub(crate) fn initiate(now: Time, config: Arc<Config>, ports: Ports, remote: SocketAddr, seed: [u8; 32]) -> Self {
        let mut connection = Self::new(now, config, ports, remote, Role::Initiator, seed);
        connection.handshake.start_timer(now);
        connection.phase = Phase::SynSent;
        connection
    }

    fn new(now: Time, config: Arc<Config>, ports: Ports, remote: SocketAddr, role: Role, seed: [u8; 32]) -> Self {
        let initial = initial_state(seed);
        Self {
            ports,
            remote,
            overhead_bytes: config.overhead_bytes,
            phase: Phase::SynReceived,
            handshake: Handshake::new(role, initial),
            closing: Closing::default(),
            sender: ClassicSender::new(&config, initial),
            // Replaced by the peer's initial state when its SYN or SYNACK arrives.
            receiver: ClassicReceiver::new(&config, initial),
            rtt: RttEstimator::default(),
            pacer: Pacer::new(None),
            bucket: TokenBucket::new(&config.classic),
            may_send: false,
            was_idle: true,
            sender_asked_at: Time::ZERO,
            last_heard: now,
            last_sent: now,
            last_keep_alive: now,
            reset: None,
            events: Events::default(),
            stream_news: StreamNews::default(),
            is_end_told: false,
            counters: Counters::default(),
            config,
        }
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase::SynSent => State::SynSent,
            Phase::SynReceived => State::SynReceived,
            Phase::Open => self.closing.state(),
            Phase::Closed(_) => State::Closed,
        }
    }

    /// Returns the error that ended the connection. `None` while it is open, and after both sides have closed it.
    pub(crate) fn error(&self) -> Option<&ConnectionError> {
        match &self.phase {
            Phase::Closed(error) => error.as_ref(),
            Phase::SynSent | Phase::SynReceived | Phase::Open => None,
        }
    }

    pub(crate) fn ports(&self) -> Ports {
        self.ports
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub(crate) fn last_heard(&self) -> Time {
        self.last_heard
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let kind = self.events.pop()?;
        Some(kind.with_reason(|| self.error().cloned()))
    }

    /// Charges received blocks to `reservation`. Must be called before the first block is received.
    pub(crate) fn charge_to(&mut self, reservation: MemoryReservation) {
        self.receiver.charge_to(reservation);
    }

    fn establish(&mut self, now: Time) {
        self.phase = Phase::Open;
        self.sender.establish(now);
        self.update_rate();
        self.may_send = true;
        self.events.push(EventKind::Connected);
        self.stream_news.writable = true;
    }

    fn update_rate(&mut self) {
        self.pacer.set_rate_bps(match self.config.rate {
            // This profile refuses an automatic rate.
            Rate::Line | Rate::Auto { .. } => None,
            Rate::Fixed { rate_bps } => Some(rate_bps),
        });
    }

    fn close(&mut self, error: Option<ConnectionError>) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        self.phase = Phase::Closed(error);
        self.may_send = false;
        self.events.push(EventKind::Closed);
    }

    /// Updates the closing state after an event that may have ended a direction.
    fn update_closing(&mut self, now: Time) {
        if self.phase != Phase::Open {
            return;
        }
        if self.sender.is_exhausted() {
            self.reset = Some(Reset);
            return self.close(Some(ConnectionError::StreamTooLong));
        }
        // FIN is given up after six copies, so send it only once every block is acknowledged.
        if let Some(end) = self.sender.end().filter(|_| self.sender.is_drained()) {
            self.closing.start(now, end, &RetransmitSchedule::CLASSIC);
        }
        if self.receiver.is_finished() && self.closing.on_peer_done() {
            self.stream_news.readable = true;
        }
        match self.closing.state() {
            State::TimeWait => self.closing.enter_time_wait(now + self.config.time_wait),
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

/// Derives the generator state that this end announces (thesis §3.8.3) from the connection's seed.
fn initial_state(seed: [u8; 32]) -> GeneratorState {
    let mut random = ChaCha20Rng::from_seed(seed);
    loop {
        let words = [random.next_u32(), random.next_u32(), random.next_u32()];
        if let Some(state) = GeneratorState::new(words[0], words[1], words[2]) {
            return state;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// [close-6]
    #[test]
    fn time_wait_lasts_60_seconds() {
        let (start, ports) = (Time::from_s(1), Ports { local: 4_000, remote: 9 });
        let remote = ([198, 51, 100, 1], 9).into();
        let mut connection =
            ClassicConnection::initiate(start, Arc::new(Config::danger_classic()), ports, remote, [3; 32]);
        connection.phase = Phase::Open;
        connection.closing.start(start, 0, &RetransmitSchedule::CLASSIC);
        connection.closing.on_fin_acknowledged(Some(0));
        connection.closing.on_peer_fin(0);
        connection.closing.on_peer_done();
        connection.update_closing(start);
        connection.handle_timeout(start + Duration::from_millis(59_999));
        assert_eq!(connection.state(), State::TimeWait);
        connection.handle_timeout(start + Duration::from_secs(60));
        assert_eq!(connection.phase, Phase::Closed(None));
    }
}
