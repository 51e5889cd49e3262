//! The sessions under way, and which of them give their place up for a new connection of the same peer.
//!
//! A peer that has lost its path, was stopped or was started again is back before its old session is given up, half a minute later. With few
//! places that session would be in its way. So one that has been silent for a while goes when its own key comes again and there is no place
//! left; nobody else's ever does.

use std::sync::{Arc, Mutex, PoisonError};

use dfcp::PublicKey;

use super::shares::Share;
use crate::limits::SESSION_SILENCE_MAX;
use crate::monitor::Handle;

/// Sessions under way.
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

/// The share that a session holds until it ends or is displaced.
pub(super) type SharePlace = Arc<Mutex<Option<Share>>>;

impl Seats {
    /// A session of the peer with this key begins. Returns what names it, and what it holds.
    pub(super) fn take(&mut self, key: Option<PublicKey>, session: Handle, share: Option<Share>) -> (u64, SharePlace) {
        let share = Arc::new(Mutex::new(share));
        self.next += 1;
        self.taken.push(Seat { number: self.next, key, session, share: Arc::clone(&share) });
        (self.next, share)
    }

    /// It has ended.
    pub(super) fn leave(&mut self, number: u64) {
        self.taken.retain(|seat| seat.number != number);
    }

    /// Ends the session of this key that has been silent for longest, if one has been for a while, and gives its place away.
    pub(super) fn displace(&mut self, key: Option<PublicKey>) -> Option<Displaced> {
        key?;
        let own = self.taken.iter().enumerate().filter(|(_, seat)| seat.key == key);
        let (unheard, at) = own.map(|(at, seat)| (seat.session.unheard(), at)).max()?;
        (unheard >= SESSION_SILENCE_MAX).then(|| self.end(at))
    }

    /// Ends this session, if it has been silent for a while.
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

/// A session that makes room.
#[derive(Debug)]
pub(super) struct Displaced {
    /// Its place.
    pub(super) share: Option<Share>,
}
