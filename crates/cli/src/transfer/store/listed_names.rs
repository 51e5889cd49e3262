//! Names of a sender's directory, as they came: in order.

use crate::limits::LISTING_BYTES_HELD_MAX;

/// Sorted names, one behind the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct ListedNames {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl ListedNames {
    /// Adds one that is behind all others.
    pub(super) fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        // They are let go long before that.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// Whether there are as many as may be held.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() + self.ends.len() * size_of::<u32>() >= LISTING_BYTES_HELD_MAX
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        &self.bytes[start..self.ends[place] as usize]
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.len().checked_sub(1).map(|last| self.get(last))
    }

    /// Where a name is.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(name) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
