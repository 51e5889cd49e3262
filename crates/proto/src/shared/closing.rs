//! Closing of a connection: FIN and its acknowledgement in each direction (thesis §3.11; `spec/protocol.md`,
//! "Closing").

use dfcp_time::Time;

use crate::limits;
use crate::shared::earlier;
use crate::shared::retransmit::{RetransmitSchedule, RetransmitTimer};
use crate::state::State;

#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// Id behind our last block, and the timer of our FIN. `None` while FIN may not be sent.
    fin: Option<(u32, RetransmitTimer)>,
    fin_acknowledged: bool,
    /// True after the peer's FIN has come and everything before it is decoded.
    peer_done: bool,
    /// True if the peer finished before we did: we close last and need no TIME_WAIT.
    peer_done_first: bool,
    /// End that the peer's FIN names.
    peer_end: Option<u32>,
    owed: u8,
    time_wait_until: Option<Time>,
}

impl Closing {
    /// Ends our stream at block `end`: FIN may be sent from now on.
    pub(crate) fn start(&mut self, now: Time, end: u32, schedule: &'static RetransmitSchedule) {
        if self.fin.is_none() {
            self.fin = Some((end, RetransmitTimer::start(now, schedule)));
        }
    }

    pub(crate) fn is_started(&self) -> bool {
        self.fin.is_some()
    }

    /// Returns the end in the FIN to send now, if one is due.
    pub(crate) fn due_fin(&self, now: Time) -> Option<u32> {
        self.fin.filter(|(_, timer)| !self.fin_acknowledged && timer.is_due(now)).map(|(end, _)| end)
    }

    pub(crate) fn on_fin_sent(&mut self, now: Time) {
        if let Some((_, timer)) = &mut self.fin {
            timer.on_sent(now);
        }
    }

    pub(crate) fn is_exhausted(&self, now: Time) -> bool {
        !self.fin_acknowledged && self.fin.is_some_and(|(_, timer)| timer.is_exhausted(now))
    }

    /// Returns true while our FIN is being repeated.
    pub(crate) fn is_repeating(&self) -> bool {
        self.fin.is_some() && !self.fin_acknowledged
    }

    pub(crate) fn progress(&mut self, now: Time) {
        if let Some((_, timer)) = &mut self.fin {
            timer.progress(now);
        }
    }

    /// Records that the peer acknowledges our FIN. Returns true if that is news.
    pub(crate) fn on_fin_acknowledged(&mut self, end: Option<u32>) -> bool {
        let ours = self.fin.is_some_and(|(fin, _)| end.is_none_or(|end| end == fin));
        let news = ours && !self.fin_acknowledged;
        self.fin_acknowledged |= ours;
        news
    }

    pub(crate) fn on_peer_fin(&mut self, end: u32) {
        self.peer_end = Some(end);
        self.owed = (self.owed + 1).min(limits::ANSWERS_OWED_MAX);
    }

    /// Records that everything before the peer's FIN is decoded. Returns true if that is news.
    pub(crate) fn on_peer_done(&mut self) -> bool {
        if self.peer_end.is_none() || self.peer_done {
            return false;
        }
        self.peer_done = true;
        self.peer_done_first = !self.is_started();
        true
    }

    pub(crate) fn is_peer_done(&self) -> bool {
        self.peer_done
    }

    /// Returns the FIN to acknowledge now, and only after everything before it is decoded (\[close-3\]).
    pub(crate) fn due_ack(&self) -> Option<u32> {
        self.peer_end.filter(|_| self.peer_done && self.owed > 0)
    }

    pub(crate) fn on_ack_sent(&mut self) {
        self.owed = self.owed.saturating_sub(1);
    }

    /// Returns the state that follows from both directions.
    pub(crate) fn state(&self) -> State {
        match (self.is_started(), self.fin_acknowledged, self.peer_done) {
            (false, _, false) => State::Established,
            (false, _, true) => State::CloseWait,
            (true, false, true) if self.peer_done_first => State::LastAck,
            (true, false, _) => State::FinWait1,
            (true, true, false) => State::FinWait2,
            (true, true, true) if self.peer_done_first => State::Closed,
            (true, true, true) => State::TimeWait,
        }
    }

    pub(crate) fn enter_time_wait(&mut self, until: Time) {
        self.time_wait_until.get_or_insert(until);
    }

    pub(crate) fn time_wait_until(&self) -> Option<Time> {
        self.time_wait_until
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let fin = self.fin.filter(|_| !self.fin_acknowledged).map(|(_, timer)| timer.next_at());
        earlier(fin, self.time_wait_until)
    }
}
