//! An open session, from ESTABLISHED to TIME_WAIT. Connects the components that make the decisions: streams, reporter,
//! closing and path.

mod asked;
mod keep_alive;
pub(in crate::session) mod messages;
mod own_ticket;
mod reading;
mod receive;
mod session_query;
mod transmit;

use dfcp_secure::OpenError;
use dfcp_time::Time;
use dfcp_wire::Features;
use dfcp_wire::segment::ResetReason;

use crate::error::{ConnectionError, Dropped};
use crate::limits::SHORT_PATH_RTT_MAX;
use crate::path::Agreement;
use crate::path::rate::RateBounds;
use crate::proof;
use crate::session::common::Common;
use crate::session::handshake::{DISCOVERY, Handshake, MESSAGES};
use crate::session::messages::Messages;
use crate::session::open::asked::Asked;
use crate::session::open::keep_alive::KeepAlive;
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
use crate::shared::{Timer, earlier, earliest};
use crate::state::State;

/// State that exists only while a session is open.
#[derive(Debug)]
pub(super) struct Open {
    /// Handshake segments that may need retransmission.
    handshake: Handshake,
    /// Third message of a sealed handshake, until the acceptor shows that it has arrived.
    third: Option<Box<[u8]>>,
    closing: Closing,
    own_ticket: OwnTicket,
    /// The peer has sent its reset ticket, which must be acknowledged.
    owes_ticket_ack: bool,
    query: SessionQuery,
    pub(super) reporter: Reporter,
    reading: ReadingTime,
    keep_alive: KeepAlive,
    asked: Asked,
}

impl Open {
    /// Opens a session after the handshake.
    pub(super) fn new(now: Time, common: &mut Common, opening: &mut Opening, agreed: Agreed) -> Self {
        let Agreed { peer, third, ticket } = agreed;
        let keep_alive = KeepAlive::new(&common.config, opening.began_at, peer.idle_timeout);
        let agreement = agreement(common, peer.rate_max_bps);
        common.paths.active_mut().establish(now, agreement);
        let symbol_sizes = (common.symbol_size, common.packet_symbol_bytes());
        let window = (peer.window_blocks, peer.memory_bytes);
        common.streams.send.establish(now, common.paths.active(), symbol_sizes, window);
        common.streams.on_open(peer.streams);
        common.link.numbers.skip_some(common.random.bytes());
        common.streams.recv.set_symbol_size(common.symbol_size);
        if common.features.contains(MESSAGES) {
            // Packets have the base size until discovery finds a larger one.
            let base_symbol_size = common.streams.send.packet_symbol_size();
            let messages = Messages::new(common.symbol_size, base_symbol_size, common.link.is_sealed);
            common.messages = Some(Box::new(messages));
        }
        common.events.push(EventKind::Connected);
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
            asked: Asked::new(common),
        }
    }

    pub(super) fn state(&self) -> State {
        self.closing.state()
    }

    /// Describes the data waiting to be sent, for a driver that lets sessions take turns.
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

    /// Reports freed receive window to the peer, once it is considerably larger than the window last reported.
    pub(super) fn tell_of_room(&mut self, now: Time, common: &mut Common) {
        if common.streams.recv.has_room_to_tell() {
            self.reporter.on_own_news(now);
        }
    }

    /// Starts closing once only our first stream is left and its end is known: the first stream's FIN promises that no
    /// other data follows. FIN is repeated as long as there is progress, so it is sent immediately (\[close-1\]).
    fn start_closing(&mut self, now: Time, common: &mut Common) {
        let send = &common.streams.send;
        let Some(end) = send.first_end().filter(|_| send.is_only_first()) else { return };
        if common.messages.is_some() {
            // Messages must be complete before FIN ([message-13]).
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

    /// Updates the closing state after an event that may have ended a direction. Returns the end of the session, if it
    /// ends.
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
        if common.streams.recv.is_first_finished() {
            self.closing.on_peer_done();
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

    // ---- time ----

    pub(in crate::session) fn next_timeout(&self, now: Time, common: &Common) -> Option<(Time, Timer)> {
        let owes_answer = self.handshake.owes() || self.closing.due_ack().is_some() || self.owes_ticket_ack;
        earliest([
            (self.idle_at(common), Timer::Idle),
            (self.handshake.next_timeout(), Timer::Handshake),
            ((owes_answer || common.path().owes_size_answer()).then_some(now), Timer::Answer),
            (common.streams.recv.answer_at(), Timer::Answer),
            (self.closing.next_timeout(), Timer::Closing),
            (self.report_due_at(common), Timer::Report),
            (self.keep_alive_at(common), Timer::KeepAlive),
            (self.query_at(), Timer::Query),
            (self.own_ticket_at(common), Timer::Ticket),
            (self.data_at(now, common), Timer::Data),
            (self.size_probe_at(common), Timer::Data),
            (common.path().suspect_at(), Timer::Data),
            (common.paths.due_at(), Timer::Path),
        ])
    }

    /// Handles expired timeouts. Returns the end of the session, if it ends.
    pub(in crate::session) fn handle_timeout(&mut self, now: Time, common: &Common) -> Option<End> {
        if self.handshake.is_exhausted(now) {
            self.handshake.stop_timer();
        }
        if self.closing.time_wait_until().is_some_and(|until| now >= until) {
            return Some(End::default());
        }
        if self.idle_at(common).is_some_and(|at| now >= at) {
            return Some(End::because(ConnectionError::TimedOut));
        }
        self.closing.is_exhausted(now).then(|| End::because(ConnectionError::CloseTimeout))
    }

    /// Returns the time when silence ends the session (\[idle-1\], \[silence-3\]).
    fn idle_at(&self, common: &Common) -> Option<Time> {
        let is_over = self.closing.time_wait_until().is_some();
        (!is_over).then(|| common.last_heard + common.config.idle_timeout)
    }

    fn report_due_at(&self, common: &Common) -> Option<Time> {
        let regular =
            self.reporter.due_at(common.path().rtt().report_interval(), common.path().rtt().report_interval_of_much());
        earlier(regular, self.credit_report_at(common))
    }

    /// Time to report more stream credit to a peer that waits for it.
    fn credit_report_at(&self, common: &Common) -> Option<Time> {
        common.streams.ids.credit_at().and_then(|at| self.reporter.due_for(at))
    }

    fn keep_alive_at(&self, common: &Common) -> Option<Time> {
        if self.state().is_open() { self.keep_alive.due_at(common) } else { None }
    }

    /// Time to query a silent peer for a lost session.
    #[inline]
    fn query_at(&self) -> Option<Time> {
        self.query.due_at().filter(|_| self.state() != State::TimeWait)
    }

    /// Time to send our reset ticket. Not before the third handshake message has arrived, since the peer could not
    /// decrypt it.
    #[inline]
    fn own_ticket_at(&self, common: &Common) -> Option<Time> {
        self.own_ticket.due_at(common.last_heard).filter(|_| self.third.is_none() && self.state().is_open())
    }

    /// Time of the next probe of the packet size.
    fn size_probe_at(&self, common: &Common) -> Option<Time> {
        if self.state() == State::TimeWait {
            return None;
        }
        common.path().size_probe_at(&common.link.arrivals, || common.spending())
    }

    /// Returns the earliest time for sending data, as far as it is known.
    fn data_at(&self, now: Time, common: &Common) -> Option<Time> {
        if self.state() == State::TimeWait {
            return None;
        }
        if self.asked.may_have_data(common) {
            return Some(common.path().ready_at().max(now));
        }
        let message = Messages::next_at(self.asked.at(), common);
        // A symbol that was already due at the last poll, and was not sent, waits for an event instead of a timer.
        let fresh = common.streams.send.next_timeout(self.asked.at(), common.paths.active(), common.spending());
        earlier(fresh, message).map(|at| at.max(common.path().ready_at()))
    }
}

/// Returns the agreed parameters that concern the path. `rate_max_bps` is the rate that the peer permits us.
fn agreement(common: &Common, rate_max_bps: u64) -> Agreement {
    let symbol_bytes = proof::data_bytes_max(common.symbol_size, common.link.is_sealed);
    Agreement {
        reads_clock: common.features.contains(Features::ARRIVAL_CLOCK),
        bounds: RateBounds::new(&common.config, rate_max_bps),
        packet_bytes: u16::try_from(symbol_bytes + common.around_symbol_bytes()).unwrap_or(u16::MAX),
        has_discovery: common.features.contains(DISCOVERY),
    }
}

/// Returns the effect of a datagram that fails authentication: none, until the forgery limit is reached (\[seal-7\]).
pub(super) fn unopened(error: &OpenError) -> Stop {
    match error {
        OpenError::ForgeryLimit => End::because(ConnectionError::ForgeryLimit).into(),
        _ => Dropped::Forged.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use crate::security::PeerKey;
    use crate::session::handshake::PeerLimits;
    use crate::shared::{Ports, Role};

    /// [close-6]
    #[test]
    fn time_wait_lasts_32_seconds() {
        let start = Time::from_s(1);
        for config in [Config::sealed(PeerKey::Any), Config::danger_unsealed()] {
            let (ports, remote) = (Ports { local: 4_000, remote: 9 }, ([198, 51, 100, 1], 9).into());
            let mut common = Common::new(start, Arc::new(config), ports, remote, Role::Initiator, [3; 32]);
            let agreed = Agreed { peer: PeerLimits::default(), third: None, ticket: None };
            let mut open = Open::new(start, &mut common, &mut Opening::accept(start), agreed);
            open.closing.start(start, 0, &RetransmitSchedule::MODERN);
            open.closing.on_fin_acknowledged(Some(0));
            open.closing.on_peer_fin(0);
            open.closing.on_peer_done();
            assert_eq!(open.update_closing(start, &mut common), None);
            let end = start + Duration::from_secs(32);
            assert_eq!((open.state(), open.closing.next_timeout()), (State::TimeWait, Some(end)));
            assert_eq!(open.handle_timeout(end - Duration::from_millis(1), &common), None);
            assert_eq!(open.handle_timeout(end, &common), Some(End::default()));
        }
    }
}
