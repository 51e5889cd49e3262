//! What happens when nothing else does.

use std::time::Duration;

use dfcp_time::Time;
use dfcp_wire::Profile;

use crate::connection::{Connection, Phase, Receiver, Sender};
use crate::error::ConnectionError;
use crate::state::State;

/// How often a sender whose window is closed asks whether it still is.
const WINDOW_PROBE: Duration = Duration::from_secs(1);

/// A keep-alive is never sent more often because of what a peer declares.
pub(super) const KEEP_ALIVE_MIN: Duration = Duration::from_millis(500);

/// How soon a keep-alive which brought no answer is repeated, besides two round trips.
const KEEP_ALIVE_REPEAT: Duration = Duration::from_secs(1);

/// The earlier of two times, if there is one.
pub(super) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

impl Connection {
    /// When [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) must be called again
    /// at the latest; a time in the past means now. `None` once the connection is closed.
    #[must_use]
    pub fn next_timeout(&self, now: Time) -> Option<Time> {
        if matches!(self.phase, Phase::Closed(_)) {
            return self.reset.is_some().then_some(now);
        }
        let timers = [
            self.idle_at(),
            self.handshake.repeats.map(|repeats| repeats.next_at()),
            self.handshake.owes().then_some(now),
            self.closing.next_timeout(),
            self.report_due_at(),
            self.ack_waits().then_some(now),
            self.keep_alive_at(),
            self.data_at(now),
            self.doubt_ends_at(),
            self.paths.due_at().filter(|_| self.phase == Phase::Open),
        ];
        timers.into_iter().fold(None, earlier)
    }

    /// Lets time pass: timeouts end what must end. What is due to be sent, `poll_transmit` sends.
    pub fn handle_timeout(&mut self, now: Time) {
        if matches!(self.phase, Phase::Closed(_)) {
            return;
        }
        if self.handshake.repeats.is_some_and(|repeats| repeats.is_exhausted(now)) {
            match self.phase {
                Phase::SynSent => return self.close(Some(ConnectionError::HandshakeTimeout)),
                Phase::SynReceived => {
                    // Thesis §3.6: the initiator may believe that it is connected, so it is told.
                    self.reset_peer();
                    return self.close(Some(ConnectionError::HandshakeTimeout));
                }
                Phase::Open | Phase::Closed(_) => self.handshake.repeats = None,
            }
        }
        self.end_doubt(now);
        if self.closing.time_wait_until().is_some_and(|until| now >= until) {
            return self.close(None);
        }
        if self.idle_at().is_some_and(|at| now >= at) {
            let error = match self.phase {
                Phase::SynSent | Phase::SynReceived => ConnectionError::HandshakeTimeout,
                Phase::Open | Phase::Closed(_) => ConnectionError::TimedOut,
            };
            return self.close(Some(error));
        }
        if self.closing.is_exhausted(now) {
            self.close(Some(ConnectionError::CloseTimeout));
        }
    }

    /// When silence ends the connection. The documents' own repeats of SYN, SYNACK and FIN take longer than that, and
    /// end it themselves.
    fn idle_at(&self) -> Option<Time> {
        let repeating = match self.phase {
            Phase::SynSent | Phase::SynReceived => self.handshake.repeats.is_some(),
            Phase::Open | Phase::Closed(_) => self.closing.is_repeating(),
        };
        let own_end = self.config.profile == Profile::Classic && repeating;
        let over = self.closing.time_wait_until().is_some() || own_end;
        (!over).then_some(self.last_heard + self.config.idle_timeout)
    }

    pub(crate) fn report_due_at(&self) -> Option<Time> {
        if self.phase != Phase::Open {
            return None;
        }
        match self.receiver {
            Receiver::Classic(_) => None,
            Receiver::Modern(_) => self.reporter.due_at(self.rtt.report_interval(), self.rtt.report_interval_of_much()),
        }
    }

    fn ack_waits(&self) -> bool {
        let block = match &self.receiver {
            Receiver::Classic(receiver) => receiver.has_ack(),
            Receiver::Modern(_) => false,
        };
        self.phase == Phase::Open && (block || self.closing.due_ack().is_some())
    }

    pub(crate) fn keep_alive_at(&self) -> Option<Time> {
        if !self.state().is_open() {
            return None;
        }
        let regular = self.keep_alive.map(|interval| {
            if self.last_keep_alive <= self.last_heard {
                return self.last_sent + interval;
            }
            // Three unanswered ones in an idle timeout are no rarity at 50 % loss.
            self.last_keep_alive + interval.min(KEEP_ALIVE_REPEAT.max(self.rtt.smoothed() * 2))
        });
        // The report which opens a closed window may have been lost: ask for another.
        let stuck = matches!(&self.sender, Sender::Modern(sender) if sender.is_stuck());
        let probe = stuck.then_some(self.last_keep_alive + WINDOW_PROBE);
        earlier(regular, probe)
    }

    /// When data may be sent, as far as is known.
    fn data_at(&self, now: Time) -> Option<Time> {
        if self.phase != Phase::Open || self.state() == State::TimeWait {
            return None;
        }
        let classic = self.config.profile == Profile::Classic;
        let wait = self.bucket.wait_for(dfcp_fountain::raptor::SEGMENT_BYTES as u32).filter(|_| classic);
        if self.may_send {
            return Some(self.pacer.ready_at().max(wait.unwrap_or(Time::ZERO)).max(now));
        }
        // What was due when the sender was asked last and had nothing waits for something else to happen.
        let asked = self.sender_asked_at;
        let fresh = match &self.sender {
            Sender::Classic(sender) => sender.next_timeout(now, asked, &self.rtt),
            Sender::Modern(sender) => sender.next_timeout(asked, &self.rtt, self.spending()),
        };
        fresh.map(|at| at.max(self.pacer.ready_at()).max(wait.unwrap_or(Time::ZERO)))
    }
}
