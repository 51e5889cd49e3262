//! Messages that have come in time and wait for the application.

use std::collections::VecDeque;

use crate::limits::{MESSAGES_UNREAD_BYTES_MAX, MESSAGES_UNREAD_MAX};
use crate::message::ReceivedMessage;
use crate::shared::room::Room;
use crate::stream::recv::memory::ReceiveMemory;

/// Bytes which a message takes besides its own: its place in the queue, which may have four times as many places, and the allocator's.
const ENTRY_BYTES: usize = 4 * size_of::<Entry>() + 32;

#[derive(Debug)]
struct Entry {
    message: ReceivedMessage,
    /// Bytes that were paid for it.
    paid_bytes: usize,
}

/// Messages that wait, oldest arrival first.
#[derive(Debug, Default)]
pub(super) struct Unread {
    queue: VecDeque<Entry>,
    /// Of the messages themselves.
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

    /// Makes room for one of as many bytes: the oldest go, as they are worth least. Returns how many did.
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

    /// Takes one in, and pays for it; `false` if there is no memory. One of `unpaid_bytes` at most is taken even then, if it is the only
    /// one: so a session goes on, one message after the other, whatever others hold.
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
