//! File contents in copy-on-write blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, RngExt};

/// Atomic unit of a disk. After a power cut any subset of the blocks of a longer write may exist.
pub(crate) const BLOCK_BYTES: u64 = 4096;

type Block = [u8; BLOCK_BYTES as usize];

/// A sparse sequence of bytes. The last block is zero beyond the length, so that extending a file reads as zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Content {
    len: u64,
    blocks: BTreeMap<u64, Arc<Block>>,
}

/// Part of the unflushed data that survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// None of the data.
    Lost,
    /// All of the data.
    Kept,
    /// A part, drawn from the seed.
    Drawn,
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Allocated blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Reads up to `max` bytes at `offset`.
    pub(crate) fn read(&self, offset: u64, max: u64) -> Vec<u8> {
        let end = self.len.min(offset.saturating_add(max));
        let mut bytes = Vec::with_capacity(end.saturating_sub(offset) as usize);
        let mut at = offset;
        while at < end {
            let (number, from) = (at / BLOCK_BYTES, (at % BLOCK_BYTES) as usize);
            let to = (end - number * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
            match self.blocks.get(&number) {
                Some(block) => bytes.extend_from_slice(&block[from..to]),
                None => bytes.resize(bytes.len() + to - from, 0),
            }
            at = number * BLOCK_BYTES + to as u64;
        }
        bytes
    }

    /// Writes `data` until `free_blocks` new blocks are used up, and returns the number of bytes written.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], mut free_blocks: u64) -> usize {
        let mut written = 0;
        while written < data.len() {
            let at = offset + written as u64;
            let (number, from) = (at / BLOCK_BYTES, (at % BLOCK_BYTES) as usize);
            if !self.blocks.contains_key(&number) {
                let Some(left) = free_blocks.checked_sub(1) else { break };
                free_blocks = left;
            }
            let count = (BLOCK_BYTES as usize - from).min(data.len() - written);
            let block = self.blocks.entry(number).or_insert_with(|| Arc::new([0; BLOCK_BYTES as usize]));
            Arc::make_mut(block)[from..from + count].copy_from_slice(&data[written..written + count]);
            written += count;
            self.len = self.len.max(at + count as u64);
        }
        written
    }

    /// Truncates, or extends by zeros.
    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.len {
            let _removed = self.blocks.split_off(&len.div_ceil(BLOCK_BYTES));
            if let Some(block) = self.blocks.get_mut(&(len / BLOCK_BYTES)) {
                Arc::make_mut(block)[(len % BLOCK_BYTES) as usize..].fill(0);
            }
        }
        self.len = len;
    }

    /// The content after a power cut. `self` is the durable content, `written` the volatile one, and `shortest` the smallest volatile length
    /// since the last flush.
    pub(crate) fn after_power_cut(&self, written: &Self, shortest: u64, fate: Fate, random: &mut impl Rng) -> Self {
        match fate {
            Fate::Lost => self.clone(),
            Fate::Kept => written.clone(),
            Fate::Drawn => self.drawn(written, shortest, random),
        }
    }

    fn drawn(&self, written: &Self, shortest: u64, random: &mut impl Rng) -> Self {
        let mut left = self.clone();
        // The truncation may have reached the disk without the data written after it.
        if shortest < left.len && random.random_bool(0.5) {
            left.set_len(shortest);
        }
        // With one share for all seeds, large files would never lack just one block, or keep just one block.
        let share = [0.1, 0.5, 0.9][random.random_range(0..3)];
        let numbers: Vec<u64> = left.blocks.keys().chain(written.blocks.keys()).copied().collect();
        for number in numbers.into_iter().collect::<std::collections::BTreeSet<_>>() {
            let is_inside = number * BLOCK_BYTES < written.len;
            if is_inside && left.blocks.get(&number) != written.blocks.get(&number) && random.random_bool(share) {
                match written.blocks.get(&number) {
                    Some(block) => left.blocks.insert(number, Arc::clone(block)),
                    None => left.blocks.remove(&number),
                };
                left.len = left.len.max(written.len.min((number + 1) * BLOCK_BYTES));
            }
        }
        if written.len != left.len && random.random_bool(0.5) {
            left.set_len(written.len);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    fn content(bytes: &[u8]) -> Content {
        let mut content = Content::default();
        assert_eq!(content.write(0, bytes, u64::MAX), bytes.len());
        content
    }

    /// Comparison with the reference model, a vector of bytes without blocks or sharing.
    #[test]
    fn reads_and_writes_as_a_vector_does() {
        for seed in 0..50 {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let (mut content, mut model) = (Content::default(), Vec::new());
            for _ in 0..40 {
                let (at, count) = (random.random_range(0..20_000_usize), random.random_range(0..9_000_usize));
                if random.random_bool(0.3) {
                    content.set_len(at as u64);
                    model.resize(at, 0);
                } else {
                    let data: Vec<u8> = (0..count).map(|_| random.random()).collect();
                    let before = content.clone();
                    content.write(at as u64, &data, u64::MAX);
                    assert_eq!(before.read(0, u64::MAX), model, "seed {seed}: a copy has changed");
                    if count > 0 {
                        model.resize(model.len().max(at + count), 0);
                        model[at..at + count].copy_from_slice(&data);
                    }
                }
                assert_eq!(
                    (content.len(), content.read(0, u64::MAX)),
                    (model.len() as u64, model.clone()),
                    "seed {seed}"
                );
                let end = model.len().min(at + count);
                assert_eq!(content.read(at as u64, count as u64), &model[at.min(end)..end], "seed {seed}");
            }
        }
    }

    #[test]
    fn writes_what_there_is_room_for() {
        let mut content = Content::default();
        assert_eq!(content.write(4000, &[1; 10_000], 2), 4192);
        assert_eq!((content.len(), content.blocks()), (8192, 2));
        assert_eq!(content.write(8192, b"more", 0), 0);
        assert_eq!(content.write(0, &[2; 8192], 0), 8192, "these blocks are there already");
    }

    /// A block of a rewritten file is old, new, or zero if the file was truncated in between.
    #[test]
    fn every_block_is_an_old_one_or_a_new_one() {
        let (old, new) = (content(&[1; 20_000]), content(&[2; 30_000]));
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let left = old.after_power_cut(&new, 8_192, Fate::Drawn, &mut Pcg64Mcg::seed_from_u64(seed));
            assert_eq!(left, old.after_power_cut(&new, 8_192, Fate::Drawn, &mut Pcg64Mcg::seed_from_u64(seed)));
            for block in left.read(0, u64::MAX).chunks(4096) {
                let kinds: std::collections::BTreeSet<u8> = block.iter().copied().collect();
                // The old content ends within a block, so this block mixes old bytes and zeros.
                assert!(kinds.len() == 1 || kinds == [0, 1].into(), "seed {seed}: {kinds:?}");
                seen.extend(kinds);
            }
            seen.insert(if left.len() == 30_000 { 3 } else { 4 });
        }
        assert_eq!(seen, (0..=4).collect(), "zeros, old and new blocks, and two kinds of lengths");
        let random = &mut Pcg64Mcg::seed_from_u64(0);
        assert_eq!(old.after_power_cut(&new, 0, Fate::Lost, random), old);
        assert_eq!(old.after_power_cut(&new, 0, Fate::Kept, random), new);
    }
}
