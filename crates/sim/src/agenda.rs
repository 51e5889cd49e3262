//! What happens next: one place per source of events, in order of time, first in first out among equal times.

use dfcp_time::Time;

/// A source of events: a link, an end of a flow, a sampler. Its next event, if any, is one entry of the [`Agenda`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    /// Order of entry, which decides among equal times.
    order: u64,
    slot: Slot,
}

impl Entry {
    fn key(&self) -> (Time, u64) {
        (self.time, self.order)
    }
}

const NOWHERE: u32 = u32::MAX;
/// Children of a node: four make the heap half as deep as two, and lie together in memory.
const ARITY: usize = 4;

/// A heap of at most one entry per slot, whose time can be changed in place. Packets are not in it, only what moves
/// them; so it has a few hundred entries where a hundred thousand packets are on their way.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: Vec<Entry>,
    /// Where a slot's entry is in the heap.
    places: Vec<u32>,
    entered: u64,
}

impl Agenda {
    /// A new slot, without an event.
    pub(crate) fn add_slot(&mut self) -> Slot {
        self.places.push(NOWHERE);
        Slot((self.places.len() - 1) as u32)
    }

    /// The next event's time and source; it stays until [`set`](Self::set) changes it.
    pub(crate) fn first(&self) -> Option<(Time, Slot)> {
        self.heap.first().map(|entry| (entry.time, entry.slot))
    }

    /// Says when `slot` has its next event; `None` for never. A time which does not change keeps its place in line.
    pub(crate) fn set(&mut self, slot: Slot, time: Option<Time>) {
        let place = self.places[slot.0 as usize] as usize;
        match (place == NOWHERE as usize, time) {
            (true, None) => {}
            (true, Some(time)) => {
                let entry = self.entry(time, slot);
                self.heap.push(entry);
                self.rise(self.heap.len() - 1, entry);
            }
            (false, None) => self.remove(place),
            (false, Some(time)) => {
                let old = self.heap[place].time;
                if time == old {
                    return;
                }
                let entry = self.entry(time, slot);
                if time < old { self.rise(place, entry) } else { self.sink(place, entry) }
            }
        }
    }

    /// As [`set`](Self::set) for a slot whose event is being served: an equal time is a new event, behind the others.
    pub(crate) fn set_again(&mut self, slot: Slot, time: Option<Time>) {
        let place = self.places[slot.0 as usize] as usize;
        match time {
            Some(time) if place != NOWHERE as usize && self.heap[place].time <= time => {
                let entry = self.entry(time, slot);
                self.sink(place, entry);
            }
            _ => self.set(slot, time),
        }
    }

    fn entry(&mut self, time: Time, slot: Slot) -> Entry {
        self.entered += 1;
        Entry { time, order: self.entered, slot }
    }

    fn remove(&mut self, place: usize) {
        let Some(last) = self.heap.pop() else { return };
        if let Some(removed) = self.heap.get(place) {
            self.places[removed.slot.0 as usize] = NOWHERE;
            let up = place > 0 && last.key() < self.heap[(place - 1) / ARITY].key();
            if up { self.rise(place, last) } else { self.sink(place, last) }
        } else {
            self.places[last.slot.0 as usize] = NOWHERE;
        }
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.slot.0 as usize] = place as u32;
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent].key() < entry.key() {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let first = ARITY * place + 1;
            let end = (first + ARITY).min(self.heap.len());
            let Some(least) = (first..end).min_by_key(|&child| self.heap[child].key()) else { break };
            if entry.key() < self.heap[least].key() {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_are_first_in_first_out() {
        let mut agenda = Agenda::default();
        let slots: Vec<Slot> = (0..9).map(|_| agenda.add_slot()).collect();
        for &slot in slots.iter().rev() {
            agenda.set(slot, Some(Time::from_ns(5)));
        }
        let mut served = Vec::new();
        while let Some((_, slot)) = agenda.first() {
            served.push(slot);
            agenda.set(slot, None);
        }
        assert!(served.iter().eq(slots.iter().rev()));
    }

    #[test]
    fn a_source_which_has_several_events_at_once_lets_others_in_between() {
        let mut agenda = Agenda::default();
        let (a, b) = (agenda.add_slot(), agenda.add_slot());
        agenda.set(a, Some(Time::from_ns(1)));
        agenda.set(b, Some(Time::from_ns(1)));
        agenda.set_again(a, Some(Time::from_ns(1)));
        assert_eq!(agenda.first(), Some((Time::from_ns(1), b)));
    }

    proptest! {
        /// The model: a list, searched for the least time and, among equals, the least order of entry.
        #[test]
        fn agrees_with_a_sorted_list(changes in prop::collection::vec((0..20_usize, prop::option::of(0..15_u64), any::<bool>()), 0..300)) {
            let mut agenda = Agenda::default();
            let slots: Vec<Slot> = (0..20).map(|_| agenda.add_slot()).collect();
            let mut model: Vec<Option<(u64, usize)>> = vec![None; 20];
            for (order, (slot, time, again)) in changes.into_iter().enumerate() {
                let due = time.map(Time::from_ns);
                if again { agenda.set_again(slots[slot], due) } else { agenda.set(slots[slot], due) }
                let keeps = !again && model[slot].is_some_and(|(old, _)| Some(old) == time);
                if !keeps {
                    model[slot] = time.map(|time| (time, order));
                }
                let first = (0..20).filter_map(|slot| model[slot].map(|key| (key, slot))).min();
                prop_assert_eq!(agenda.first(), first.map(|((time, _), slot)| (Time::from_ns(time), slots[slot])));
            }
        }
    }
}
