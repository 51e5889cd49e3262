//! The memory of blocks which are done with, for the next ones: a stream in full swing needs the same again and again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::SPARE_BYTES_MAX;

/// The memory of small messages is quickly had again, and many idle connections' last ones would add up.
const KEPT_BYTES_MIN: usize = 16 << 10;

/// Shared by all connections of an endpoint, so that those which are idle hold nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpareBlocks(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl SpareBlocks {
    /// An empty vector which is kept and has room for `bytes`, and for little more: who pays for a block must not get a
    /// larger one. The latest may still be in the processor's caches.
    pub(crate) fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |block: &Vec<u8>| (bytes..=bytes + bytes / 8).contains(&block.capacity());
        let place = kept.blocks.iter().rposition(fits)?;
        let block = kept.blocks.remove(place)?;
        kept.bytes -= block.capacity();
        Some(block)
    }

    /// As [`take`](Self::take), or a new one.
    pub(crate) fn take_or_new(&self, bytes: usize) -> Vec<u8> {
        self.take(bytes).unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    /// Keeps what is not needed any more, and in its place lets go of what has been kept for longest.
    pub(crate) fn give(&self, mut block: Vec<u8>) {
        block.clear();
        if !(KEPT_BYTES_MIN..=SPARE_BYTES_MAX).contains(&block.capacity()) {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += block.capacity();
        kept.blocks.push_back(block);
        while kept.bytes > SPARE_BYTES_MAX
            && let Some(oldest) = kept.blocks.pop_front()
        {
            kept.bytes -= oldest.capacity();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_room(spare: &SpareBlocks, bytes: usize) -> usize {
        let block = spare.take_or_new(bytes);
        assert!(block.is_empty());
        block.capacity()
    }

    #[test]
    fn a_block_of_nearly_the_size_serves_again() {
        let spare = SpareBlocks::default();
        for (bytes, capacity) in [(40_000, 40_000), (37_000, 40_000), (30_000, 30_000), (40_001, 40_001)] {
            spare.give(vec![7; 40_000]);
            assert_eq!(with_room(&spare, bytes), capacity);
        }
        spare.give(vec![7; KEPT_BYTES_MIN - 1]);
        assert_eq!(spare.take(KEPT_BYTES_MIN - 1), None, "not worth keeping");
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let spare = SpareBlocks::default();
        spare.give(vec![7; SPARE_BYTES_MAX / 8]);
        (0..10).for_each(|_| spare.give(vec![7; SPARE_BYTES_MAX / 4]));
        assert_eq!(spare.take(SPARE_BYTES_MAX / 8), None, "it was the oldest");
        assert_eq!((0..10).filter_map(|_| spare.take(SPARE_BYTES_MAX / 4)).count(), 4);
        assert_eq!(spare.0.lock().unwrap().bytes, 0);
        spare.give(vec![7; SPARE_BYTES_MAX + 1]);
        assert_eq!(spare.take(SPARE_BYTES_MAX + 1), None);
    }
}
