//! Bounded store of incomplete messages, and of complete ones that help to decode these (`spec/protocol.md`
//! \[message-6\]).

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::BlockShape;
use dfcp_time::Time;

use super::group::Group;
use super::known::KnownRows;
use super::partial::Partial;
use super::pending::Pending;
use crate::error::Dropped;
use crate::limits::{MESSAGE_GROUPS_HELD_MAX, MESSAGES_HELD_BYTES_MAX, MESSAGES_PARTIAL_MAX};
use crate::stream::recv::memory::ReceiveMemory;

/// Data kept for decoding. Memory is charged before it is allocated.
#[derive(Debug)]
pub(super) struct Store {
    kernel: Kernel,
    proofs: bool,
    pub(super) partial: Pending<Partial>,
    /// Groups by the id of their first message. Groups do not overlap.
    pub(super) groups: Pending<Group>,
    pub(super) known: KnownRows,
    held_bytes: usize,
}

impl Store {
    pub(super) fn new(kernel: Kernel, proofs: bool) -> Self {
        let known = KnownRows::new(proofs);
        Self { kernel, proofs, partial: Pending::new(), groups: Pending::new(), known, held_bytes: 0 }
    }

    #[cfg(test)]
    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    // ---- insertion ----

    /// Creates the entry of an incomplete message.
    ///
    /// # Errors
    /// There is no memory, or the code does not permit the shape.
    pub(super) fn begin_partial(
        &mut self,
        id: u32,
        until: Time,
        shape: BlockShape,
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        while self.partial.len() >= MESSAGES_PARTIAL_MAX && self.forget_partial(memory) {}
        let bytes = Partial::bytes_max(shape, self.proofs) + Pending::<Partial>::ENTRY_BYTES;
        if !self.hold(bytes, memory) {
            return Err(Dropped::NoMemory);
        }
        let Some(partial) = Partial::new(self.kernel, shape, self.proofs) else {
            self.let_go(bytes, memory);
            return Err(Dropped::Unexpected);
        };
        self.partial.insert(id, until, partial);
        Ok(())
    }

    /// Creates a group of `count` messages from id `first` on.
    ///
    /// # Errors
    /// There is no memory, the code does not permit rows of this length, or another group has one of these messages
    /// (\[message-5\]).
    pub(super) fn begin_group(
        &mut self,
        (first, count): (u32, u16),
        row_bytes: usize,
        until: Time,
        memory: &mut ReceiveMemory,
    ) -> Result<(), Dropped> {
        let last = first + u32::from(count) - 1;
        if self.groups.up_to(last).is_some_and(|(_, other)| other.reaches(first)) {
            return Err(Dropped::Unexpected);
        }
        while self.groups.len() >= MESSAGE_GROUPS_HELD_MAX && self.forget_group(memory) {}
        let bytes = Group::bytes_max(count, row_bytes) + Pending::<Group>::ENTRY_BYTES;
        if !self.hold(bytes, memory) {
            return Err(Dropped::NoMemory);
        }
        let Some(group) = Group::new(self.kernel, first, count, row_bytes) else {
            self.let_go(bytes, memory);
            return Err(Dropped::Unexpected);
        };
        self.groups.insert(first, until, group);
        Ok(())
    }

    /// Charges a new page if the row of a message of `length_bytes` bytes needs one. Returns false if there is no
    /// memory.
    pub(super) fn pay_for_row(&mut self, length_bytes: usize, memory: &mut ReceiveMemory) -> bool {
        !self.known.needs_page(length_bytes) || self.hold(KnownRows::PAGE_COST_BYTES, memory)
    }

    /// Charges `bytes`, and frees old data if necessary. Returns false if there is no memory. If the store's own limit
    /// is reached, any data may be freed. If the endpoint is out of memory, only rows of complete messages are, because
    /// they merely help decoding.
    fn hold(&mut self, bytes: usize, memory: &mut ReceiveMemory) -> bool {
        if bytes > MESSAGES_HELD_BYTES_MAX {
            return false;
        }
        loop {
            let is_full = self.held_bytes + bytes > MESSAGES_HELD_BYTES_MAX;
            if !is_full && memory.pay(bytes as u64) {
                self.held_bytes += bytes;
                return true;
            }
            let is_gone =
                self.forget_page(memory) || is_full && (self.forget_group(memory) || self.forget_partial(memory));
            if !is_gone {
                return false;
            }
        }
    }

    // ---- removal ----

    /// Frees data that is useless: expired, or of ids below `first_id`, the oldest remembered id.
    pub(super) fn forget(&mut self, now: Time, first_id: u64, memory: &mut ReceiveMemory) {
        while self.known.is_first_page_over(now, first_id) {
            self.forget_page(memory);
        }
        while let Some(first) = self.groups.over(now, first_id) {
            self.take_group(first, memory);
        }
        while let Some(id) = self.partial.over(now, first_id) {
            self.take_partial(id, memory);
        }
    }

    /// Removes a group and releases its memory charge.
    pub(super) fn take_group(&mut self, first: u32, memory: &mut ReceiveMemory) -> Option<Group> {
        let group = self.groups.remove(first)?;
        self.let_go(group.held_bytes() + Pending::<Group>::ENTRY_BYTES, memory);
        Some(group)
    }

    /// Removes a message from the incomplete ones and releases its memory charge. It may have been completed just now.
    pub(super) fn take_partial(&mut self, id: u32, memory: &mut ReceiveMemory) -> Option<Partial> {
        let partial = self.partial.remove(id)?;
        self.let_go(Partial::bytes_max(partial.shape(), self.proofs) + Pending::<Partial>::ENTRY_BYTES, memory);
        Some(partial)
    }

    /// Frees the oldest page of complete messages' rows. Returns false if there is none.
    fn forget_page(&mut self, memory: &mut ReceiveMemory) -> bool {
        let is_gone = self.known.pop_page();
        if is_gone {
            self.let_go(KnownRows::PAGE_COST_BYTES, memory);
        }
        is_gone
    }

    /// Frees the group that expires first. Returns false if there is none.
    fn forget_group(&mut self, memory: &mut ReceiveMemory) -> bool {
        let first = self.groups.first_to_end();
        first.is_some_and(|(_, first)| self.take_group(first, memory).is_some())
    }

    /// Frees the incomplete message that expires first. Returns false if there is none.
    fn forget_partial(&mut self, memory: &mut ReceiveMemory) -> bool {
        let first = self.partial.first_to_end();
        first.is_some_and(|(_, id)| self.take_partial(id, memory).is_some())
    }

    fn let_go(&mut self, bytes: usize, memory: &mut ReceiveMemory) {
        self.held_bytes -= bytes;
        memory.give_back(bytes as u64);
    }
}
