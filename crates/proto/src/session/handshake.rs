//! The three-way handshake (thesis §3.6; `spec/protocol.md`, "Opening").

use std::collections::VecDeque;
use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::handshake::Offer;

use crate::limits;
use crate::shared::Role;
use crate::shared::retransmit::{RetransmitSchedule, RetransmitTimer};

/// The code id of the systematic random linear fountain over GF(256).
pub(crate) const CODE_RANDOM_LINEAR: u8 = 1;

/// What a bare modern ACK is, in S1.
pub(crate) const ACK_KEEP_ALIVE: u32 = 0;
pub(crate) const ACK_OF_FIN: u32 = 1;
pub(crate) const ACK_OF_SYNACK: u32 = 2;
pub(crate) const ACK_PATH_CHALLENGE: u32 = 3;
pub(crate) const ACK_PATH_RESPONSE: u32 = 4;

/// The identifiers which both ends choose, and what is still to be said about them.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) role: Role,
    /// What the peer puts into the port fields of segments to us.
    pub(crate) local_id: u32,
    /// What we put into the port fields of segments to the peer, once known.
    pub(crate) peer_id: Option<u32>,
    /// Copies of the SYN, and of the initiator's ACK until it hears something.
    pub(crate) timer: Option<RetransmitTimer>,
    /// Answers owed to copies of the peer's segment, each with the number of the latest copy.
    owed: u8,
    echo: u32,
    /// The third message of a sealed handshake, until the acceptor shows that it has come.
    pub(crate) third: Option<Box<[u8]>>,
    /// Handshake segments sent, which a sealed connection numbers apart from its datagrams.
    sent: u32,
    /// When our numbered segments left.
    sent_at: VecDeque<(u32, Time)>,
}

impl Handshake {
    pub(crate) fn new(role: Role, local_id: u32) -> Self {
        Self {
            role,
            local_id,
            peer_id: None,
            timer: None,
            owed: 0,
            echo: 0,
            third: None,
            sent: 0,
            sent_at: VecDeque::new(),
        }
    }

    /// Whether the peer has said who it is.
    pub(crate) fn has_peer(&self) -> bool {
        self.peer_id.is_some()
    }

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

    /// The acceptor has been heard: nothing of the handshake need be repeated.
    pub(crate) fn complete(&mut self) {
        self.timer = None;
        self.third = None;
    }

    /// Copies of our segment which have left by themselves, and not because somebody's made them.
    pub(crate) fn timed_copies(&self) -> u32 {
        self.timer.map_or(0, |timer| timer.sent())
    }

    /// The number of the next one.
    pub(crate) fn next_number(&mut self) -> u32 {
        let number = self.sent;
        self.sent = self.sent.saturating_add(1);
        number
    }

    /// The number to echo in the answer.
    pub(crate) fn answer(&mut self) -> u32 {
        self.owed = self.owed.saturating_sub(1);
        self.echo
    }

    pub(crate) fn echo(&self) -> u32 {
        self.echo
    }

    pub(crate) fn on_sent(&mut self, now: Time, number: u32) {
        if self.sent_at.len() == limits::ECHOES_MAX {
            self.sent_at.pop_front();
        }
        self.sent_at.push_back((number, now));
    }

    /// The RTT that an echo of our segment `number` shows.
    pub(crate) fn rtt(&self, now: Time, number: u32) -> Option<Duration> {
        self.sent_at.iter().find(|&&(sent, _)| sent == number).map(|&(_, at)| now.since(at))
    }

    pub(crate) fn start_timer(&mut self, now: Time) {
        self.timer = Some(RetransmitTimer::start(now, &RetransmitSchedule::MODERN));
    }
}

/// What the peer declared, as far as it concerns our sender.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerLimits {
    pub(crate) window_blocks: u32,
    pub(crate) window_bytes: u64,
    /// The rate it permits us; 0 is any.
    pub(crate) rate_max_bps: u64,
    /// The silence after which it gives up, if it ever does.
    pub(crate) idle_timeout: Option<Duration>,
}

impl From<&Offer> for PeerLimits {
    fn from(offer: &Offer) -> Self {
        Self {
            window_blocks: offer.window_blocks,
            window_bytes: offer.receive_memory_bytes,
            rate_max_bps: offer.rate_max_bps,
            idle_timeout: (offer.idle_timeout_ms > 0).then(|| Duration::from_millis(offer.idle_timeout_ms.into())),
        }
    }
}
