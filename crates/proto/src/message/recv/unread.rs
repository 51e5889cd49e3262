//! Delivered messages that the application has not read.

use std::collections::VecDeque;

use crate::limits::{MESSAGES_UNREAD_BYTES_MAX, MESSAGES_UNREAD_MAX};
use crate::message::ReceivedMessage;
use crate::shared::room::Room;
use crate::stream::recv::memory::ReceiveMemory;

/// Memory overhead of a message, bytes: its entry in the queue, whose capacity may be four times its length, and the
/// allocator's header.
const ENTRY_BYTES: usize = 4 * size_of::<Entry>() + 32;

#[derive(Debug)]
struct Entry {
    message: ReceivedMessage,
    /// Memory charged for the message, bytes.
    paid_bytes: usize,
}

/// Queue of unread messages, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Unread {
    queue: VecDeque<Entry>,
    /// Total length of the messages, bytes.
    bytes: usize,
    paid_bytes: usize,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[cfg(test)]
    pub(super) fn paid_bytes(&self) -> usize {
        self.paid_bytes
    }

    /// Makes room for a message of `bytes` bytes. Drops the oldest messages, which are worth least. Returns their
    /// number.
    pub(super) fn make_room(&mut self, bytes: usize, memory: &mut ReceiveMemory) -> u64 {
        let mut gone = 0;
        while self.queue.len() >= MESSAGES_UNREAD_MAX || self.bytes + bytes > MESSAGES_UNREAD_BYTES_MAX {
            if self.pop(memory).is_none() {
                break;
            }
            gone += 1;
        }
        gone
    }

    /// Adds a message and charges its memory. Returns false if there is no memory. An empty queue takes one message of
    /// at most `unpaid_bytes` without charge, so that the session makes progress even if other sessions hold all
    /// memory.
    pub(super) fn push(&mut self, message: ReceivedMessage, unpaid_bytes: usize, memory: &mut ReceiveMemory) -> bool {
        let bytes = message.bytes.capacity();
        let mut paid_bytes = bytes + ENTRY_BYTES;
        if !memory.pay(paid_bytes as u64) {
            if !self.queue.is_empty() || bytes > unpaid_bytes {
                return false;
            }
            paid_bytes = 0;
        }
        self.bytes += message.bytes.len();
        self.paid_bytes += paid_bytes;
        self.queue.push_back(Entry { message, paid_bytes });
        true
    }

    pub(super) fn pop(&mut self, memory: &mut ReceiveMemory) -> Option<ReceivedMessage> {
        let Entry { message, paid_bytes } = self.queue.pop_front()?;
        self.queue.give_back();
        self.bytes -= message.bytes.len();
        self.paid_bytes -= paid_bytes;
        memory.give_back(paid_bytes as u64);
        Some(message)
    }
}
