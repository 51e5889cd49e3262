//! A session which is open: from ESTABLISHED to TIME_WAIT. Wiring over the small owners which decide (streams, reporter,
//! closing; the path).

mod asked;
pub(in crate::session) mod messages;
mod own_ticket;
mod reading;
mod receive;
mod session_query;
mod spending;
mod timers;
mod transmit;

use std::time::Duration;

use dfcp_secure::OpenError;
use dfcp_time::Time;
use dfcp_wire::Features;
use dfcp_wire::segment::ResetReason;

use crate::error::{ConnectionError, Dropped};
use crate::limits::{KEEP_ALIVE_MIN, SHORT_PATH_RTT_MAX};
use crate::path::Agreement;
use crate::path::rate::RateBounds;
use crate::proof;
use crate::session::common::Common;
use crate::session::handshake::{DISCOVERY, Handshake, MESSAGES};
use crate::session::open::asked::Asked;
use crate::session::open::messages::Messages;
use crate::session::open::own_ticket::OwnTicket;
use crate::session::open::reading::ReadingTime;
use crate::session::open::session_query::SessionQuery;
use crate::session::opening::{Agreed, Opening};
use crate::session::reporter::Reporter;
use crate::session::sharing::Sending;
use crate::session::{End, Stop};
use crate::shared::closing::Closing;
use crate::shared::events::EventKind;
use crate::shared::retransmit::RetransmitSchedule;
use crate::shared::state::State;

/// State that exists only while a session is open.
#[derive(Debug)]
pub(super) struct Open {
    /// Handshake segments that may need retransmission.
    handshake: Handshake,
    /// The third message of a sealed one, until the acceptor shows that it has come.
    third: Option<Box<[u8]>>,
    closing: Closing,
    own_ticket: OwnTicket,
    /// The peer has told its ticket, and is to hear that it has come.
    owes_ticket_ack: bool,
    query: SessionQuery,
    pub(super) reporter: Reporter,
    reading: ReadingTime,
    /// The configured silence before we speak, or what the peer needs.
    keep_alive: Option<Duration>,
    last_keep_alive: Time,
    /// The peer is to hear from our new address at once.
    owes_keep_alive: bool,
    asked: Asked,
}

impl Open {
    /// The handshake is done.
    pub(super) fn new(now: Time, common: &mut Common, opening: &mut Opening, agreed: Agreed) -> Self {
        let Agreed { peer, third, ticket } = agreed;
        let config = &common.config;
        // A peer which gives up sooner than we would speak must hear of us in time ([idle-3]).
        let keep_alive = config.keep_alive.map(|keep_alive| match peer.idle_timeout {
            Some(idle) => keep_alive.min(idle / 3).max(KEEP_ALIVE_MIN),
            None => keep_alive,
        });
        let agreement = agreement(common, peer.rate_max_bps);
        common.paths.active_mut().establish(now, agreement);
        let symbol_sizes = (common.symbol_size, common.packet_symbol_bytes());
        let window = (peer.window_blocks, peer.memory_bytes);
        common.streams.send.establish(now, common.paths.active(), symbol_sizes, window);
        common.streams.on_open(peer.streams);
        common.link.numbers.skip_some(common.random.bytes());
        common.streams.recv.set_symbol_size(common.symbol_size);
        if common.features.contains(MESSAGES) {
            common.messages = Some(Box::new(Messages::new(common)));
        }
        common.events.push(EventKind::Connected);
        common.events.push(EventKind::Writable);
        Self {
            handshake: std::mem::take(&mut opening.handshake),
            third,
            closing: Closing::default(),
            own_ticket: OwnTicket::new(now, ticket),
            owes_ticket_ack: false,
            query: SessionQuery::default(),
            reporter: Reporter::default(),
            reading: ReadingTime::default(),
            keep_alive,
            last_keep_alive: opening.began_at,
            owes_keep_alive: false,
            asked: Asked::new(common),
        }
    }

    pub(super) fn state(&self) -> State {
        self.closing.state()
    }

    /// True once the peer has confirmed the end of our half of the first stream.
    pub(super) fn is_finished(&self) -> bool {
        self.closing.is_fin_acknowledged()
    }

    /// The data that the session has to send, for a driver that lets sessions take turns.
    pub(super) fn sending(&self, common: &Common) -> Sending {
        let send = &common.streams.send;
        let is_under_way = send.is_under_way(common.paths.active());
        Sending {
            is_under_way,
            is_busy: is_under_way || send.is_writer_held_up(),
            takes_turns: common.path().rate_bps().is_none()
                && common.path().flight().least_rtt().is_some_and(|rtt| rtt <= SHORT_PATH_RTT_MAX),
            has_used_allowance: send.has_used_allowance(),
        }
    }

    /// Tells the peer once a good part more of the window is free than it knows of.
    pub(super) fn tell_of_room(&mut self, now: Time, common: &mut Common) {
        if common.streams.recv.has_room_to_tell() {
            self.reporter.on_own_news(now);
        }
    }

    /// Our FIN, once every stream has said where it ends: that of the first one says that nothing else will come. It is
    /// repeated as long as there is progress, so it is sent at once (\[close-1\]).
    fn start_closing(&mut self, now: Time, common: &mut Common) {
        let send = &common.streams.send;
        let Some(end) = send.first_end().filter(|_| send.is_only_first()) else { return };
        if common.messages.is_some() {
            // They are a part of what comes ([message-13]).
            let path = messages::path_view(common);
            let Some(messages) = &mut common.messages else { return };
            messages.send.end(now, &path);
            if messages.send.is_at_work() {
                return;
            }
        }
        self.closing.start(now, end, &RetransmitSchedule::MODERN);
        common.streams.on_ending();
    }

    /// After anything that can end a direction: the states which follow, and how the session ends if it does.
    pub(super) fn update_closing(&mut self, now: Time, common: &mut Common) -> Option<End> {
        if common.streams.send.is_exhausted() {
            let error = Some(ConnectionError::StreamTooLong);
            return Some(End { error, reset: Some(ResetReason::Unspecified) });
        }
        if common.path().is_too_narrow() {
            let error = Some(ConnectionError::PathTooNarrow);
            return Some(End { error, reset: Some(ResetReason::PathTooNarrow) });
        }
        self.start_closing(now, common);
        if common.streams.recv.is_first_finished() && self.closing.on_peer_done() {
            common.events.push(EventKind::Readable);
        }
        match self.closing.state() {
            State::TimeWait => {
                if self.closing.time_wait_until().is_none() {
                    self.closing.enter_time_wait(now + common.config.time_wait);
                }
                None
            }
            State::Closed => Some(End::default()),
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::LastAck => None,
        }
    }
}

/// The agreed parameters that concern the path; the peer permits us `rate_max_bps`.
fn agreement(common: &Common, rate_max_bps: u64) -> Agreement {
    let symbol_bytes = proof::data_bytes_max(common.symbol_size, common.link.is_sealed);
    Agreement {
        reads_clock: common.features.contains(Features::ARRIVAL_CLOCK),
        bounds: RateBounds::new(&common.config, rate_max_bps),
        packet_bytes: u16::try_from(symbol_bytes + common.around_symbol_bytes()).unwrap_or(u16::MAX),
        has_discovery: common.features.contains(DISCOVERY),
    }
}

/// A datagram which is not authentic has no effect, until there have been too many of them (\[seal-7\]).
pub(super) fn unopened(error: &OpenError) -> Stop {
    match error {
        OpenError::ForgeryLimit => End::because(ConnectionError::ForgeryLimit).into(),
        _ => Dropped::Forged.into(),
    }
}
