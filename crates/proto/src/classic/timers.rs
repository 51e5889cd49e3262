//! Timers of a classic connection.

use dfcp_fountain::raptor::SEGMENT_BYTES;
use dfcp_time::Time;

use crate::classic::{ClassicConnection, Phase, Reset};
use crate::error::ConnectionError;
use crate::limits::KEEP_ALIVE_REPEAT;
use crate::shared::{Timer, earliest};
use crate::state::State;

impl ClassicConnection {
    /// Returns the latest time for the next call of [`handle_timeout`](Self::handle_timeout) and
    /// [`poll_transmit`](Self::poll_transmit), and the timer that causes it. A time in the past means now. `None` once
    /// the connection is closed and owes the peer no RST.
    pub(crate) fn next_timeout(&self, now: Time) -> Option<(Time, Timer)> {
        if matches!(self.phase, Phase::Closed(_)) {
            return self.reset.is_some().then_some((now, Timer::Reset));
        }
        let owes_answer = self.handshake.owes_answer() || self.owes_ack();
        earliest([
            (self.idle_at(), Timer::Idle),
            (self.handshake.timer.map(|timer| timer.next_at()), Timer::Handshake),
            (owes_answer.then_some(now), Timer::Answer),
            (self.closing.next_timeout(), Timer::Closing),
            (self.keep_alive_at(), Timer::KeepAlive),
            (self.data_at(now), Timer::Data),
        ])
    }

    /// Handles expired timeouts. Datagrams that have become due are sent by `poll_transmit`.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        let is_opening = self.phase != Phase::Open;
        let unanswered = ConnectionError::HandshakeTimeout { after: now.since(self.last_heard) };
        if self.handshake.timer.is_some_and(|timer| timer.is_exhausted(now)) {
            if self.phase == Phase::SynReceived {
                // Thesis §3.6: the initiator may believe that it is connected, so send it an RST.
                self.reset = Some(Reset);
            }
            if is_opening {
                return self.close(Some(unanswered));
            }
            self.handshake.timer = None;
        }
        if self.closing.time_wait_until().is_some_and(|until| now >= until) {
            return self.close(None);
        }
        if self.idle_at().is_some_and(|at| now >= at) {
            let error = if is_opening { unanswered } else { ConnectionError::TimedOut };
            return self.close(Some(error));
        }
        if self.closing.is_exhausted(now) {
            self.close(Some(ConnectionError::CloseTimeout));
        }
    }

    /// Returns the time when silence ends the connection. The documents' retransmissions of SYN, SYNACK and FIN take
    /// longer than the idle timeout, and end the connection themselves (\[open-6\]).
    fn idle_at(&self) -> Option<Time> {
        let is_repeating = match self.phase {
            Phase::SynSent | Phase::SynReceived => self.handshake.timer.is_some(),
            Phase::Open | Phase::Closed(_) => self.closing.is_repeating(),
        };
        if let (Phase::SynSent, Some(connect_timeout)) = (&self.phase, self.config.connect_timeout) {
            return Some(self.last_heard + connect_timeout);
        }
        let has_own_end = self.closing.time_wait_until().is_some() || is_repeating;
        (!has_own_end).then_some(self.last_heard + self.config.idle_timeout)
    }

    fn owes_ack(&self) -> bool {
        self.phase == Phase::Open && (self.receiver.has_ack() || self.closing.due_ack().is_some())
    }

    pub(super) fn keep_alive_at(&self) -> Option<Time> {
        let interval = self.config.keep_alive.filter(|_| self.state().is_open())?;
        if self.last_keep_alive <= self.last_heard {
            return Some(self.last_sent + interval);
        }
        // Repeat unanswered keep-alives sooner: at 50 % loss, three losses within an idle timeout are not rare.
        Some(self.last_keep_alive + interval.min(KEEP_ALIVE_REPEAT.max(self.rtt.smoothed() * 2)))
    }

    /// Returns the earliest time for sending data, as far as it is known.
    fn data_at(&self, now: Time) -> Option<Time> {
        if self.phase != Phase::Open || self.state() == State::TimeWait {
            return None;
        }
        let tokens_at = self.bucket.wait_for(SEGMENT_BYTES as u32).unwrap_or(Time::ZERO);
        let earliest = self.pacer.ready_at().max(tokens_at);
        if self.may_send {
            return Some(earliest.max(now));
        }
        // A segment that was already due at the last poll, and was not sent, waits for an event instead of a timer.
        let fresh = self.sender.next_timeout(now, self.sender_asked_at, &self.rtt);
        fresh.map(|at| at.max(earliest))
    }
}
