//! Blocks whose current round has symbols to send, oldest first.

use std::collections::VecDeque;

/// Block ids in ascending order. A sorted queue, since nearly all ids are added at its end and removed from its front.
/// Unlike a tree, it allocates nothing once it has its capacity.
#[derive(Debug, Default)]
pub(crate) struct ActiveBlocks {
    ids: VecDeque<u32>,
}

/// Capacity that an empty queue keeps, in ids.
const KEPT_MAX: usize = 32;

impl ActiveBlocks {
    /// Returns the ids, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.ids.iter().copied()
    }

    /// Adds a block, unless it is already present.
    pub(crate) fn insert(&mut self, id: u32) {
        if self.ids.back().is_none_or(|&last| last < id) {
            self.ids.push_back(id);
        } else if let Err(place) = self.ids.binary_search(&id) {
            self.ids.insert(place, id);
        }
    }

    /// Removes a block, if it is present.
    pub(crate) fn remove(&mut self, id: u32) {
        if self.ids.front() == Some(&id) {
            self.ids.pop_front();
        } else if let Ok(place) = self.ids.binary_search(&id) {
            self.ids.remove(place);
        }
    }

    /// Removes all blocks and shrinks the queue, when nothing will be due for a while.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.ids.shrink_to(KEPT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_in_order(steps in proptest::collection::vec((any::<bool>(), 0_u32..40), 0..300)) {
            let (mut due, mut model) = (ActiveBlocks::default(), BTreeSet::new());
            for (adds, id) in steps {
                if adds {
                    due.insert(id);
                    model.insert(id);
                } else {
                    due.remove(id);
                    model.remove(&id);
                }
                prop_assert!(due.iter().eq(model.iter().copied()));
            }
            due.clear();
            prop_assert_eq!(due.iter().count(), 0);
        }
    }
}
