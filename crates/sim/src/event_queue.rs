//! Event queue of the simulator. Each source of events has one slot with its next event. Events are ordered by time, FIFO among equals.

use dfcp_time::Time;

/// Source of events: a link, an end of a flow, a sampler. The [`EventQueue`] holds its next event, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

/// Time of an event with the order of entry below it. One number avoids an unpredictable branch per comparison.
type Key = u128;

/// Later than every event.
const NEVER: Key = Key::MAX;

/// Next events of all slots, in a tournament tree: each node names the earlier of its two children. A change costs one comparison per
/// level, and stops where the changed slot neither wins nor has won. The queue holds links and ends, not packets: a few hundred entries
/// with a hundred thousand packets in flight.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Key per slot, padded by [`NEVER`] to a power of two.
    keys: Vec<Key>,
    /// Winning slot of every node: the children of `n` are `2n` and `2n + 1`, the last half has a leaf per key.
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

    /// Time and source of the next event, which stays until [`set`](Self::set) changes it.
    pub(crate) fn first(&self) -> Option<(Time, Slot)> {
        let slot = self.winners[1];
        time_of(self.keys[slot as usize]).map(|time| (time, Slot(slot)))
    }

    /// Sets the next event of `slot`; `None` for never. An unchanged time keeps its order.
    pub(crate) fn set(&mut self, slot: Slot, time: Option<Time>) {
        if time != time_of(self.keys[slot.0 as usize]) {
            self.set_again(slot, time);
        }
    }

    /// Sets the next event, as [`set`](Self::set), of a slot whose event is being served: an equal time is a new event, after the others.
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
        /// Model test against a list, searched for the smallest time and, among equals, the earliest entry.
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
