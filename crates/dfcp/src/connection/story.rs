//! Story: the log of one connection, for first questions about a failure or a slow transfer.
//!
//! The protocol itself logs nothing. After each service or delivery of datagrams, the connection's current values are
//! compared with the values logged last. So there are no lines per datagram, and a peer can cause only a bounded number
//! of lines: each state is entered once, and values that may change at any time are logged at most once per
//! [`limits::STORY_INTERVAL`]. A connection without a subscriber has no story, which costs one branch per service, and
//! one per stream event.

mod streams;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_proto::{BreakerState, Connection, Identity, PublicKey, State, Stats, StreamId, StreamKind};
use dfcp_time::Time;

pub(super) use self::streams::StreamNews;
use self::streams::StreamStory;
use crate::error::Ended;
use crate::limits;

/// Target of the log events, for filters of subscribers.
const TARGET: &str = "dfcp::session";

/// Name of a connection in its log lines: the id in the headers of its incoming datagrams, or the ports of a classic
/// connection.
#[derive(Clone, Copy, Debug)]
enum Name {
    Id(u32),
    Ports(dfcp_proto::Ports),
}

/// Loggable values of a connection at one moment.
#[derive(Clone, Copy, Debug)]
struct Observation {
    state: State,
    remote: SocketAddr,
    identity: Option<Identity>,
    stats: Stats,
}

impl Observation {
    fn of(connection: &Connection) -> Self {
        Self {
            state: connection.state(),
            remote: connection.remote(),
            identity: connection.identity(),
            stats: connection.stats(),
        }
    }
}

/// Log of a connection, with the values logged last.
#[derive(Debug)]
pub(crate) struct Story {
    name: Name,
    began: Time,
    told: Observation,
    /// Time and value of the last line about the address, the rate and the rounds of blocks, which can change again and
    /// again.
    address: (Option<Time>, SocketAddr, u64),
    rate: (Time, u64),
    rounds: (Time, u64, u64),
    streams: StreamStory,
    totals_are_told: bool,
}

macro_rules! tell {
    ($story:expr, $($line:tt)+) => {
        tracing::debug!(target: TARGET, connection = %$story.name, $($line)+)
    };
}

impl Story {
    /// Begins the story of a new connection; `was_called` if the peer opened it. Returns `None` without a subscriber.
    pub(crate) fn begin(now: Time, connection: &Connection, was_called: bool) -> Option<Box<Self>> {
        if !tracing::enabled!(target: TARGET, tracing::Level::DEBUG) {
            return None;
        }
        let name = connection.local_id().map_or_else(|| Name::Ports(connection.ports()), Name::Id);
        // Only the address is known yet, so that everything else will differ and be logged.
        let told = Observation {
            state: if was_called { State::SynReceived } else { State::SynSent },
            remote: connection.remote(),
            identity: None,
            stats: Stats::default(),
        };
        let address = (None, told.remote, 0);
        let (rate, rounds, streams) = ((now, 0), (now, 0, 0), StreamStory::default());
        let story = Self { name, began: now, told, address, rate, rounds, streams, totals_are_told: false };
        if was_called {
            tell!(story, remote = %told.remote, profile = ?connection.profile(), "called by a peer");
        }
        Some(Box::new(story))
    }

    /// Logs changes since the last call.
    pub(super) fn go_on(&mut self, now: Time, connection: &Connection, ended: Option<&Ended>) {
        self.tell_news(now, Observation::of(connection), ended);
    }

    /// Logs an event of a stream. Events of the first stream are skipped, as the connection's states already log its
    /// ends.
    pub(super) fn on_stream(&mut self, id: StreamId, news: StreamNews) {
        // Dropping a handle after the session's end has no effect, so it is not logged.
        let is_too_late = self.told.state == State::Closed && news.is_our_doing();
        if !is_too_late && id != StreamId::FIRST {
            self.streams.on_news(self.name, id, news);
        }
    }

    /// Counts a failed attempt of the application to open a stream of this kind: the peer's limit is reached.
    pub(super) fn on_no_credit(&mut self, kind: StreamKind) {
        self.streams.on_no_credit(self.name, kind);
    }

    /// Logs that the application has dropped its last handle, with totals: the process may end before the connection is
    /// over.
    pub(super) fn let_go(&mut self, now: Time, connection: &Connection, ended: Option<&Ended>) {
        self.go_on(now, connection, ended);
        if self.told.state != State::Closed {
            tell!(self, state = self.told.state.name(), "the application has let go of it");
            self.tell_totals(now, self.told);
        }
    }

    /// Logs that the endpoint has forgotten the connection before it was over.
    pub(super) fn break_off(&mut self, now: Time) {
        self.streams.tell(self.name, now);
        if self.told.state != State::Closed {
            self.tell_totals(now, self.told);
            tell!(self, "given up: nothing drives its endpoint any more");
        }
    }

    fn tell_news(&mut self, now: Time, seen: Observation, ended: Option<&Ended>) {
        self.tell_calls(&seen);
        self.tell_opening(now, &seen);
        self.tell_moves(now, &seen);
        self.tell_breaker(now, &seen.stats);
        self.tell_rate(now, &seen);
        self.tell_rounds(now, &seen.stats);
        self.streams.tell_if_due(self.name, now);
        self.tell_closing(now, seen, ended);
        self.told = seen;
    }

    /// Logs the segments sent before the first answer: each is a handshake attempt.
    fn tell_calls(&self, seen: &Observation) {
        if self.told.state != State::SynSent {
            return;
        }
        if seen.stats.cookies_received > self.told.stats.cookies_received {
            tell!(self, "the peer asks for a cookie, and is called again with it");
        } else if seen.state == State::SynSent && seen.stats.segments_sent > self.told.stats.segments_sent {
            let (call, remote) = (seen.stats.segments_sent, seen.remote);
            tell!(self, call, %remote, "{}", if call == 1 { "called" } else { "called again: no answer yet" });
        }
    }

    fn tell_opening(&mut self, now: Time, seen: &Observation) {
        if let (None, Some(identity)) = (self.told.identity, seen.identity) {
            let Identity { pattern, cipher, .. } = identity;
            match identity.peer.as_ref().map(PublicKey::fingerprint) {
                Some(peer) => tell!(self, %peer, ?pattern, ?cipher, "keys agreed"),
                None => tell!(self, peer = "pre-shared key", ?pattern, ?cipher, "keys agreed"),
            }
        }
        let was_opening = matches!(self.told.state, State::SynSent | State::SynReceived);
        if was_opening && seen.state.is_open() {
            let after_ms = Milliseconds(now.since(self.began));
            let (rtt_ms, rate_mbps) = (Milliseconds(seen.stats.rtt), Mbps(seen.stats.rate_bps));
            tell!(self, %after_ms, %rtt_ms, %rate_mbps, "connected");
            self.rate = (now, seen.stats.rate_bps);
        }
    }

    /// Logs address changes at most once per interval, as a peer may move with every datagram.
    fn tell_moves(&mut self, now: Time, seen: &Observation) {
        let (told_at, from, told) = self.address;
        let moves = seen.stats.path_changes - told;
        if moves == 0 || told_at.is_some_and(|told_at| !is_due(told_at, now)) {
            return;
        }
        let (to, rtt_ms) = (seen.remote, Milliseconds(seen.stats.rtt));
        tell!(self, %from, %to, moves, %rtt_ms, "the peer has moved, and has proven its new address");
        self.address = (Some(now), to, seen.stats.path_changes);
    }

    fn tell_breaker(&mut self, now: Time, seen: &Stats) {
        let told = self.told.stats.breaker;
        if seen.breaker == told {
            return;
        }
        let what = match (told, seen.breaker) {
            (_, BreakerState::Testing) => {
                "circuit breaker: much is lost, tests at half the rate whether it is our doing"
            }
            (BreakerState::Limiting, BreakerState::Limiting) => return,
            (_, BreakerState::Limiting) => "circuit breaker: the path is full, holds the rate to what it delivers",
            (BreakerState::Limiting, _) => "circuit breaker: lets go, the whole rate goes through",
            (BreakerState::Testing, BreakerState::LossAccepted) => {
                "circuit breaker: the loss is the path's own, back to the whole rate"
            }
            (BreakerState::Testing, _) => "circuit breaker: too little was sent to judge, back to the whole rate",
            (BreakerState::LossAccepted, _) => "circuit breaker: watches again",
            _ => return,
        };
        let (rate_mbps, loss_percent) = (Mbps(seen.rate_bps), Percent(seen.loss));
        tell!(self, %rate_mbps, %loss_percent, "{what}");
        self.rate = (now, seen.rate_bps);
    }

    /// Logs the rate at most once per interval: a circuit breaker at work, or an application that follows its encoder,
    /// changes it all the time.
    fn tell_rate(&mut self, now: Time, seen: &Observation) {
        let (told_at, told_bps) = self.rate;
        if !seen.state.is_open() || seen.stats.rate_bps == told_bps || !is_due(told_at, now) {
            return;
        }
        let (from_mbps, to_mbps, loss_percent) = (Mbps(told_bps), Mbps(seen.stats.rate_bps), Percent(seen.stats.loss));
        tell!(self, %from_mbps, %to_mbps, %loss_percent, "the rate has changed");
        self.rate = (now, seen.stats.rate_bps);
    }

    fn tell_rounds(&mut self, now: Time, seen: &Stats) {
        let (told_at, blocks, rounds) = self.rounds;
        if seen.later_rounds == rounds || !is_due(told_at, now) {
            return;
        }
        let (blocks, rounds) = (seen.blocks_repeated - blocks, seen.later_rounds - rounds);
        let (loss_percent, rtt_ms) = (Percent(seen.loss), Milliseconds(seen.rtt));
        tell!(self, blocks, rounds, %loss_percent, %rtt_ms, "blocks needed a second round, or more");
        self.rounds = (now, seen.blocks_repeated, seen.later_rounds);
    }

    fn tell_closing(&mut self, now: Time, seen: Observation, ended: Option<&Ended>) {
        // Several states may have been passed since the last service.
        let is_news = |fact: fn(State) -> bool| fact(seen.state) && !fact(self.told.state);
        if is_news(peer_has_ended) {
            tell!(self, "the peer's half has ended, and is complete");
        }
        if is_news(we_have_ended) {
            tell!(self, "our half has ended; the peer is told");
        }
        if is_news(peer_has_all) {
            tell!(self, "the peer has all of our half");
        }
        if is_news(|state| state == State::TimeWait) {
            tell!(self, "both halves have ended; stays to answer late repeats");
            self.tell_totals(now, seen);
        }
        if seen.state == State::Closed && self.told.state != State::Closed {
            self.tell_totals(now, seen);
            match ended {
                Some(Ended::By(error)) => tell!(self, %error, "over"),
                Some(Ended::InOrder) | None => tell!(self, "over, in order"),
            }
        }
    }

    fn tell_totals(&mut self, now: Time, seen: Observation) {
        self.streams.tell(self.name, now);
        if std::mem::replace(&mut self.totals_are_told, true) {
            return;
        }
        let stats = &seen.stats;
        tell!(
            self,
            duration_s = now.since(self.began).as_secs_f64(),
            stream_bytes_sent = stats.stream_bytes_acknowledged,
            stream_bytes_read = stats.stream_bytes_read,
            bytes_sent = stats.bytes_sent,
            bytes_received = stats.bytes_received,
            datagrams_sent = stats.segments_sent,
            datagrams_received = stats.segments_received,
            blocks = stats.blocks_acknowledged,
            blocks_repeated = stats.blocks_repeated,
            later_rounds = stats.later_rounds,
            wasted = stats.wasted.total(),
            dropped = stats.segments_dropped,
            breaker_tests = stats.breaker_tests,
            rtt_ms = %Milliseconds(stats.rtt),
            loss_percent = %Percent(stats.loss),
            "totals"
        );
    }
}

fn peer_has_ended(state: State) -> bool {
    matches!(state, State::CloseWait | State::LastAck | State::TimeWait)
}

fn we_have_ended(state: State) -> bool {
    matches!(state, State::FinWait1 | State::FinWait2 | State::LastAck | State::TimeWait)
}

fn peer_has_all(state: State) -> bool {
    matches!(state, State::FinWait2 | State::TimeWait)
}

fn is_due(told_at: Time, now: Time) -> bool {
    now.since(told_at) >= limits::STORY_INTERVAL
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id:08x}"),
            Self::Ports(ports) => write!(f, "{}-{}", ports.local, ports.remote),
        }
    }
}

struct Milliseconds(Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0.as_secs_f64() * 1e3)
    }
}

/// A rate like [`Stats::rate_bps`], displayed in Mbit/s; 0 is line rate.
struct Mbps(u64);

impl fmt::Display for Mbps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("line"),
            bps => write!(f, "{:.3}", bps as f64 / 1e6),
        }
    }
}

/// A fraction, 0 to 1, displayed in per cent.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests;
