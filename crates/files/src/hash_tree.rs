//! BLAKE3 of a file whose parts are hashed in any order.
//!
//! BLAKE3 is a tree over chunks of 1024 bytes. A part that is a whole subtree has its own *chaining value*, and the file's hash follows
//! from those of its parts. So a partial file is hashed in parallel with the rest, and differences are located without sending either
//! version.

use std::collections::BTreeMap;

use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

use crate::limits::{PARTS_MAX, SPAN_BYTES_MIN};

/// Granularity of resumption, bytes: half a second at 1 Mbit/s.
pub(crate) const LEAF_BYTES: u64 = 64 * 1024;

/// Chaining value of a part.
pub(crate) type ChainingValue = [u8; 32];

/// Division of a file into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    len: u64,
    /// Level of the largest parts, which have 2^level leaves.
    level_max: u32,
}

/// Part of a file: one subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    /// Offset of its first byte.
    pub start: u64,
    /// Offset past its last byte.
    pub end: u64,
    /// Level of the part: 2^level leaves, or fewer at the end of the file.
    level: u32,
}

impl Part {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Hasher for the part's content.
    pub(crate) fn hasher(&self) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.set_input_offset(self.start);
        hasher
    }
}

impl Shape {
    /// Shape of a file of `len` bytes; `None` if it is too short to have parts.
    pub(crate) fn of(len: u64) -> Option<Self> {
        let leaves = len.div_ceil(LEAF_BYTES);
        if leaves < 2 {
            return None;
        }
        // The root is no part: its left child is the largest proper power of two of leaves.
        let root_level = (leaves - 1).ilog2();
        let span = len.div_ceil(PARTS_MAX).max(SPAN_BYTES_MIN).div_ceil(LEAF_BYTES).next_power_of_two();
        Some(Self { len, level_max: span.ilog2().min(root_level) })
    }

    /// Length of the file, bytes.
    pub(crate) fn file_bytes(self) -> u64 {
        self.len
    }

    /// Number of parts of the largest size; the last one may be shorter.
    pub(crate) fn spans(self) -> usize {
        usize::try_from(self.len.div_ceil(self.span_bytes())).unwrap_or(usize::MAX)
    }

    /// Length of the largest parts, bytes.
    pub(crate) fn span_bytes(self) -> u64 {
        LEAF_BYTES << self.level_max
    }

    /// Last possible start of a part at or before `position`: the usable length of a beginning.
    pub(crate) fn floor(self, position: u64) -> u64 {
        // At the end nothing would be left to resume: the last leaf is sent again.
        position.min(self.len - 1) / LEAF_BYTES * LEAF_BYTES
    }

    /// Parts that cover `start` to `end`, in order. Both are multiples of [`LEAF_BYTES`], or `end` is the file's.
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
    /// Subtrees whose sibling is missing, by first byte.
    nodes: BTreeMap<u64, (u32, ChainingValue)>,
    /// Known chaining values of the largest parts.
    spans: Vec<Option<ChainingValue>>,
}

impl HashTree {
    /// Starts without any part.
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, nodes: BTreeMap::new(), spans: vec![None; shape.spans()] }
    }

    /// Adds the chaining value of a part. A part that came before, or contains it, is replaced only if its sibling is missing.
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
            // The root's children are the last ones left; see [`HashTree::root`].
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

    /// Chaining value of a largest part by number, if known.
    pub(crate) fn span(&self, number: usize) -> Option<ChainingValue> {
        self.spans.get(number).copied().flatten()
    }

    /// Number of largest parts within the first `offset` bytes.
    pub(crate) fn whole_spans(&self, offset: u64) -> usize {
        usize::try_from(offset / self.shape.span_bytes()).map_or(self.spans.len(), |whole| whole.min(self.spans.len()))
    }

    /// Known chaining values of the first `whole` largest parts; `None` for the others.
    pub(crate) fn spans(&self, whole: usize) -> Vec<Option<ChainingValue>> {
        let all = self.spans.iter().enumerate();
        all.map(|(number, value)| value.filter(|_| number < whole)).collect()
    }

    /// Hash of the file, once every part is known.
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

/// Hasher of data in order, from some offset on.
#[derive(Debug)]
pub(crate) struct TreeHasher {
    tree: HashTree,
    position: u64,
    part: Part,
    hasher: blake3::Hasher,
}

impl TreeHasher {
    /// Starts at `start`, a multiple of [`LEAF_BYTES`] within the file.
    pub(crate) fn new(shape: Shape, start: u64) -> Self {
        let part = shape.part(start, shape.len);
        Self { tree: HashTree::new(shape), position: start, part, hasher: part.hasher() }
    }

    /// The file's shape.
    pub(crate) fn shape(&self) -> Shape {
        self.tree.shape
    }

    /// Offset past the last byte hashed in order.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Hashes the next bytes. Bytes past the end of the file only advance the position.
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

    /// Tree, to add parts hashed elsewhere.
    pub(crate) fn tree(&mut self) -> &mut HashTree {
        &mut self.tree
    }

    /// Hash of the file, if exactly its length has been hashed.
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

    /// The limit keeps journal and frames small for any length.
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
            // The last part may have arrived in pieces, and is never a beginning.
            for number in 0..(len as u64 / shape.span_bytes()) as usize {
                let start = number as u64 * shape.span_bytes();
                let part = shape.parts(start, shape.file_bytes()).next().unwrap();
                prop_assert_eq!(hasher.tree().span(number), Some(value(&content, part)));
            }
            // Content beyond the length is not accepted.
            hasher.update(b"x");
            prop_assert_eq!(hasher.root(), None);
        }
    }
}
