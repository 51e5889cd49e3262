//! Queries to a silent peer, to find out if it has lost the session (`spec/protocol.md` \[rst-7\]).

use std::time::Duration;

use dfcp_secure::{RESET_QUESTION_BYTES, ResetTicket};
use dfcp_time::Time;

use crate::limits;

/// Schedule of session queries, and the answer that counts. Kept small, since every idle session has one.
#[derive(Debug, Default)]
pub(super) struct SessionQuery {
    /// The peer's reset ticket. Without it no query is sent, and no answer counts.
    ticket: Option<ResetTicket>,
    /// Queries since the peer was last heard, at most [`limits::SESSION_QUERIES_OFTEN`] + 1.
    asked: u8,
    /// Time of the next query. `None` if no datagram that requires an answer was sent since the peer was last heard.
    due_at: Option<Time>,
}

impl SessionQuery {
    /// Stores the peer's reset ticket.
    pub(super) fn on_ticket(&mut self, ticket: ResetTicket) {
        self.ticket = Some(ticket);
    }

    /// Records a sent datagram that requires an answer. `rtt` returns the RTT; it is called for the first such datagram
    /// only.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, rtt: impl FnOnce() -> Duration) {
        if self.due_at.is_none() && self.ticket.is_some() {
            self.due_at = Some(now + limits::SESSION_QUERY_AFTER_MIN.max(rtt() * 4));
        }
    }

    /// Cancels queries after a datagram from the peer, which shows that the peer has the session.
    #[inline]
    pub(super) fn on_heard(&mut self) {
        (self.asked, self.due_at) = (0, None);
    }

    /// Time of the next query.
    #[inline]
    pub(super) fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    /// Returns the contents of a query, if one is due.
    pub(super) fn take_due(&mut self, now: Time, rtt: Duration) -> Option<[u8; RESET_QUESTION_BYTES]> {
        self.due_at.filter(|&at| now >= at)?;
        self.asked = (self.asked + 1).min(limits::SESSION_QUERIES_OFTEN + 1);
        let is_early = self.asked <= limits::SESSION_QUERIES_OFTEN;
        let interval = if is_early { limits::SESSION_QUERY_INTERVAL } else { limits::SESSION_QUERY_INTERVAL_LATER };
        self.due_at = Some(now + interval.max(rtt));
        self.ticket.as_ref().map(ResetTicket::question)
    }

    /// Returns true while an answer is awaited. At other times even a correct answer is ignored.
    pub(super) fn is_asked(&self) -> bool {
        self.asked > 0
    }

    /// Returns true for a token that proves that the peer has lost the session.
    pub(super) fn is_answered_by(&self, token: &[u8]) -> bool {
        self.is_asked() && self.ticket.as_ref().is_some_and(|ticket| ticket.is_answered_by(token))
    }
}

#[cfg(test)]
mod tests {
    use dfcp_secure::ResetKey;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn asking() -> SessionQuery {
        let mut query = SessionQuery::default();
        query.on_ticket(ResetKey::from_bytes(&[7; 32]).at_port(9).issue(5, &[1; 32]));
        query
    }

    fn answer(query: &SessionQuery) -> Vec<u8> {
        let question = query.ticket.as_ref().unwrap().question();
        ResetKey::from_bytes(&[7; 32]).at_port(9).answer(5, &question).unwrap().to_vec()
    }

    #[test]
    fn questions_come_twice_a_second_and_after_a_minute_once() {
        let (mut query, start) = (asking(), Time::from_s(1));
        assert_eq!(query.due_at(), None, "nothing is unanswered");
        query.on_sent(start, || RTT);
        let mut asked = Vec::new();
        while asked.len() < 130 {
            let at = query.due_at().unwrap();
            assert_eq!(query.take_due(at - Duration::from_millis(1), RTT), None);
            assert!(query.take_due(at, RTT).is_some());
            query.on_sent(at, || RTT);
            asked.push(at.since(start).as_millis());
        }
        assert_eq!(asked[..4], [200, 700, 1_200, 1_700]);
        assert_eq!(asked[119..123], [59_700, 60_200, 61_200, 62_200]);
    }

    #[test]
    fn a_long_path_is_given_its_time() {
        let (mut query, start, rtt) = (asking(), Time::from_s(1), Duration::from_millis(700));
        query.on_sent(start, || rtt);
        assert_eq!(query.due_at(), Some(start + 4 * rtt));
        query.take_due(start + 4 * rtt, rtt);
        assert_eq!(query.due_at(), Some(start + 5 * rtt));
    }

    #[test]
    fn a_peer_that_is_heard_is_not_asked_and_an_answer_of_its_name_is_not_believed() {
        let (mut query, start) = (asking(), Time::from_s(1));
        let token = answer(&query);
        assert!(!query.is_answered_by(&token), "it was not asked");
        query.on_sent(start, || RTT);
        query.take_due(start + Duration::from_secs(1), RTT);
        assert!(query.is_answered_by(&token) && !query.is_answered_by(&token[1..]));
        query.on_heard();
        assert_eq!(query.due_at(), None);
        assert!(!query.is_answered_by(&token), "it has been heard since");
    }

    #[test]
    fn a_peer_that_told_nothing_is_never_asked() {
        let mut query = SessionQuery::default();
        query.on_sent(Time::from_s(1), || RTT);
        assert_eq!(query.due_at(), None);
    }
}
