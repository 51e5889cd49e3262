//! BLAKE3 hash of a file whose parts are hashed in any order.
//!
//! BLAKE3 is a tree over chunks of 1024 bytes. A part that is a whole subtree has a *chaining value* of its own, and
//! the file's hash follows from the chaining values of its parts. Thus the stored beginning of a file can be hashed
//! while the rest arrives, and differences are located without sending either version.

use std::collections::BTreeMap;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::limits::{PARTS_MAX, SPAN_BYTES_MIN};

/// Granularity of resumption, bytes. 64 KiB take half a second at 1 Mbit/s.
pub(crate) const LEAF_BYTES: u64 = 64 * 1024;

/// BLAKE3 chaining value of a part.
pub(crate) type ChainingValue = [u8; 32];

/// Division of a file into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    len: u64,
    /// Level of the largest parts; a part of level n has 2ⁿ leaves.
    level_max: u32,
}

/// Part of a file that forms one subtree of the BLAKE3 tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
    /// Level of the subtree: the part has 2^level leaves, or fewer at the end of the file.
    level: u32,
}

impl Part {
    /// Returns the length, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Returns a hasher for the part's content.
    pub(crate) fn hasher(&self) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(self.start);
        hasher
    }
}

impl Shape {
    /// Returns the division of a file of `len` bytes; `None` if the file is too short to have parts.
    pub(crate) fn of(len: u64) -> Option<Self> {
        let leaves = len.div_ceil(LEAF_BYTES);
        if leaves < 2 {
            return None;
        }
        // No part may be the root, so the largest possible part is the root's left child, whose number of leaves is a
        // power of two.
        let root_level = (leaves - 1).ilog2();
        let span = len.div_ceil(PARTS_MAX).max(SPAN_BYTES_MIN).div_ceil(LEAF_BYTES).next_power_of_two();
        Some(Self { len, level_max: span.ilog2().min(root_level) })
    }

    /// Returns the length of the file, bytes.
    pub(crate) fn file_bytes(self) -> u64 {
        self.len
    }

    /// Returns the number of parts of the largest size, counting the last one even if it is shorter.
    pub(crate) fn spans(self) -> usize {
        usize::try_from(self.len.div_ceil(self.span_bytes())).unwrap_or(usize::MAX)
    }

    /// Returns the length of the largest parts, bytes.
    pub(crate) fn span_bytes(self) -> u64 {
        LEAF_BYTES << self.level_max
    }

    /// Returns the last leaf boundary at or before `position`, from which a file with `position` stored bytes can be
    /// resumed.
    pub(crate) fn floor(self, position: u64) -> u64 {
        // For a complete beginning, the last leaf is sent again, so that some content remains to be sent.
        position.min(self.len - 1) / LEAF_BYTES * LEAF_BYTES
    }

    /// Returns the parts that cover the bytes from `start` to `end`, in order. Both must be multiples of
    /// [`LEAF_BYTES`]; `end` may also be the end of the file.
    pub(crate) fn parts(self, start: u64, end: u64) -> impl Iterator<Item = Part> {
        let mut next = start;
        std::iter::from_fn(move || {
            let part = (next < end).then(|| self.part(next, end))?;
            next = part.end;
            Some(part)
        })
    }

    fn part(self, start: u64, end: u64) -> Part {
        let mut level = (start / LEAF_BYTES).trailing_zeros().min(self.level_max);
        while level > 0 && start + (LEAF_BYTES << level) > end && end < self.len {
            level -= 1;
        }
        Part { start, end: end.min(start + (LEAF_BYTES << level)), level }
    }
}

/// Hash of a file, built from its parts in any order.
#[derive(Debug)]
pub(crate) struct HashTree {
    shape: Shape,
    /// Subtrees whose sibling is not known yet: level and chaining value, by offset of the first byte.
    nodes: BTreeMap<u64, (u32, ChainingValue)>,
    /// Chaining values of the largest parts, by number; `None` if unknown.
    spans: Vec<Option<ChainingValue>>,
}

impl HashTree {
    /// Creates the tree without any part.
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, nodes: BTreeMap::new(), spans: vec![None; shape.spans()] }
    }

    /// Adds the chaining value of a part. If the part, or a subtree containing it, was already known, the new value
    /// replaces the old one only while that subtree has not been merged with its sibling.
    pub(crate) fn insert(&mut self, part: Part, value: ChainingValue) {
        let (mut start, mut level, mut value) = (part.start, part.level, value);
        loop {
            if level == self.shape.level_max
                && let Some(span) =
                    usize::try_from(start / self.shape.span_bytes()).ok().and_then(|span| self.spans.get_mut(span))
            {
                *span = Some(value);
            }
            let bytes = LEAF_BYTES << level;
            let parent = start & !bytes;
            // The root's children are not merged here; [`HashTree::root`] does that.
            let is_root = parent == 0 && bytes.saturating_mul(2) >= self.shape.len;
            let sibling = self.nodes.get(&(start ^ bytes)).filter(|(its, _)| *its == level && !is_root).copied();
            let Some((_, other)) = sibling else {
                self.nodes.insert(start, (level, value));
                return;
            };
            self.nodes.remove(&(start ^ bytes));
            let (left, right) = if parent == start { (&value, &other) } else { (&other, &value) };
            value = merge_subtrees_non_root(left, right, Mode::Hash);
            (start, level) = (parent, level + 1);
        }
    }

    /// Returns the chaining value of the largest part with this number, if known.
    pub(crate) fn span(&self, number: usize) -> Option<ChainingValue> {
        self.spans.get(number).copied().flatten()
    }

    /// Returns the number of largest parts that lie within the first `offset` bytes.
    pub(crate) fn whole_spans(&self, offset: u64) -> usize {
        usize::try_from(offset / self.shape.span_bytes()).map_or(self.spans.len(), |whole| whole.min(self.spans.len()))
    }

    /// Returns the chaining values of all largest parts. All but the first `whole` parts are reported as `None`.
    pub(crate) fn spans(&self, whole: usize) -> Vec<Option<ChainingValue>> {
        let all = self.spans.iter().enumerate();
        all.map(|(number, value)| value.filter(|_| number < whole)).collect()
    }

    /// Returns the hash of the file; `None` unless every part is known.
    pub(crate) fn root(&self) -> Option<blake3::Hash> {
        let mut end = 0;
        for (start, (level, _)) in &self.nodes {
            if *start != end {
                return None;
            }
            end = start.saturating_add(LEAF_BYTES << level);
        }
        let mut nodes = self.nodes.values().map(|(_, value)| value);
        let (first, mut last) = (nodes.next()?, *nodes.next_back()?);
        if end < self.shape.len {
            return None;
        }
        while let Some(value) = nodes.next_back() {
            last = merge_subtrees_non_root(value, &last, Mode::Hash);
        }
        Some(merge_subtrees_root(first, &last, Mode::Hash))
    }
}

/// Tree hasher for data that arrives in order, from a given offset on.
#[derive(Debug)]
pub(crate) struct TreeHasher {
    tree: HashTree,
    position: u64,
    part: Part,
    hasher: blake3::Hasher,
}

impl TreeHasher {
    /// Starts at the offset `start`, a multiple of [`LEAF_BYTES`] within the file.
    pub(crate) fn new(shape: Shape, start: u64) -> Self {
        let part = shape.part(start, shape.len);
        Self { tree: HashTree::new(shape), position: start, part, hasher: part.hasher() }
    }

    /// Returns the division of the file into parts.
    pub(crate) fn shape(&self) -> Shape {
        self.tree.shape
    }

    /// Returns the offset after the last byte hashed in order.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Hashes the next bytes. Bytes after the end of the file are not hashed, but advance the position.
    pub(crate) fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() && self.position < self.tree.shape.len {
            let room = usize::try_from(self.part.end - self.position).unwrap_or(usize::MAX);
            let (now, later) = data.split_at(room.min(data.len()));
            self.hasher.update(now);
            self.position += now.len() as u64;
            data = later;
            if self.position == self.part.end {
                self.tree.insert(self.part, self.hasher.finalize_non_root());
                if self.position < self.tree.shape.len {
                    self.part = self.tree.shape.part(self.position, self.tree.shape.len);
                    self.hasher = self.part.hasher();
                }
            }
        }
        self.position += data.len() as u64;
    }

    /// Returns the tree, to which parts hashed elsewhere can be added.
    pub(crate) fn tree(&mut self) -> &mut HashTree {
        &mut self.tree
    }

    /// Returns the hash of the file; `None` unless all bytes have been hashed and no more were passed.
    pub(crate) fn root(&self) -> Option<blake3::Hash> {
        (self.position == self.tree.shape.len).then(|| self.tree.root()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Content without repetition.
    fn content(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn slice(content: &[u8], part: Part) -> &[u8] {
        &content[part.start as usize..part.end as usize]
    }

    fn value(content: &[u8], part: Part) -> ChainingValue {
        part.hasher().update(slice(content, part)).finalize_non_root()
    }

    #[test]
    fn a_file_of_one_leaf_has_no_parts() {
        for len in [0, 1, LEAF_BYTES - 1, LEAF_BYTES] {
            assert_eq!(Shape::of(len), None);
        }
        assert!(Shape::of(LEAF_BYTES + 1).is_some());
    }

    /// The limit keeps journals and frames small for files of any length.
    #[test]
    fn no_file_has_more_parts_than_the_limit() {
        for len in [LEAF_BYTES + 1, 1 << 30, (1 << 36) + 1, 1 << 40, u64::MAX / 4] {
            let shape = Shape::of(len).unwrap();
            assert!(shape.spans() as u64 <= PARTS_MAX + 1, "{len}");
            let most = shape.parts(0, shape.floor(len)).count() as u64;
            assert!(most <= PARTS_MAX + 64, "{len}: {most}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_root_is_the_hash_whatever_came_before_and_in_which_order(
            len in (LEAF_BYTES as usize + 1)..(40 * LEAF_BYTES as usize),
            offset in any::<prop::sample::Index>(),
            cuts in proptest::collection::vec(1usize..300_000, 1..20),
            is_prefix_late in any::<bool>(),
            is_reversed in any::<bool>(),
        ) {
            let content = content(len);
            let shape = Shape::of(len as u64).unwrap();
            let offset = shape.floor(offset.index(len + 1) as u64);
            let mut hasher = TreeHasher::new(shape, offset);
            let mut parts: Vec<_> = shape.parts(0, offset).collect();
            prop_assert_eq!(parts.iter().map(Part::bytes).sum::<u64>(), offset);
            if is_reversed {
                parts.reverse();
            }
            let insert = |hasher: &mut TreeHasher| {
                for part in &parts {
                    hasher.tree().insert(*part, value(&content, *part));
                }
            };
            if !is_prefix_late {
                insert(&mut hasher);
            }
            let (mut rest, mut cuts) = (&content[offset as usize..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                prop_assert_eq!(hasher.root(), None);
                let (now, later) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                hasher.update(now);
                rest = later;
            }
            if is_prefix_late {
                prop_assert!(offset == 0 || hasher.root().is_none());
                insert(&mut hasher);
            }
            prop_assert_eq!(hasher.root(), Some(blake3::hash(&content)));
            // Skip the last part: it may have arrived in several pieces, and is never part of a resumed beginning.
            for number in 0..(len as u64 / shape.span_bytes()) as usize {
                let start = number as u64 * shape.span_bytes();
                let part = shape.parts(start, shape.file_bytes()).next().unwrap();
                prop_assert_eq!(hasher.tree().span(number), Some(value(&content, part)));
            }
            // Content after the announced length makes the hash unavailable.
            hasher.update(b"x");
            prop_assert_eq!(hasher.root(), None);
        }
    }
}
