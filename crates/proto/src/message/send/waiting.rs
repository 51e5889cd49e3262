//! Messages which wait for their turn: at the session's rate, or because the path seems to be too long for them.

use std::collections::{BTreeMap, BTreeSet};

use dfcp_time::Time;

use super::outgoing::Outgoing;
use crate::limits::{MESSAGES_QUEUED_BYTES_MAX, MESSAGES_QUEUED_MAX};

/// One of them.
#[derive(Debug)]
pub(super) struct Queued {
    /// Of messages of its kind, by its place.
    pub(super) class: usize,
    pub(super) message: Outgoing,
    pub(super) is_grouped: bool,
}

/// All of them, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By the order in which they were handed over.
    queue: BTreeMap<u64, Queued>,
    next: u64,
    bytes: usize,
    /// Expiry of each, so that the removal of one takes no pass through the others.
    expiries: BTreeSet<(Time, u64)>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// True if there is room for a message of as many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queue.len() < MESSAGES_QUEUED_MAX && self.bytes + bytes <= MESSAGES_QUEUED_BYTES_MAX
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += queued.message.info.length_bytes as usize;
        self.expiries.insert((expires_at(&queued), self.next));
        self.queue.insert(self.next, queued);
        self.next += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let &number = self.queue.keys().next()?;
        self.take(number)
    }

    fn take(&mut self, number: u64) -> Option<Queued> {
        let queued = self.queue.remove(&number)?;
        self.expiries.remove(&(expires_at(&queued), number));
        self.bytes -= queued.message.info.length_bytes as usize;
        Some(queued)
    }

    /// Drops those whose time is over; returns how many.
    pub(super) fn drop_expired(&mut self, now: Time) -> u64 {
        let before = self.queue.len();
        while let Some(&(_, number)) = self.expiries.first().filter(|&&(at, _)| at < now || at == Time::ZERO) {
            self.take(number);
        }
        (before - self.queue.len()) as u64
    }
}

/// After this its time is over: one that cannot come in time has none.
fn expires_at(queued: &Queued) -> Time {
    if queued.message.lifetime_us == 0 { Time::ZERO } else { queued.message.send_by }
}
