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

/// Features for packet size discovery: path probes, and fragments of symbols for a path that becomes narrower.
pub(crate) const DISCOVERY: Features = Features::PATH_PROBES.union(Features::FRAGMENTS);

/// Features for messages: message segments, and reports of loss runs, which name the lost datagrams.
pub(crate) const MESSAGES: Features = Features::MESSAGES.union(Features::LOSS_RUNS);

/// Returns the features of `spec/wire-format.md` §4 that we offer, and from which we choose as acceptor.
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

/// Returns the options of a modern SYN, which offers [`features`], or of a plaintext SYNACK, which chooses among the
/// offered ones.
pub(crate) fn syn_options(symbol_size: u16, features: Features) -> SynOptions {
    let symbol_size = SymbolSize::nearest(symbol_size);
    SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, features }
}

/// Returns true if a SYNACK chooses only features that we have offered (\[open-18\]).
pub(crate) const fn are_offered(chosen: Features, config: &Config) -> bool {
    features(config).contains(chosen)
}

/// Returns true for a segment that needs no features beyond those in `chosen` (\[open-40\]).
#[inline]
pub(crate) const fn is_permitted(segment: &Segment, chosen: Features) -> bool {
    chosen.contains(segment.needs())
}

/// Returns the symbol size, bytes, in a SYN or SYNACK with these options. `None` if we do not support the version, code
/// or size (\[open-15\]). With proofs, whoever takes the size lowers it to what a sealed datagram has room for.
pub(crate) fn offered_symbol_size(options: Option<SynOptions>) -> Option<u16> {
    let SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, .. } = options? else { return None };
    let sizes = limits::SYMBOL_SIZE_MIN..=symbol_size_max(false);
    Some(symbol_size.bytes()).filter(|bytes| sizes.contains(bytes))
}

/// The contents of a SYN or SYNACK, except the ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opener<'a> {
    pub(crate) options: Option<SynOptions>,
    /// Sequence number of the segment.
    pub(crate) number: u32,
    /// Payload of the segment: a handshake payload.
    pub(crate) payload: &'a [u8],
}

/// Handshake segments still to be sent, and their retransmission timer.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// Retransmission timer of the SYN, of the SYNACK in a simultaneous open, and of the ACK that completes the
    /// handshake. `None` once the peer has answered.
    timer: Option<RetransmitTimer>,
    /// Answers owed to copies of the peer's segment.
    owed: u8,
    echo: u32,
    /// Numbers of our handshake segments, each with the time when it was sent.
    sent_at: VecDeque<(u32, Time)>,
}

impl Handshake {
    /// Records a SYN or SYNACK of the peer: one more answer is owed, which echoes `number`.
    pub(crate) fn owe(&mut self, number: u32) {
        self.owed = (self.owed + 1).min(limits::ANSWERS_OWED_MAX);
        self.echo = number;
    }

    pub(crate) fn owes(&self) -> bool {
        self.owed > 0
    }

    /// Cancels all owed answers.
    pub(crate) fn clear_owed(&mut self) {
        self.owed = 0;
    }

    /// Stops retransmission after the peer has answered.
    pub(crate) fn stop_timer(&mut self) {
        self.timer = None;
    }

    /// Returns true once the time to wait for an answer has expired.
    pub(crate) fn is_exhausted(&self, now: Time) -> bool {
        self.timer.is_some_and(|timer| timer.is_exhausted(now))
    }

    /// Time of the next retransmission, or of giving up.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.timer.map(|timer| timer.next_at())
    }

    /// Returns true if a handshake segment is due at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.owes() || self.timer.is_some_and(|timer| timer.is_due(now))
    }

    /// Number of copies of our segment sent by the timer. Copies that answer a segment of the peer are excluded.
    pub(crate) fn timed_copies(&self) -> u32 {
        self.timer.map_or(0, |timer| timer.sent())
    }

    /// Number to echo in an answer.
    pub(crate) fn echo(&self) -> u32 {
        self.echo
    }

    /// Records that one owed answer, if any, is being sent.
    pub(crate) fn on_answer(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }

    /// Records that a handshake segment with this number was sent.
    pub(crate) fn on_sent(&mut self, now: Time, number: u32) {
        if self.sent_at.len() == limits::ECHOES_MAX {
            self.sent_at.pop_front();
        }
        self.sent_at.push_back((number, now));
        if let Some(timer) = self.timer.as_mut().filter(|timer| timer.is_due(now)) {
            timer.on_sent(now);
        }
    }

    /// Returns the RTT measured by an echo of our segment `number`. `None` if that segment is not remembered.
    pub(crate) fn rtt(&self, now: Time, number: u32) -> Option<Duration> {
        self.sent_at.iter().find(|&&(sent, _)| sent == number).map(|&(_, at)| now.since(at))
    }

    pub(crate) fn start_timer(&mut self, now: Time) {
        self.timer = Some(RetransmitTimer::start(now, &RetransmitSchedule::MODERN));
    }
}

/// Limits declared by the peer that bind our sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerLimits {
    pub(crate) window_blocks: u32,
    /// Memory for blocks that the peer's application has not read, bytes.
    pub(crate) memory_bytes: u64,
    /// Initial number of streams that we may open, by kind.
    pub(crate) streams: StreamLimits,
    /// Rate that the peer permits us, bits of IP packets per second; 0 means unlimited.
    pub(crate) rate_max_bps: u64,
    /// Silence after which the peer gives up. `None` if it never does.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A sealed SYN may offer more than a sealed datagram has room for: the acceptor lowers it (\[open-15\]).
    #[test]
    fn symbol_sizes_that_no_sealed_datagram_has_room_for_are_no_reason_to_refuse() {
        let options = |bytes| {
            let symbol_size = SymbolSize::new(bytes).expect("in range");
            SynOptions { version: VERSION, code: CODE_RANDOM_LINEAR, symbol_size, features: Features::NONE }
        };
        assert!(1_468 > symbol_size_max(true));
        assert_eq!(offered_symbol_size(Some(options(1_468))), Some(1_468));
        assert_eq!(offered_symbol_size(Some(options(64))), Some(64));
        for bytes in [60, 1_472] {
            assert_eq!(offered_symbol_size(Some(options(bytes))), None, "{bytes}");
        }
        assert_eq!(offered_symbol_size(None), None);
    }
}
