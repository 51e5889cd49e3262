//! Messages that are coded together: repair symbols over their rows (`spec/protocol.md` \[message-5\]).

use dfcp_fountain::kernel::Kernel;
use dfcp_fountain::random_linear::{Decoder, Pushed};
use dfcp_time::Time;

use crate::message::rows::{HEAD_BYTES, RowHead, group_shape, row_bytes};

/// A message that is known, and may be needed to decode its neighbours.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: u32,
    pub(super) head: RowHead,
    /// The message, and its secret if there are proofs.
    pub(super) bytes: Vec<u8>,
    pub(super) until: Time,
}

/// A group of which a repair symbol has come.
pub(super) struct Group {
    first: u32,
    count: u16,
    row_bytes: usize,
    decoder: Decoder,
    pub(super) until: Time,
}

impl Group {
    /// `None` if no such group can be coded.
    pub(super) fn new(kernel: Kernel, first: u32, count: u16, row_bytes: usize, until: Time) -> Option<Self> {
        let shape = group_shape(count.into(), row_bytes).filter(|_| row_bytes >= HEAD_BYTES)?;
        Some(Self { first, count, row_bytes, decoder: Decoder::new(kernel, shape), until })
    }

    /// What it may come to hold: the rows, and as many repair symbols.
    pub(super) fn bytes_max(count: u16, row_bytes: usize) -> usize {
        2 * usize::from(count) * row_bytes
    }

    pub(super) fn held_bytes(&self) -> usize {
        Self::bytes_max(self.count, self.row_bytes)
    }

    pub(super) fn is(&self, first: u32, count: u16, row_bytes: usize) -> bool {
        (self.first, self.count, self.row_bytes) == (first, count, row_bytes)
    }

    fn place(&self, id: u32) -> Option<u32> {
        id.checked_sub(self.first).filter(|&place| place < self.count.into())
    }

    pub(super) fn covers(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    /// A message of the group is known. Returns whether all are now, and were not before.
    pub(super) fn add(&mut self, known: &Known, proofs: bool, row: &mut Vec<u8>) -> bool {
        let Some(place) = self.place(known.id) else { return false };
        let length = known.head.length_bytes as usize;
        let Some(message) = known.bytes.get(..length).filter(|_| row_bytes(length, proofs) <= self.row_bytes) else {
            return false;
        };
        let secret =
            known.bytes.get(length..).and_then(|rest| rest.first_chunk()).map(|secret| u32::from_be_bytes(*secret));
        row.clear();
        row.resize(self.row_bytes, 0);
        known.head.write(message, secret, row);
        self.push(place, row)
    }

    /// A repair symbol has come. Returns whether all messages are known now, and were not before.
    pub(super) fn push(&mut self, esi: u32, symbol: &[u8]) -> bool {
        let was_complete = self.decoder.is_complete();
        let pushed = self.decoder.push(esi, symbol);
        debug_assert!(pushed.is_ok() || symbol.len() != self.row_bytes);
        !was_complete && !matches!(pushed, Ok(Pushed::Complete)) && self.decoder.is_complete()
    }

    /// All messages, if they are known: ids and rows. What is no row was never sent by an honest peer.
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
