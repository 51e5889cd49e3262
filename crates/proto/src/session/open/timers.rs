//! Timers of an open session.

use std::time::Duration;

use dfcp_time::Time;

use crate::error::ConnectionError;
use crate::limits::KEEP_ALIVE_REPEAT;
use crate::session::End;
use crate::session::common::Common;
use crate::session::open::Open;
use crate::session::open::messages::Messages;
use crate::shared::state::State;
use crate::shared::{Timer, earlier, earliest};

/// Interval at which a sender whose window is closed asks if it still is.
const WINDOW_PROBE: Duration = Duration::from_secs(1);
/// The least silence after which a receiver asks for the rest of a block.
const MISSING_MIN: Duration = Duration::from_millis(200);
/// The same for news of a path on which no message seems to be in time: at least this, and the round trip.
const PATH_PROBE_MIN: Duration = Duration::from_millis(20);

impl Open {
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

    /// Lets time pass; how the session ends, if it does.
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

    /// Time at which silence ends the session (\[idle-1\], \[silence-3\]).
    fn idle_at(&self, common: &Common) -> Option<Time> {
        let is_over = self.closing.time_wait_until().is_some();
        (!is_over).then(|| common.last_heard + common.config.idle_timeout)
    }

    pub(super) fn report_due_at(&self, common: &Common) -> Option<Time> {
        let regular =
            self.reporter.due_at(common.path().rtt().report_interval(), common.path().rtt().report_interval_of_much());
        earlier(regular, self.credit_report_at(common))
    }

    /// Time to tell a peer which waits for it of more streams that it may open.
    pub(super) fn credit_report_at(&self, common: &Common) -> Option<Time> {
        common.streams.ids.credit_at().and_then(|at| self.reporter.due_for(at))
    }

    pub(super) fn keep_alive_at(&self, common: &Common) -> Option<Time> {
        if !self.state().is_open() {
            return None;
        }
        if self.owes_keep_alive {
            return Some(Time::ZERO);
        }
        let regular = self.keep_alive.map(|interval| {
            if self.last_keep_alive <= common.last_heard {
                return common.last_sent + interval;
            }
            // Three unanswered ones in an idle timeout are no rarity at 50 % loss ([idle-2]).
            self.last_keep_alive + interval.min(KEEP_ALIVE_REPEAT.max(common.path().rtt().smoothed() * 2))
        });
        // The report which opens a closed window, or permits a stream, may have been lost: ask for another ([silence-5]).
        let asks = common.streams.send.stuck().is_some() || common.streams.wants_more();
        let regular = earlier(regular, asks.then_some(self.last_keep_alive + WINDOW_PROBE));
        let regular = earlier(regular, common.streams.recv.has_open_blocks().then(|| self.missing_at(common)));
        // An estimate forbids sending, and nothing else would correct it ([message-14]).
        if common.messages.as_ref().is_some_and(|messages| messages.send.is_hopeless()) {
            return earlier(regular, Some(self.last_keep_alive + common.path().rtt().smoothed().max(PATH_PROBE_MIN)));
        }
        regular
    }

    /// Time to ask a silent peer if it has lost the session.
    #[inline]
    pub(super) fn query_at(&self) -> Option<Time> {
        self.query.due_at().filter(|_| self.state() != State::TimeWait)
    }

    /// Time to tell the peer this side's reset ticket: it can open nothing before the handshake's last message has come.
    #[inline]
    pub(super) fn own_ticket_at(&self, common: &Common) -> Option<Time> {
        self.own_ticket.due_at(common.last_heard).filter(|_| self.third.is_none() && self.state().is_open())
    }

    /// Time to ask for what this side lacks. A NAT that has given it another port lets nothing in until the peer has heard of that
    /// ([idle-2]).
    fn missing_at(&self, common: &Common) -> Time {
        let wait = MISSING_MIN.max(common.path().rtt().smoothed() * 4);
        let asked = self.last_keep_alive.max(common.last_heard);
        asked + wait.max(asked.since(common.last_heard) / 4).min(WINDOW_PROBE.max(wait))
    }

    /// Time of the next probe of the packet size.
    pub(super) fn size_probe_at(&self, common: &Common) -> Option<Time> {
        if self.state() == State::TimeWait {
            return None;
        }
        common.path().size_probe_at(&common.link.arrivals, || common.spending())
    }

    /// Earliest time for data, as far as is known.
    fn data_at(&self, now: Time, common: &Common) -> Option<Time> {
        if self.state() == State::TimeWait {
            return None;
        }
        if self.asked.may_have_data(common) {
            return Some(common.path().ready_at().max(now));
        }
        let message = Messages::next_at(self.asked.at(), common);
        // Anything due when the sender was last asked and had nothing waits for another event.
        let fresh = common.streams.send.next_timeout(self.asked.at(), common.paths.active(), common.spending());
        earlier(fresh, message).map(|at| at.max(common.path().ready_at()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::security::PeerKey;
    use crate::session::handshake::PeerLimits;
    use crate::session::opening::{Agreed, Opening};
    use crate::shared::retransmit::RetransmitSchedule;
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
