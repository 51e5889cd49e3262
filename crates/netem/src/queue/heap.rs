//! Heap of flows with changeable keys; a change costs O(log flows).

/// Index that marks a slot outside the heap.
const ABSENT: u32 = u32::MAX;

/// Binary min-heap that contains each slot at most once. Equal keys are ordered by slot, so that results do not depend
/// on the order of insertion.
#[derive(Clone, Debug)]
pub(super) struct SlotHeap<K> {
    entries: Vec<(K, u32)>,
    /// Index into `entries` for every slot, or [`ABSENT`].
    places: Vec<u32>,
}

impl<K: Ord + Copy> SlotHeap<K> {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), places: Vec::new() }
    }

    /// Returns the smallest key with its slot; `None` if the heap is empty.
    pub(super) fn peek(&self) -> Option<(K, usize)> {
        self.entries.first().map(|&(key, slot)| (key, slot as usize))
    }

    pub(super) fn contains(&self, slot: usize) -> bool {
        self.place(slot).is_some()
    }

    /// Adds `slot` with `key`, or changes its key.
    pub(super) fn set(&mut self, slot: usize, key: K) {
        if let Some(place) = self.place(slot) {
            let old = self.entries[place].0;
            self.entries[place].0 = key;
            if key < old {
                self.rise(place)
            } else {
                self.sink(place)
            }
            return;
        }
        if slot >= self.places.len() {
            self.places.resize(slot + 1, ABSENT);
        }
        let place = self.entries.len();
        self.entries.push((key, slot as u32));
        self.places[slot] = place as u32;
        self.rise(place);
    }

    /// Removes `slot`; does nothing if it is absent.
    pub(super) fn remove(&mut self, slot: usize) {
        let Some(place) = self.place(slot) else { return };
        self.entries.swap_remove(place);
        self.places[slot] = ABSENT;
        if let Some(&(_, moved)) = self.entries.get(place) {
            self.places[moved as usize] = place as u32;
            self.rise(place);
            self.sink(place);
        }
    }

    fn place(&self, slot: usize) -> Option<usize> {
        self.places.get(slot).filter(|&&place| place != ABSENT).map(|&place| place as usize)
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= self.entries[place] {
                return;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let left = 2 * place + 1;
            let Some(children) = self.entries.get(left..self.entries.len().min(left + 2)) else { return };
            let Some((offset, least)) = children.iter().enumerate().min_by_key(|&(_, entry)| entry) else { return };
            if self.entries[place] <= *least {
                return;
            }
            let child = left + offset;
            self.swap(place, child);
            place = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.places[self.entries[a].1 as usize] = a as u32;
        self.places[self.entries[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_sorted_map(steps in prop::collection::vec((0usize..12, prop::option::of(0u8..20)), 0..200)) {
            let mut heap = SlotHeap::new();
            let mut model = BTreeMap::new();
            for (slot, key) in steps {
                if let Some(key) = key {
                    heap.set(slot, key);
                    model.insert(slot, key);
                } else {
                    heap.remove(slot);
                    model.remove(&slot);
                }
                prop_assert_eq!(heap.peek(), model.iter().map(|(&slot, &key)| (key, slot)).min());
                prop_assert_eq!(heap.contains(slot), model.contains_key(&slot));
            }
            while let Some((key, slot)) = heap.peek() {
                prop_assert_eq!(model.remove(&slot), Some(key));
                heap.remove(slot);
            }
            prop_assert!(model.is_empty());
        }
    }
}
