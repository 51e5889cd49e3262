//! What happens when nothing else does.

use std::time::Duration;

use dfcp_time::Time;

use crate::error::ConnectionError;
use crate::limits::KEEP_ALIVE_REPEAT;
use crate::session::{Phase, Session};
use crate::shared::state::State;
use crate::shared::{Role, Timer, earlier, earliest};

/// How often a sender whose window is closed asks whether it still is.
const WINDOW_PROBE: Duration = Duration::from_secs(1);

impl Session {
    /// When [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) must be called again
    /// at the latest, and for what; a time in the past means now. `None` once the connection is closed.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        if matches!(self.phase, Phase::Closed(_)) {
            return self.reset.is_some().then_some((now, Timer::Reset));
        }
        let owes_answer = self.handshake.owes() || self.ack_waits();
        earliest([
            (self.idle_at(), Timer::Idle),
            (self.handshake.timer.map(|timer| timer.next_at()), Timer::Handshake),
            (owes_answer.then_some(now), Timer::Answer),
            (self.recv.answer_at().filter(|_| self.phase == Phase::Open), Timer::Answer),
            (self.closing.next_timeout(), Timer::Closing),
            (self.report_due_at(), Timer::Report),
            (self.keep_alive_at(), Timer::KeepAlive),
            (self.data_at(now), Timer::Data),
            (self.doubt_ends_at(), Timer::Doubt),
            (self.paths.due_at().filter(|_| self.phase == Phase::Open), Timer::Path),
        ])
    }

    /// Lets time pass: timeouts end what must end. What is due to be sent, `poll_transmit` sends.
    pub fn handle_timeout(&mut self, now: Time) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        // Nothing counts as heard before the handshake is done: its beginning does.
        let unanswered = ConnectionError::HandshakeTimeout { after: now.since(self.last_heard) };
        if self.handshake.timer.is_some_and(|timer| timer.is_exhausted(now)) {
            match self.phase {
                Phase::SynSent => return self.close(Some(unanswered)),
                Phase::SynReceived => {
                    // Thesis §3.6: the initiator may believe that it is connected, so it is told.
                    self.reset_peer();
                    return self.close(Some(unanswered));
                }
                Phase::Open | Phase::Closed(_) => self.handshake.timer = None,
            }
        }
        self.end_doubt(now);
        if self.closing.time_wait_until().is_some_and(|until| now >= until) {
            return self.close(None);
        }
        if self.idle_at().is_some_and(|at| now >= at) {
            let error = match self.phase {
                Phase::SynSent | Phase::SynReceived => unanswered,
                Phase::Open | Phase::Closed(_) => ConnectionError::TimedOut,
            };
            return self.close(Some(error));
        }
        if self.closing.is_exhausted(now) {
            self.close(Some(ConnectionError::CloseTimeout));
        }
    }

    /// When silence ends the connection (\[open-6\], \[idle-1\], \[silence-3\]).
    fn idle_at(&self) -> Option<Time> {
        let is_over = self.closing.time_wait_until().is_some();
        let is_connecting = self.handshake.role == Role::Initiator && self.phase != Phase::Open;
        let connect_timeout = self.config.connect_timeout.filter(|_| is_connecting).unwrap_or(Duration::MAX);
        (!is_over).then_some(self.last_heard + self.config.idle_timeout.min(connect_timeout))
    }

    pub(crate) fn report_due_at(&self) -> Option<Time> {
        let (interval, of_much) = (self.rtt.report_interval(), self.rtt.report_interval_of_much());
        (self.phase == Phase::Open).then(|| self.reporter.due_at(interval, of_much)).flatten()
    }

    fn ack_waits(&self) -> bool {
        self.phase == Phase::Open && self.closing.due_ack().is_some()
    }

    pub(crate) fn keep_alive_at(&self) -> Option<Time> {
        if !self.state().is_open() {
            return None;
        }
        let regular = self.keep_alive.map(|interval| {
            if self.last_keep_alive <= self.last_heard {
                return self.last_sent + interval;
            }
            // Three unanswered ones in an idle timeout are no rarity at 50 % loss ([idle-2]).
            self.last_keep_alive + interval.min(KEEP_ALIVE_REPEAT.max(self.rtt.smoothed() * 2))
        });
        // The report which opens a closed window, or permits a stream, may have been lost: ask for another ([silence-5]).
        let probe = (self.send.stuck().is_some() || self.wants_streams).then_some(self.last_keep_alive + WINDOW_PROBE);
        earlier(regular, probe)
    }

    /// When data may be sent, as far as is known.
    fn data_at(&self, now: Time) -> Option<Time> {
        if self.phase != Phase::Open || self.state() == State::TimeWait {
            return None;
        }
        if self.may_send {
            return Some(self.pacer.ready_at().max(now));
        }
        // What was due when the sender was asked last and had nothing waits for something else to happen.
        let fresh = self.send.next_timeout(self.sender_asked_at, &self.rtt, self.spending());
        fresh.map(|at| at.max(self.pacer.ready_at()))
    }
}
