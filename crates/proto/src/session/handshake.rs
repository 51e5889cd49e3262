//! The three-way handshake (thesis §3.6; `spec/protocol.md`, "Opening").

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::handshake::Offer;
use dfcp_wire::segment::{Segment, SynOptions};
use dfcp_wire::{Features, StreamLimits, SymbolSize, VERSION};

use crate::config::Config;
use crate::limits;
use crate::proof::symbol_size_max;
use crate::shared::retransmit::{RetransmitSchedule, RetransmitTimer};

/// The code id of the systematic random linear fountain over GF(256).
pub(crate) const CODE_RANDOM_LINEAR: u8 = 1;

/// Features for packet size discovery: probes, and parts of symbols where the path becomes narrower.
pub(crate) const DISCOVERY: Features = Features::PATH_PROBES.union(Features::FRAGMENTS);

/// Features for messages: their segments, and reports that tell which datagrams are lost.
pub(crate) const MESSAGES: Features = Features::MESSAGES.union(Features::LOSS_RUNS);

/// The features which we offer and choose of those that `spec/wire-format.md` §4 names.
pub(crate) const fn features(config: &Config) -> Features {
    let mut features = Features::ARRIVAL_CLOCK.union(Features::ECN_COUNTS);
    if config.packet_size_discovery {
        features = features.union(DISCOVERY);
    }
    if config.messages {
        features = features.union(MESSAGES);
    }
    features
}

/// The options of a modern SYN, which offers [`features`], and of the SYNACK of an unsealed one, which chooses of them.
pub(crate) fn syn_options(symbol_size: u16, features: Features) -> SynOptions {
    let symbol_size = SymbolSize::nearest(symbol_size);
    SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, features }
}

/// True if a SYNACK chooses only what we have offered (\[open-18\]).
pub(crate) const fn are_offered(chosen: Features, config: &Config) -> bool {
    features(config).contains(chosen)
}

/// True for a segment that needs no feature, or only those in `chosen` (\[open-40\]).
#[inline]
pub(crate) const fn is_permitted(segment: &Segment, chosen: Features) -> bool {
    chosen.contains(segment.needs())
}

/// The symbol size of a SYN or SYNACK with these options, if it asks for what we speak (\[open-15\]).
pub(crate) fn offered_symbol_size(options: Option<SynOptions>, sealed: bool) -> Option<u16> {
    let SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, .. } = options? else { return None };
    let sizes = limits::SYMBOL_SIZE_MIN..=symbol_size_max(sealed);
    Some(symbol_size.bytes()).filter(|bytes| sizes.contains(bytes))
}

/// The contents of a SYN, besides the ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener<'a> {
    pub(crate) options: Option<SynOptions>,
    /// The segment's number.
    pub(crate) number: u32,
    /// The segment's payload: a handshake payload.
    pub(crate) payload: &'a [u8],
}

/// Handshake segments still to be sent, and the timer of their copies.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// Copies of the SYN, and of the initiator's ACK until it hears something.
    timer: Option<RetransmitTimer>,
    /// Answers owed to copies of the peer's segment, each with the number of the latest copy.
    owed: u8,
    echo: u32,
    /// Our numbered segments, each with the time when it left.
    sent_at: VecDeque<(u32, Time)>,
}

impl Handshake {
    /// The peer's SYN or SYNACK has come: one answer is owed, naming `number`.
    pub(crate) fn owe(&mut self, number: u32) {
        self.owed = (self.owed + 1).min(limits::ANSWERS_OWED_MAX);
        self.echo = number;
    }

    pub(crate) fn owes(&self) -> bool {
        self.owed > 0
    }

    /// No answer is owed any more.
    pub(crate) fn clear_owed(&mut self) {
        self.owed = 0;
    }

    /// The peer has been heard: nothing is repeated.
    pub(crate) fn stop_timer(&mut self) {
        self.timer = None;
    }

    /// True once the time to wait for an answer is over.
    pub(crate) fn is_exhausted(&self, now: Time) -> bool {
        self.timer.is_some_and(|timer| timer.is_exhausted(now))
    }

    /// Time of the next copy, or of giving up.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timer.map(|timer| timer.next_at())
    }

    /// True if a handshake segment is due at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.owes() || self.timer.is_some_and(|timer| timer.is_due(now))
    }

    /// Copies of our segment that the timer has sent, and no copy of the peer's.
    pub(crate) fn timed_copies(&self) -> u32 {
        self.timer.map_or(0, |timer| timer.sent())
    }

    /// The number to echo in an answer.
    pub(crate) fn echo(&self) -> u32 {
        self.echo
    }

    /// One of the answers which are owed, if any are, is on its way.
    pub(crate) fn on_answer(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }

    /// A segment of the handshake has left with this number.
    pub(crate) fn on_sent(&mut self, now: Time, number: u32) {
        if self.sent_at.len() == limits::ECHOES_MAX {
            self.sent_at.pop_front();
        }
        self.sent_at.push_back((number, now));
        if let Some(timer) = self.timer.as_mut().filter(|timer| timer.is_due(now)) {
            timer.on_sent(now);
        }
    }

    /// The RTT that an echo of our segment `number` shows.
    pub(crate) fn rtt(&self, now: Time, number: u32) -> Option<Duration> {
        self.sent_at.iter().find(|&&(sent, _)| sent == number).map(|&(_, at)| now.since(at))
    }

    pub(crate) fn start_timer(&mut self, now: Time) {
        self.timer = Some(RetransmitTimer::start(now, &RetransmitSchedule::MODERN));
    }
}

/// The peer's declared limits, as far as they concern our sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerLimits {
    pub(crate) window_blocks: u32,
    /// Memory that it lends to unread blocks.
    pub(crate) memory_bytes: u64,
    /// Streams that we may open at first.
    pub(crate) streams: StreamLimits,
    /// The rate it permits us; 0 is any.
    pub(crate) rate_max_bps: u64,
    /// The silence after which it gives up, if it ever does.
    pub(crate) idle_timeout: Option<Duration>,
}

impl From<&Offer> for PeerLimits {
    fn from(offer: &Offer) -> Self {
        Self {
            window_blocks: offer.window_blocks,
            memory_bytes: offer.receive_memory_bytes,
            streams: offer.streams,
            rate_max_bps: offer.rate_max_bps,
            idle_timeout: (offer.idle_timeout_ms > 0).then(|| Duration::from_millis(offer.idle_timeout_ms.into())),
        }
    }
}
