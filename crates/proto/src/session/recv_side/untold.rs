//! Bytes that the application has read and no report has told.

use std::collections::BTreeSet;

use dfcp_wire::StreamId;

/// Bytes of streams which were read since a report named these streams.
#[derive(Debug, Default)]
pub(super) struct Untold {
    bytes: u64,
    /// The first stream has some. Most sessions have no other, and take no memory for them.
    is_of_first: bool,
    /// The others that have any, so that they are found without a search of all. Kept when it is empty: reading must not allocate
    /// each time.
    others: BTreeSet<StreamId>,
}

impl Untold {
    /// The stream had `before` such bytes, and has `after`.
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

    /// Those of all streams.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The streams that have any, by id.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.is_of_first.then_some(StreamId::FIRST).into_iter().chain(self.others.iter().copied())
    }

    /// An empty set keeps its memory, which sessions whose streams are gone have no use for.
    pub(super) fn give_back(&mut self) {
        if self.others.is_empty() {
            self.others = BTreeSet::new();
        }
    }
}
