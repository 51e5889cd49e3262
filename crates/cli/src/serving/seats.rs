//! Running sessions. A new connection of the same peer may displace a silent session.
//!
//! A peer that lost its path or was restarted returns before its old session times out, half a minute later. With few
//! places the old session would block the peer. So a session that has been silent for [`SESSION_SILENCE_MAX`] is
//! displaced when the same key returns and no place is free; other keys never displace it.

use std::sync::{Arc, Mutex, PoisonError};

use dfcp::PublicKey;

use super::shares::Share;
use crate::limits::SESSION_SILENCE_MAX;
use crate::monitor::Handle;

/// Running sessions.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Vec<Seat>,
    next: u64,
}

#[derive(Debug)]
struct Seat {
    number: u64,
    key: Option<PublicKey>,
    session: Handle,
    share: SharePlace,
}

/// Share held by a session until the session ends or is displaced.
pub(super) type SharePlace = Arc<Mutex<Option<Share>>>;

impl Seats {
    /// Registers a session of the peer with this key. Returns its number and its share.
    pub(super) fn take(&mut self, key: Option<PublicKey>, session: Handle, share: Option<Share>) -> (u64, SharePlace) {
        let share = Arc::new(Mutex::new(share));
        self.next += 1;
        self.taken.push(Seat { number: self.next, key, session, share: Arc::clone(&share) });
        (self.next, share)
    }

    /// Removes an ended session.
    pub(super) fn leave(&mut self, number: u64) {
        self.taken.retain(|seat| seat.number != number);
    }

    /// Ends the session of this key that has been silent longest, and returns its share. `None` if no session has been
    /// silent for [`SESSION_SILENCE_MAX`].
    pub(super) fn displace(&mut self, key: Option<PublicKey>) -> Option<Displaced> {
        key?;
        let own = self.taken.iter().enumerate().filter(|(_, seat)| seat.key == key);
        let (unheard, at) = own.map(|(at, seat)| (seat.session.unheard(), at)).max()?;
        (unheard >= SESSION_SILENCE_MAX).then(|| self.end(at))
    }

    /// Ends this session if it has been silent for [`SESSION_SILENCE_MAX`]; returns true if it has.
    pub(super) fn displace_number(&mut self, number: u64) -> bool {
        let is_silent = |seat: &Seat| seat.number == number && seat.session.unheard() >= SESSION_SILENCE_MAX;
        let silent = self.taken.iter().position(is_silent);
        silent.map(|at| self.end(at)).is_some()
    }

    fn end(&mut self, at: usize) -> Displaced {
        let seat = self.taken.remove(at);
        seat.session.displace();
        Displaced { share: seat.share.lock().unwrap_or_else(PoisonError::into_inner).take() }
    }
}

/// Displaced session.
#[derive(Debug)]
pub(super) struct Displaced {
    /// Share of the displaced session.
    pub(super) share: Option<Share>,
}
