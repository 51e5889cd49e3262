//! Bytes read by the application and not yet reported to the peer.

use std::collections::BTreeSet;

use dfcp_wire::StreamId;

/// Bytes read and not yet reported, per stream: those read since the last report that named the stream.
#[derive(Debug, Default)]
pub(super) struct Untold {
    bytes: u64,
    /// The first stream has unreported bytes. Most sessions have no other stream, and then need no memory here.
    is_of_first: bool,
    /// Other streams with unreported bytes, so that finding them needs no search. Not freed when empty: reading must
    /// not allocate each time.
    others: BTreeSet<StreamId>,
}

impl Untold {
    /// Records that the stream's unreported bytes have changed from `before` to `after`.
    pub(super) fn change(&mut self, id: StreamId, before: u64, after: u64) {
        self.bytes = self.bytes - before + after;
        if id == StreamId::FIRST {
            self.is_of_first = after > 0;
        } else if before == 0 && after > 0 {
            self.others.insert(id);
        } else if before > 0 && after == 0 {
            self.others.remove(&id);
        }
    }

    /// Unreported bytes of all streams.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Streams with unreported bytes, in the order of ids.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.is_of_first.then_some(StreamId::FIRST).into_iter().chain(self.others.iter().copied())
    }

    /// Frees the memory of an empty set. Sessions whose streams are gone do not need it.
    pub(super) fn give_back(&mut self) {
        if self.others.is_empty() {
            self.others = BTreeSet::new();
        }
    }
}
