//! Queue of messages that wait to be begun: for the session's rate, or for the fate of older ids (\[message-8\]).

use std::collections::{BTreeMap, BTreeSet};

use dfcp_time::Time;

use super::outgoing::Outgoing;
use crate::limits::{MESSAGES_QUEUED_BYTES_MAX, MESSAGES_QUEUED_MAX};

/// A queued message.
#[derive(Debug)]
pub(super) struct Queued {
    /// Index of its class (messages of one kind).
    pub(super) class: usize,
    pub(super) message: Outgoing,
    pub(super) is_grouped: bool,
}

/// Queued messages, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Messages by number, in the order of hand-over.
    queue: BTreeMap<u64, Queued>,
    next: u64,
    bytes: usize,
    /// Expiry times, so that dropping an expired message takes no loop over the queue.
    expiries: BTreeSet<(Time, u64)>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true if there is room for another message of `bytes` bytes.
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

    /// Drops expired messages. Returns their number.
    pub(super) fn drop_expired(&mut self, now: Time) -> u64 {
        let before = self.queue.len();
        while let Some(&(_, number)) = self.expiries.first().filter(|&&(at, _)| at < now || at == Time::ZERO) {
            self.take(number);
        }
        (before - self.queue.len()) as u64
    }
}

/// Returns the time after which the message is dropped; zero if it cannot arrive in time at all.
fn expires_at(queued: &Queued) -> Time {
    if queued.message.lifetime_us == 0 { Time::ZERO } else { queued.message.send_by }
}
