//! Release of memory from queues and tables that have become short.

use std::collections::{BinaryHeap, VecDeque};

/// Capacity, in elements, up to which a queue is never shrunk.
const KEPT_ELEMENTS: usize = 8;

/// A queue or table whose spare capacity can be released.
pub(crate) trait Room {
    /// Returns the number of elements and the capacity.
    fn filled(&self) -> (usize, usize);

    /// Reduces the capacity to `elements`.
    fn shrink_to(&mut self, elements: usize);

    /// Shrinks the capacity when less than a quarter of it is in use. Memory that a peer caused and no longer needs
    /// must not stay allocated uncounted; the slack avoids an allocation for each element.
    fn give_back(&mut self) {
        let (used, room) = self.filled();
        if room > KEPT_ELEMENTS && used < room / 4 {
            self.shrink_to((2 * used).max(KEPT_ELEMENTS));
        }
    }
}

impl<T> Room for Vec<T> {
    fn filled(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink_to(&mut self, elements: usize) {
        Self::shrink_to(self, elements);
    }
}

impl<T> Room for VecDeque<T> {
    fn filled(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink_to(&mut self, elements: usize) {
        Self::shrink_to(self, elements);
    }
}

impl<T: Ord> Room for BinaryHeap<T> {
    fn filled(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink_to(&mut self, elements: usize) {
        Self::shrink_to(self, elements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_any_more_is_given_back_except_for_a_little() {
        let mut queue: Vec<u32> = (0..1_000).collect();
        while queue.pop().is_some() {
            queue.give_back();
            let bound = if queue.len() >= 250 { 1_000 } else { 4 * queue.len() + 3 };
            assert!(queue.capacity() <= bound.max(KEPT_ELEMENTS), "{} for {}", queue.capacity(), queue.len());
        }
        assert_eq!(queue.capacity(), KEPT_ELEMENTS);
    }

    #[test]
    fn what_comes_and_goes_is_not_allocated_each_time() {
        let (mut queue, mut changes) = (VecDeque::with_capacity(64), 0);
        for round in 0..1_000 {
            let before = queue.capacity();
            for element in 0..20 + round % 20 {
                queue.push_back(element);
            }
            queue.give_back();
            queue.drain(..4);
            queue.give_back();
            queue.truncate(17);
            queue.give_back();
            changes += usize::from(queue.capacity() != before);
        }
        assert_eq!(changes, 0);
    }
}
