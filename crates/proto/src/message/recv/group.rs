//! Messages coded together: repair symbols over their rows (`spec/protocol.md` \[message-5\]).

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{Decoder, Pushed};

use crate::message::rows::{HEAD_BYTES, RowHead, group_shape};
use crate::stream::recv::slot;

/// Decoder of a group of messages. It exists from the group's first repair symbol on.
pub(super) struct Group {
    first: u32,
    count: u16,
    row_bytes: usize,
    decoder: Decoder,
}

impl Group {
    /// Returns an empty group; `None` if the code permits no group of this shape.
    pub(super) fn new(kernel: Kernel, first: u32, count: u16, row_bytes: usize) -> Option<Self> {
        let shape = group_shape(count.into(), row_bytes).filter(|_| row_bytes >= HEAD_BYTES)?;
        Some(Self { first, count, row_bytes, decoder: Decoder::new(kernel, shape) })
    }

    /// Returns the most memory that a group allocates, bytes: its rows, as many repair symbols, and the equations
    /// between them.
    pub(super) fn bytes_max(count: u16, row_bytes: usize) -> usize {
        slot::open_bytes(count.into(), row_bytes) as usize
    }

    pub(super) fn held_bytes(&self) -> usize {
        Self::bytes_max(self.count, self.row_bytes)
    }

    pub(super) fn is(&self, first: u32, count: u16, row_bytes: usize) -> bool {
        (self.first, self.count, self.row_bytes) == (first, count, row_bytes)
    }

    /// Returns the index of message `id` in the group.
    fn place(&self, id: u32) -> Option<u32> {
        id.checked_sub(self.first).filter(|&place| place < self.count.into())
    }

    /// Returns true if the group contains message `id` or a later one.
    pub(super) fn reaches(&self, id: u32) -> bool {
        id.checked_sub(self.first).is_none_or(|place| place < self.count.into())
    }

    /// Adds the row of a known message, without its padding. Returns true if this completes the group.
    pub(super) fn add(&mut self, id: u32, known: &[u8], row: &mut Vec<u8>) -> bool {
        let Some(place) = self.place(id).filter(|_| known.len() <= self.row_bytes) else { return false };
        row.clear();
        row.extend_from_slice(known);
        row.resize(self.row_bytes, 0);
        self.push(place, row)
    }

    /// Adds a repair symbol. Returns true if this completes the group.
    pub(super) fn push(&mut self, esi: u32, symbol: &[u8]) -> bool {
        let was_complete = self.decoder.is_complete();
        let pushed = self.decoder.push(esi, symbol);
        debug_assert!(pushed.is_ok() || symbol.len() != self.row_bytes);
        !was_complete && !matches!(pushed, Ok(Pushed::Complete)) && self.decoder.is_complete()
    }

    /// Returns all known messages: id, head, content and secret. Skips malformed rows, which no honest peer sends.
    pub(super) fn messages(&self, proofs: bool) -> impl Iterator<Item = (u32, RowHead, &[u8], u32)> {
        (0..u32::from(self.count)).filter_map(move |place| {
            let row = self.decoder.source(place as usize)?;
            let (head, message, secret) = RowHead::read(row, proofs)?;
            Some((self.first + place, head, message, secret))
        })
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").field("first", &self.first).field("count", &self.count).finish_non_exhaustive()
    }
}
