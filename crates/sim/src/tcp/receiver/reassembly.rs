//! Reassembly of the received byte ranges.

use std::collections::VecDeque;

use super::super::segment::SACK_BLOCKS_MAX;

/// Received bytes: everything below `next`, and ranges above it.
#[derive(Clone, Debug)]
pub(super) struct Reassembly {
    next: u64,
    /// Ranges above `next`: ascending, disjoint, and not adjacent.
    ranges: VecDeque<(u64, u64)>,
    /// Total length of the ranges, bytes.
    waiting_bytes: u64,
    /// Ranges that changed most recently, latest first (RFC 2018, section 4).
    recent: [(u64, u64); SACK_BLOCKS_MAX],
    recent_count: usize,
}

impl Reassembly {
    pub(super) fn new(next: u64) -> Self {
        Self { next, ranges: VecDeque::new(), waiting_bytes: 0, recent: [(0, 0); SACK_BLOCKS_MAX], recent_count: 0 }
    }

    /// Returns the first missing byte.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns true if data waits above a gap.
    pub(super) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Returns the number of bytes above a gap.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// Returns the ranges to report as SACK blocks, most recent first.
    pub(super) fn recent_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.recent[..self.recent_count].iter().copied()
    }

    /// Adds the bytes `start..end`. Returns true if any of them is new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> bool {
        if end <= self.next {
            return false;
        }
        if start > self.next {
            return self.insert_above(start, end);
        }
        self.next = end;
        while let Some(&(first, last)) = self.ranges.front() {
            if first > self.next {
                break;
            }
            self.next = self.next.max(last);
            self.waiting_bytes -= last - first;
            self.ranges.pop_front();
        }
        let next = self.next;
        self.retain_recent(|_, last| last > next);
        true
    }

    fn insert_above(&mut self, start: u64, end: u64) -> bool {
        // Most segments extend the last range or lie above it.
        let from = match self.ranges.back() {
            None => 0,
            Some(&(_, last)) if start > last => self.ranges.len(),
            Some(&(first, _)) if start >= first => self.ranges.len() - 1,
            Some(_) => self.ranges.partition_point(|&(_, last)| last < start),
        };
        let mut merged = (start, end);
        let mut to = from;
        let mut covered = false;
        while let Some(&(first, last)) = self.ranges.get(to).filter(|range| range.0 <= end) {
            covered |= first <= start && end <= last;
            self.waiting_bytes -= last - first;
            merged = (merged.0.min(first), merged.1.max(last));
            to += 1;
        }
        self.waiting_bytes += merged.1 - merged.0;
        if to == from {
            self.ranges.insert(from, merged);
        } else {
            self.ranges[from] = merged;
            if to > from + 1 {
                self.ranges.drain(from + 1..to);
            }
        }
        self.retain_recent(|first, last| last < merged.0 || first > merged.1);
        self.recent_count = (self.recent_count + 1).min(SACK_BLOCKS_MAX);
        self.recent[..self.recent_count].rotate_right(1);
        self.recent[0] = merged;
        !covered
    }

    fn retain_recent(&mut self, keep: impl Fn(u64, u64) -> bool) {
        let mut kept = 0;
        for index in 0..self.recent_count {
            let block = self.recent[index];
            if keep(block.0, block.1) {
                self.recent[kept] = block;
                kept += 1;
            }
        }
        self.recent_count = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(reassembly: &Reassembly) -> Vec<(u64, u64)> {
        reassembly.recent_blocks().collect()
    }

    #[test]
    fn the_most_recent_block_comes_first() {
        // Example of RFC 2018, section 4: from 5000 on, every other segment of 500 bytes is lost.
        let mut data = Reassembly::new(5000);
        assert!(data.insert(5500, 6000));
        assert!(data.insert(6500, 7000));
        assert!(data.insert(7500, 8000));
        assert_eq!(blocks(&data), [(7500, 8000), (6500, 7000), (5500, 6000)]);
        assert!(data.insert(6000, 6500));
        assert_eq!(blocks(&data), [(5500, 7000), (7500, 8000)]);
        assert_eq!(data.waiting_bytes(), 2000);
        assert!(data.insert(5000, 5500));
        assert_eq!((data.next(), blocks(&data)), (7000, vec![(7500, 8000)]));
        assert_eq!(data.waiting_bytes(), 500);
        assert!(!data.insert(7500, 8000));
        assert!(!data.insert(5000, 7000));
        assert!(data.insert(7000, 7500));
        assert_eq!((data.next(), data.has_gap(), blocks(&data)), (8000, false, vec![]));
    }
}
