//! Messages which wait for their turn: at the session's rate, or because the path seems to be too long for them.

use std::collections::VecDeque;

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
#[derive(Debug)]
pub(super) struct Waiting {
    queue: VecDeque<Queued>,
    bytes: usize,
    /// No message's time is over before this.
    expires_at: Time,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { queue: VecDeque::new(), bytes: 0, expires_at: Time::MAX }
    }
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether there is room for a message of as many bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.queue.len() < MESSAGES_QUEUED_MAX && self.bytes + bytes <= MESSAGES_QUEUED_BYTES_MAX
    }

    pub(super) fn push(&mut self, queued: Queued) {
        let message = &queued.message;
        self.bytes += message.info.length_bytes as usize;
        let expires_at = if message.lifetime_us == 0 { message.created } else { message.send_by };
        self.expires_at = self.expires_at.min(expires_at);
        self.queue.push_back(queued);
    }

    pub(super) fn pop(&mut self) -> Option<Queued> {
        let queued = self.queue.pop_front()?;
        self.bytes -= queued.message.info.length_bytes as usize;
        Some(queued)
    }

    /// Drops those whose time is over; returns how many.
    pub(super) fn drop_expired(&mut self, now: Time) -> u64 {
        if now < self.expires_at {
            return 0;
        }
        let (before, bytes) = (self.queue.len(), &mut self.bytes);
        self.queue.retain(|queued| {
            let is_over = queued.message.is_over(now) || queued.message.lifetime_us == 0;
            if is_over {
                *bytes -= queued.message.info.length_bytes as usize;
            }
            !is_over
        });
        self.expires_at = self.queue.iter().map(|queued| queued.message.send_by).min().unwrap_or(Time::MAX);
        (before - self.queue.len()) as u64
    }
}
