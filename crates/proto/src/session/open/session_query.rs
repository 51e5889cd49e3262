//! The question to a peer that has fallen silent: has it lost the session (`spec/protocol.md` \[rst-7\])?

use std::time::Duration;

use dfcp_secure::{RESET_QUESTION_BYTES, ResetTicket};
use dfcp_time::Time;

use crate::limits;

/// When to ask, and which answer is believed.
#[derive(Debug)]
pub(super) struct SessionQuery {
    /// What the peer has told to ask. Without it nothing is asked, and no answer believed.
    ticket: Option<ResetTicket>,
    silence: Silence,
    /// When something left that the peer has not answered, unless it was heard since.
    unanswered_since: Time,
    /// When the last question left, if one has.
    asked_at: Time,
}

/// What has happened since the peer was heard. Apart from the times: every idle session has this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// Nothing has left that it answers.
    None,
    /// Something has.
    Unanswered,
    /// And it was asked whether it has lost the session.
    Asked,
}

impl SessionQuery {
    pub(super) fn new(ticket: Option<ResetTicket>) -> Self {
        Self { ticket, silence: Silence::None, unanswered_since: Time::ZERO, asked_at: Time::ZERO }
    }

    /// Something has left that the peer answers, if it is there.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time) {
        if self.silence == Silence::None && self.ticket.is_some() {
            (self.silence, self.unanswered_since) = (Silence::Unanswered, now);
        }
    }

    /// The peer has been heard: it has the session.
    #[inline]
    pub(super) fn on_heard(&mut self) {
        self.silence = Silence::None;
    }

    /// When the next question is due.
    #[inline]
    pub(super) fn due_at(&self, rtt: Duration) -> Option<Time> {
        match self.silence {
            Silence::None => None,
            Silence::Unanswered => Some(self.unanswered_since + limits::SESSION_QUERY_AFTER_MIN.max(rtt * 4)),
            Silence::Asked => {
                let is_early = self.asked_at.since(self.unanswered_since) < limits::SESSION_QUERY_OFTEN;
                let interval =
                    if is_early { limits::SESSION_QUERY_INTERVAL } else { limits::SESSION_QUERY_INTERVAL_LATER };
                Some(self.asked_at + interval.max(rtt))
            }
        }
    }

    /// The question, if one is due.
    pub(super) fn take_due(&mut self, now: Time, rtt: Duration) -> Option<[u8; RESET_QUESTION_BYTES]> {
        self.due_at(rtt).filter(|&at| now >= at)?;
        (self.silence, self.asked_at) = (Silence::Asked, now);
        self.ticket.as_ref().map(ResetTicket::question)
    }

    /// Whether an answer is waited for. Else none is believed, however right it is.
    pub(super) fn is_asked(&self) -> bool {
        self.silence == Silence::Asked
    }

    /// Whether this proves that the peer has lost the session.
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
        SessionQuery::new(Some(ResetKey::from_bytes(&[7; 32]).at_port(9).issue(5, &[1; 32])))
    }

    fn answer(query: &SessionQuery) -> Vec<u8> {
        let question = query.ticket.as_ref().unwrap().question();
        ResetKey::from_bytes(&[7; 32]).at_port(9).answer(5, &question).unwrap().to_vec()
    }

    #[test]
    fn questions_come_twice_a_second_and_after_a_minute_once() {
        let (mut query, start) = (asking(), Time::from_s(1));
        assert_eq!(query.due_at(RTT), None, "nothing is unanswered");
        query.on_sent(start);
        let mut asked = Vec::new();
        while asked.len() < 130 {
            let at = query.due_at(RTT).unwrap();
            assert_eq!(query.take_due(at - Duration::from_millis(1), RTT), None);
            assert!(query.take_due(at, RTT).is_some());
            query.on_sent(at);
            asked.push(at.since(start).as_millis());
        }
        assert_eq!(asked[..4], [200, 700, 1_200, 1_700]);
        assert_eq!(asked[119..123], [59_700, 60_200, 61_200, 62_200]);
    }

    #[test]
    fn a_long_path_is_given_its_time() {
        let (mut query, start, rtt) = (asking(), Time::from_s(1), Duration::from_millis(700));
        query.on_sent(start);
        assert_eq!(query.due_at(rtt), Some(start + 4 * rtt));
        query.take_due(start + 4 * rtt, rtt);
        assert_eq!(query.due_at(rtt), Some(start + 5 * rtt));
    }

    #[test]
    fn a_peer_that_is_heard_is_not_asked_and_an_answer_of_its_name_is_not_believed() {
        let (mut query, start) = (asking(), Time::from_s(1));
        let token = answer(&query);
        assert!(!query.is_answered_by(&token), "it was not asked");
        query.on_sent(start);
        query.take_due(start + Duration::from_secs(1), RTT);
        assert!(query.is_answered_by(&token) && !query.is_answered_by(&token[1..]));
        query.on_heard();
        assert_eq!(query.due_at(RTT), None);
        assert!(!query.is_answered_by(&token), "it has been heard since");
    }

    #[test]
    fn a_peer_that_told_nothing_is_never_asked() {
        let mut query = SessionQuery::new(None);
        query.on_sent(Time::from_s(1));
        assert_eq!(query.due_at(RTT), None);
    }
}
