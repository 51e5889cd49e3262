//! Event queue of the simulator. Each source of events has one slot, which holds its next event. Events are served in
//! the order of time, and simultaneous events in the order of entry.

use dfcp_time::Time;

/// Slot of a source of events: a link, an end of a flow, or a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

/// Time of an event in the upper 64 bits, and its order of entry in the lower ones. A single number avoids an
/// unpredictable branch per comparison.
type Key = u128;

/// Key that is greater than that of every event.
const NEVER: Key = Key::MAX;

/// Next events of all slots, in a tournament tree: each node names the earlier of its two children. A change costs one
/// comparison per level, and ends at the first node whose winner it does not affect. The queue holds links and ends
/// instead of packets, so it has a few hundred entries even with a hundred thousand packets in flight.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Key of each slot, padded with [`NEVER`] to a power of two.
    keys: Vec<Key>,
    /// Winning slot of each node. The children of node `n` are `2n` and `2n + 1`; the second half are the leaves, one
    /// per key.
    winners: Vec<u32>,
    slots: usize,
    entered: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self { keys: vec![NEVER], winners: vec![0; 2], slots: 0, entered: 0 }
    }
}

impl EventQueue {
    /// Adds a slot without an event.
    pub(crate) fn add_slot(&mut self) -> Slot {
        if self.slots == self.keys.len() {
            self.grow();
        }
        self.slots += 1;
        Slot((self.slots - 1) as u32)
    }

    /// Returns time and slot of the next event. The event stays until [`set`](Self::set) changes it.
    pub(crate) fn first(&self) -> Option<(Time, Slot)> {
        let slot = self.winners[1];
        time_of(self.keys[slot as usize]).map(|time| (time, Slot(slot)))
    }

    /// Sets the next event of `slot`; `None` for no event. If the time is unchanged, the event keeps its order.
    pub(crate) fn set(&mut self, slot: Slot, time: Option<Time>) {
        if time != time_of(self.keys[slot.0 as usize]) {
            self.set_again(slot, time);
        }
    }

    /// Like [`set`](Self::set), for a slot whose event is being served. An event with the same time is then a new one,
    /// served after all others of that time.
    pub(crate) fn set_again(&mut self, slot: Slot, time: Option<Time>) {
        let key = time.map_or(NEVER, |time| {
            self.entered += 1;
            Key::from(time.as_ns()) << 64 | Key::from(self.entered)
        });
        self.keys[slot.0 as usize] = key;
        let mut node = self.keys.len() + slot.0 as usize;
        let (mut winner, mut least) = (slot.0, key);
        while node > 1 {
            let other = self.winners[node ^ 1];
            let others = self.keys[other as usize];
            (winner, least) = if others < least { (other, others) } else { (winner, least) };
            node /= 2;
            if winner != slot.0 && self.winners[node] == winner {
                break;
            }
            self.winners[node] = winner;
        }
    }

    /// Doubles the number of slots.
    fn grow(&mut self) {
        let room = self.keys.len() * 2;
        self.keys.resize(room, NEVER);
        self.winners = vec![0; room];
        self.winners.extend(0..room as u32);
        for node in (1..room).rev() {
            let [left, right] = [2 * node, 2 * node + 1].map(|child| self.winners[child]);
            self.winners[node] = if self.keys[right as usize] < self.keys[left as usize] { right } else { left };
        }
    }
}

fn time_of(key: Key) -> Option<Time> {
    (key != NEVER).then_some(Time::from_ns((key >> 64) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_are_first_in_first_out() {
        let mut event_queue = EventQueue::default();
        let slots: Vec<Slot> = (0..9).map(|_| event_queue.add_slot()).collect();
        for &slot in slots.iter().rev() {
            event_queue.set(slot, Some(Time::from_ns(5)));
        }
        let mut served = Vec::new();
        while let Some((_, slot)) = event_queue.first() {
            served.push(slot);
            event_queue.set(slot, None);
        }
        assert!(served.iter().eq(slots.iter().rev()));
    }

    #[test]
    fn a_source_which_has_several_events_at_once_lets_others_in_between() {
        let mut event_queue = EventQueue::default();
        let (a, b) = (event_queue.add_slot(), event_queue.add_slot());
        event_queue.set(a, Some(Time::from_ns(1)));
        event_queue.set(b, Some(Time::from_ns(1)));
        event_queue.set_again(a, Some(Time::from_ns(1)));
        assert_eq!(event_queue.first(), Some((Time::from_ns(1), b)));
    }

    proptest! {
        /// Model test against a list that is searched for the earliest time and, among equal times, the earliest entry.
        #[test]
        fn agrees_with_a_sorted_list(changes in prop::collection::vec((0..20_usize, prop::option::of(0..15_u64), any::<bool>()), 0..300)) {
            let mut event_queue = EventQueue::default();
            let slots: Vec<Slot> = (0..20).map(|_| event_queue.add_slot()).collect();
            let mut model: Vec<Option<(u64, usize)>> = vec![None; 20];
            for (order, (slot, time, again)) in changes.into_iter().enumerate() {
                let due = time.map(Time::from_ns);
                if again { event_queue.set_again(slots[slot], due) } else { event_queue.set(slots[slot], due) }
                let keeps = !again && model[slot].is_some_and(|(old, _)| Some(old) == time);
                if !keeps {
                    model[slot] = time.map(|time| (time, order));
                }
                let first = (0..20).filter_map(|slot| model[slot].map(|key| (key, slot))).min();
                prop_assert_eq!(event_queue.first(), first.map(|((time, _), slot)| (Time::from_ns(time), slots[slot])));
            }
        }
    }
}
