//! Names in one of the sender's directories, kept in order of arrival, which is sorted.

use crate::limits::LISTING_BYTES_HELD_MAX;

/// Sorted names in one contiguous buffer.
#[derive(Debug, Default)]
pub(super) struct ListedNames {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Number of comparisons, for tests.
    #[cfg(test)]
    compared: std::sync::atomic::AtomicU64,
}

impl ListedNames {
    /// Appends a name, which must be greater than all others.
    pub(super) fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        // Cannot overflow: the limit of `is_full` is far below `u32::MAX`.
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// Returns true once the memory limit is reached.
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

    /// Returns the index of a name, by binary search.
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            #[cfg(test)]
            self.compared.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_costs_no_more_for_those_that_are_listed() {
        println!(
            "| names held of a listing | compared with a name of the directory, at the most | bytes moved for a name that comes |\n|---|---:|---:|"
        );
        for count in [1, 1_000, usize::MAX] {
            let mut names = ListedNames::default();
            let (mut moved, mut capacity) = (0, 0);
            while names.len() < count && !names.is_full() {
                names.push(format!("{:08}", 2 * names.len() + 1).as_bytes());
                // The buffer has grown: all bytes before it were moved.
                if names.bytes.capacity() > capacity {
                    (moved, capacity) = (moved + names.bytes.len(), names.bytes.capacity());
                }
            }
            let compared = |name: usize| {
                let before = names.compared.load(std::sync::atomic::Ordering::Relaxed);
                assert_eq!(names.find(format!("{name:08}").as_bytes()).is_some(), name % 2 == 1);
                names.compared.load(std::sync::atomic::Ordering::Relaxed) - before
            };
            let most = (0..=2 * names.len()).map(compared).max().unwrap();
            println!("| {} | {most} | {:.1} |", names.len(), moved as f64 / names.len() as f64);
            assert!(most <= u64::from(names.len().ilog2()) + 1, "{most} for {} names", names.len());
            assert!(moved <= 3 * names.bytes.len(), "{moved} bytes moved of {}", names.bytes.len());
        }
    }
}
