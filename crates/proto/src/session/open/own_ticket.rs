//! Schedule for sending our reset ticket to the peer (`spec/protocol.md` \[rst-9\]).

use dfcp_secure::ResetTicket;
use dfcp_time::Time;

use crate::limits;

/// Our reset ticket, sent repeatedly until the peer has acknowledged it.
#[derive(Debug)]
pub(super) struct OwnTicket {
    ticket: Option<Box<ResetTicket>>,
    /// Time of the next copy.
    due_at: Time,
}

impl OwnTicket {
    /// Creates the schedule of a session that opens `now`.
    pub(super) fn new(now: Time, ticket: Option<Box<ResetTicket>>) -> Self {
        Self { ticket, due_at: now + limits::RESET_TICKET_AFTER }
    }

    /// Time of the next copy. `None` if the peer has been silent since the last copy, as it may be gone.
    #[inline]
    pub(super) fn due_at(&self, last_heard: Time) -> Option<Time> {
        self.ticket.as_ref()?;
        (last_heard + limits::RESET_TICKET_INTERVAL > self.due_at).then_some(self.due_at)
    }

    /// Returns the ticket, if it is due.
    #[inline]
    pub(super) fn take_due(&mut self, now: Time, last_heard: Time) -> Option<&ResetTicket> {
        self.due_at(last_heard).filter(|&at| now >= at)?;
        self.due_at = now + limits::RESET_TICKET_INTERVAL;
        self.ticket.as_deref()
    }

    /// Stops sending, after the peer's acknowledgement.
    pub(super) fn on_acknowledged(&mut self) {
        self.ticket = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dfcp_secure::ResetKey;

    use super::*;

    const OPENED: Time = Time::from_s(5);

    fn ticket() -> Option<Box<ResetTicket>> {
        Some(Box::new(ResetKey::from_bytes(&[7; 32]).at_port(9).issue(5, &[1; 32])))
    }

    #[test]
    fn it_is_told_after_200_ms_and_each_second_until_it_is_acknowledged() {
        let (mut own, mut now) = (OwnTicket::new(OPENED, ticket()), OPENED);
        for ms in [200, 1_200, 2_200] {
            let at = OPENED + Duration::from_millis(ms);
            assert_eq!((own.due_at(now), own.take_due(at - Duration::from_millis(1), now)), (Some(at), None));
            assert!(own.take_due(at, now).is_some());
            now = at + Duration::from_millis(30);
        }
        own.on_acknowledged();
        assert_eq!(own.due_at(now), None);
    }

    #[test]
    fn a_silent_peer_is_told_once() {
        let (mut own, told_at) = (OwnTicket::new(OPENED, ticket()), OPENED + Duration::from_millis(200));
        assert!(own.take_due(told_at, OPENED).is_some());
        assert_eq!(own.due_at(told_at), None);
        assert_eq!(own.due_at(told_at + Duration::from_nanos(1)), Some(told_at + Duration::from_secs(1)));
    }

    #[test]
    fn without_a_ticket_nothing_is_told() {
        assert_eq!(OwnTicket::new(OPENED, None).due_at(OPENED), None);
    }
}
