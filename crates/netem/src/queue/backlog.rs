//! Queued packets in one list per flow, with access to the longest list.
//!
//! All lists share one table of packets with reusable entries. Packets thus need no allocation in steady state, and
//! memory follows the total number of queued packets instead of each flow's maximum.

use std::cmp::Reverse;

use super::heap::SlotHeap;
use super::limit::QueueLimit;
use crate::packet::Packet;

/// Index that marks the end of a list.
const NONE: u32 = u32::MAX;

/// Returns the cost of serving a packet, bytes, at least 1. Otherwise a flow of empty packets would be served forever.
pub(super) fn cost_bytes(size_bytes: u32) -> u32 {
    size_bytes.max(1)
}

/// Lists of packets by slot, the index of a flow or hash bucket. Each packet has a tag chosen by the discipline.
#[derive(Clone, Debug)]
pub(super) struct Backlog<P, T> {
    nodes: Vec<Node<P, T>>,
    /// First entry of the free list, which is linked by `next`.
    free: u32,
    lists: Vec<List>,
    /// Non-empty lists, ordered by bytes; the longest is first.
    longest: SlotHeap<Reverse<u64>>,
    packets: usize,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Node<P, T> {
    /// Packet with its tag; `None` in a free entry.
    entry: Option<(P, T)>,
    previous: u32,
    next: u32,
}

#[derive(Clone, Debug)]
struct List {
    first: u32,
    last: u32,
    packets: u32,
    bytes: u64,
}

impl List {
    const EMPTY: Self = Self { first: NONE, last: NONE, packets: 0, bytes: 0 };
}

/// Packet that was removed to make room for another one.
#[derive(Debug)]
pub(super) struct Evicted<P, T> {
    pub(super) slot: usize,
    pub(super) packet: P,
    pub(super) tag: T,
    /// True if the packet was the last one in its list.
    pub(super) emptied: bool,
}

impl<P: Packet, T: Copy> Backlog<P, T> {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), free: NONE, lists: Vec::new(), longest: SlotHeap::new(), packets: 0, bytes: 0 }
    }

    /// Returns the number of packets in all lists.
    pub(super) fn len(&self) -> usize {
        self.packets
    }

    /// Returns the number of bytes in all lists.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of packets in one list.
    pub(super) fn slot_len(&self, slot: usize) -> usize {
        self.lists.get(slot).map_or(0, |list| list.packets as usize)
    }

    /// Returns the number of bytes in one list.
    pub(super) fn slot_bytes(&self, slot: usize) -> u64 {
        self.lists.get(slot).map_or(0, |list| list.bytes)
    }

    /// Returns the oldest packet of a list, with its tag.
    pub(super) fn front(&self, slot: usize) -> Option<(&P, T)> {
        let node = self.nodes.get(self.lists.get(slot)?.first as usize)?;
        node.entry.as_ref().map(|(packet, tag)| (packet, *tag))
    }

    /// Returns the slot with the most bytes, the lowest among equals; `None` if all lists are empty.
    pub(super) fn longest(&self) -> Option<usize> {
        self.longest.peek().map(|(_, slot)| slot)
    }

    /// Returns true if a packet of `size_bytes` fits into an empty queue, and the table has an entry left for it.
    pub(super) fn can_hold(&self, limit: QueueLimit, size_bytes: u32) -> bool {
        self.packets < NONE as usize && limit.admits(0, 0, size_bytes)
    }

    /// Makes room for a packet of `size_bytes` in `slot` by removing packets from the tail of the longest list. Returns
    /// false if the arriving packet must be dropped instead, because its own list would be the longest, or removing
    /// packets does not help.
    pub(super) fn make_room(
        &mut self,
        limit: QueueLimit,
        slot: usize,
        size_bytes: u32,
        mut on_evicted: impl FnMut(Evicted<P, T>),
    ) -> bool {
        if !self.can_hold(limit, size_bytes) {
            return false;
        }
        let own_bytes = self.slot_bytes(slot).saturating_add(u64::from(size_bytes));
        while !limit.admits(self.packets, self.bytes, size_bytes) {
            let Some((Reverse(longest_bytes), longest)) = self.longest.peek() else { return false };
            if own_bytes >= longest_bytes {
                return false;
            }
            let Some((packet, tag)) = self.pop_back(longest) else { return false };
            on_evicted(Evicted { slot: longest, packet, tag, emptied: self.slot_len(longest) == 0 });
        }
        true
    }

    /// Appends a packet to a list. The caller has made room for it.
    pub(super) fn push_back(&mut self, slot: usize, packet: P, tag: T) {
        if slot >= self.lists.len() {
            self.lists.resize(slot + 1, List::EMPTY);
        }
        let size_bytes = u64::from(packet.size_bytes());
        let last = self.lists[slot].last;
        let index = self.occupy(Node { entry: Some((packet, tag)), previous: last, next: NONE });
        let list = &mut self.lists[slot];
        match self.nodes.get_mut(last as usize) {
            Some(before) => before.next = index,
            None => list.first = index,
        }
        list.last = index;
        list.packets += 1;
        list.bytes += size_bytes;
        self.longest.set(slot, Reverse(list.bytes));
        self.packets += 1;
        self.bytes += size_bytes;
    }

    /// Removes the oldest packet of a list.
    pub(super) fn pop_front(&mut self, slot: usize) -> Option<(P, T)> {
        let index = self.lists.get(slot)?.first;
        self.take(slot, index)
    }

    /// Removes the newest packet of a list.
    pub(super) fn pop_back(&mut self, slot: usize) -> Option<(P, T)> {
        let index = self.lists.get(slot)?.last;
        self.take(slot, index)
    }

    fn occupy(&mut self, node: Node<P, T>) -> u32 {
        let index = self.free;
        if let Some(free) = self.nodes.get_mut(index as usize) {
            self.free = free.next;
            *free = node;
            return index;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn take(&mut self, slot: usize, index: u32) -> Option<(P, T)> {
        let node = self.nodes.get_mut(index as usize)?;
        let entry = node.entry.take()?;
        let (previous, next) = (node.previous, node.next);
        node.next = self.free;
        self.free = index;
        let list = &mut self.lists[slot];
        match self.nodes.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => list.first = next,
        }
        match self.nodes.get_mut(next as usize) {
            Some(behind) => behind.previous = previous,
            None => list.last = previous,
        }
        let size_bytes = u64::from(entry.0.size_bytes());
        list.packets -= 1;
        list.bytes -= size_bytes;
        if list.packets > 0 {
            self.longest.set(slot, Reverse(list.bytes));
        } else {
            self.longest.remove(slot);
        }
        self.packets -= 1;
        self.bytes -= size_bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push { slot: usize, size_bytes: usize },
        PopFront(usize),
        PopBack(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0usize..5, 0usize..50).prop_map(|(slot, size_bytes)| Step::Push { slot, size_bytes }),
            1 => (0usize..6).prop_map(Step::PopFront),
            1 => (0usize..6).prop_map(Step::PopBack),
        ]
    }

    proptest! {
        #[test]
        fn it_agrees_with_one_deque_per_slot(steps in prop::collection::vec(step(), 0..300)) {
            let mut backlog = Backlog::new();
            let mut model: Vec<VecDeque<(Vec<u8>, usize)>> = vec![VecDeque::new(); 6];
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push { slot, size_bytes } => {
                        backlog.push_back(slot, vec![0; size_bytes], number);
                        model[slot].push_back((vec![0; size_bytes], number));
                    }
                    Step::PopFront(slot) => prop_assert_eq!(backlog.pop_front(slot), model[slot].pop_front()),
                    Step::PopBack(slot) => prop_assert_eq!(backlog.pop_back(slot), model[slot].pop_back()),
                }
                let bytes = |slot: usize| model[slot].iter().map(|(packet, _)| packet.len() as u64).sum::<u64>();
                for (slot, list) in model.iter().enumerate() {
                    prop_assert_eq!((backlog.slot_len(slot), backlog.slot_bytes(slot)), (list.len(), bytes(slot)));
                    prop_assert_eq!(backlog.front(slot), list.front().map(|(packet, tag)| (packet, *tag)));
                }
                prop_assert_eq!(backlog.len(), model.iter().map(VecDeque::len).sum::<usize>());
                prop_assert_eq!(backlog.bytes(), (0..6).map(bytes).sum::<u64>());
                let filled = (0..6).filter(|&slot| !model[slot].is_empty());
                prop_assert_eq!(backlog.longest(), filled.min_by_key(|&slot| (Reverse(bytes(slot)), slot)));
            }
        }
    }

    #[test]
    fn nodes_are_used_again() {
        let mut backlog = Backlog::new();
        for round in 0..1000 {
            for slot in 0..3 {
                backlog.push_back(slot, vec![0u8; 10], round);
            }
            for slot in 0..3 {
                assert_eq!(backlog.pop_front(slot), Some((vec![0u8; 10], round)));
            }
        }
        assert_eq!(backlog.nodes.len(), 3);
    }

    #[test]
    fn room_is_taken_from_the_tail_of_the_longest_list() {
        // Slot 0 has 300 bytes and slot 1 has 200, with a limit of 500. Another 150 in slot 1 would make it the
        // longest, so they are refused. 150 in slot 2 evict the two newest packets of slot 0, 100 bytes each; then
        // there is room.
        let mut backlog = Backlog::new();
        for (slot, tag) in [(0, 'a'), (0, 'b'), (0, 'c'), (1, 'd'), (1, 'e')] {
            backlog.push_back(slot, vec![0u8; 100], tag);
        }
        let limit = QueueLimit::bytes(500);
        assert!(!backlog.make_room(limit, 1, 150, |_| unreachable!()));
        assert!(!backlog.make_room(limit, 2, 501, |_| unreachable!()));
        let mut evicted = Vec::new();
        assert!(backlog.make_room(limit, 2, 150, |victim| evicted.push((victim.slot, victim.tag, victim.emptied))));
        assert_eq!(evicted, [(0, 'c', false), (0, 'b', false)]);
    }
}
