//! Pool of memory from finished blocks, for reuse by later blocks: a busy stream needs blocks of the same size again
//! and again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dfcp_fountain::random_linear::Decoder;

use crate::limits::{SPARE_BYTES_MAX, SPARE_DECODERS_MAX, SPARE_DECODERS_SHARE};

/// Smaller allocations are not kept: they are cheap to make, and the last ones of many idle connections would add up.
const KEPT_BYTES_MIN: usize = 16 << 10;

/// Pool of the memory of finished blocks and decoders. All connections of an endpoint share one pool, so idle
/// connections hold no memory.
#[derive(Clone, Debug, Default)]
pub struct SpareBlocks(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<Vec<u8>>,
    decoders: VecDeque<Box<Decoder>>,
    /// Bytes of blocks and decoders together.
    bytes: usize,
    /// Bytes of decoders.
    decoders_bytes: usize,
}

impl Kept {
    /// Frees the oldest entries until the limits hold.
    fn trim(&mut self) {
        while self.decoders.len() > SPARE_DECODERS_MAX || self.decoders_bytes > SPARE_BYTES_MAX / SPARE_DECODERS_SHARE {
            let Some(oldest) = self.decoders.pop_front() else { break };
            self.bytes -= memory_bytes(&oldest);
            self.decoders_bytes -= memory_bytes(&oldest);
        }
        while self.bytes > SPARE_BYTES_MAX {
            let Some(oldest) = self.blocks.pop_front() else { break };
            self.bytes -= oldest.capacity();
        }
    }
}

/// Returns the bytes that a decoder keeps after its block has been taken out.
fn memory_bytes(decoder: &Decoder) -> usize {
    size_of::<Decoder>() + decoder.kept_bytes()
}

impl SpareBlocks {
    /// Returns an empty vector from the pool with room for `bytes`, and at most an eighth more: a connection is charged
    /// for a block and must not get a larger one. The newest fitting vector is used, because it may still be in the
    /// processor's caches.
    pub(crate) fn take(&self, bytes: usize) -> Option<Vec<u8>> {
        if bytes + bytes / 8 < KEPT_BYTES_MIN {
            return None;
        }
        let mut kept = self.lock();
        let fits = |block: &Vec<u8>| (bytes..=bytes + bytes / 8).contains(&block.capacity());
        let place = kept.blocks.iter().rposition(fits)?;
        let block = kept.blocks.remove(place)?;
        kept.bytes -= block.capacity();
        Some(block)
    }

    /// Like [`take`](Self::take), or allocates a new vector.
    pub(crate) fn take_or_new(&self, bytes: usize) -> Vec<u8> {
        self.take(bytes).unwrap_or_else(|| Vec::with_capacity(bytes))
    }

    /// Returns memory to the pool, where it replaces the oldest entries.
    pub(crate) fn give(&self, mut block: Vec<u8>) {
        block.clear();
        if !(KEPT_BYTES_MIN..=SPARE_BYTES_MAX).contains(&block.capacity()) {
            return;
        }
        let mut kept = self.lock();
        kept.bytes += block.capacity();
        kept.blocks.push_back(block);
        kept.trim();
    }

    /// Returns the decoder that was kept last. Its memory is sized for its former block: the caller must restart it,
    /// which resizes the memory for the next block.
    pub(crate) fn take_decoder(&self) -> Option<Box<Decoder>> {
        let mut kept = self.lock();
        let decoder = kept.decoders.pop_back()?;
        kept.bytes -= memory_bytes(&decoder);
        kept.decoders_bytes -= memory_bytes(&decoder);
        Some(decoder)
    }

    /// Returns a decoder whose block has been taken out to the pool, like [`give`](Self::give).
    pub(crate) fn give_decoder(&self, decoder: Box<Decoder>) {
        let mut kept = self.lock();
        kept.bytes += memory_bytes(&decoder);
        kept.decoders_bytes += memory_bytes(&decoder);
        kept.decoders.push_back(decoder);
        kept.trim();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use dfcp_fountain::kernel::Kernel;
    use dfcp_fountain::random_linear::BlockShape;

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
    /// A decoder that has decoded a block of 256 symbols of `symbol_size` bytes, from repair symbols alone.
    fn used_decoder(symbol_size: usize) -> Box<Decoder> {
        let shape = BlockShape::new(256, 256 * symbol_size).unwrap();
        let mut decoder = Box::new(Decoder::new(Kernel::detect(), shape));
        let mut esi = 256;
        while !decoder.is_complete() {
            decoder.push(esi, &vec![0; symbol_size]).unwrap();
            esi += 1;
        }
        assert!(decoder.take_block().is_some());
        decoder
    }

    #[test]
    fn decoders_take_a_part_of_what_is_kept_and_leave_the_rest_to_blocks() {
        let spare = SpareBlocks::default();
        (0..4).for_each(|_| spare.give(vec![7; SPARE_BYTES_MAX / 4]));
        let bytes = memory_bytes(&used_decoder(1_472));
        assert!(bytes > 256 * 1_472, "repair symbols are in it");
        (0..20).for_each(|_| spare.give_decoder(used_decoder(1_472)));
        assert!(spare.lock().bytes <= SPARE_BYTES_MAX);
        assert_eq!((0..20).filter_map(|_| spare.take(SPARE_BYTES_MAX / 4)).count(), 3);
        let decoders = std::iter::from_fn(|| spare.take_decoder()).count();
        assert_eq!(decoders, SPARE_BYTES_MAX / SPARE_DECODERS_SHARE / bytes);
        let kept = spare.lock();
        assert_eq!((kept.bytes, kept.decoders_bytes), (0, 0));
    }

    #[test]
    fn decoders_without_memory_are_counted() {
        let spare = SpareBlocks::default();
        let shape = BlockShape::new(1, 1).unwrap();
        (0..2 * SPARE_DECODERS_MAX).for_each(|_| spare.give_decoder(Box::new(Decoder::new(Kernel::scalar(), shape))));
        assert_eq!(std::iter::from_fn(|| spare.take_decoder()).count(), SPARE_DECODERS_MAX);
    }
}
