//! What happens next: one place per source of events, in order of time, first in first out among equal times.

use dfcp_time::Time;

/// A source of events: a link, an end of a flow, a sampler. Its next event, if any, is one entry of the [`Agenda`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

/// When and, among equal times, in which order slots have their events. One number, so that comparing needs no branch,
/// which could not be foretold.
type Key = u128;

/// Behind every event.
const NEVER: Key = Key::MAX;

/// The slots' next events, in place, under a tree in whose nodes the earlier of two wins; so a change costs one
/// comparison per level, and only as far up as the changed slot wins or has won. Packets are not in it, only what moves
/// them; so it has a few hundred entries where a hundred thousand packets are on their way.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// One for every slot, and [`NEVER`] up to a power of two.
    keys: Vec<Key>,
    /// Which slot wins at every node: the children of `n` are `2n` and `2n + 1`, the last half is one leaf for every key.
    winners: Vec<u32>,
    slots: usize,
    entered: u64,
}

impl Default for Agenda {
    fn default() -> Self {
        Self { keys: vec![NEVER], winners: vec![0; 2], slots: 0, entered: 0 }
    }
}

impl Agenda {
    /// A new slot, without an event.
    pub(crate) fn add_slot(&mut self) -> Slot {
        if self.slots == self.keys.len() {
            self.grow();
        }
        self.slots += 1;
        Slot((self.slots - 1) as u32)
    }

    /// The next event's time and source; it stays until [`set`](Self::set) changes it.
    pub(crate) fn first(&self) -> Option<(Time, Slot)> {
        let slot = self.winners[1];
        time_of(self.keys[slot as usize]).map(|time| (time, Slot(slot)))
    }

    /// Says when `slot` has its next event; `None` for never. A time which does not change keeps its place in line.
    pub(crate) fn set(&mut self, slot: Slot, time: Option<Time>) {
        if time != time_of(self.keys[slot.0 as usize]) {
            self.set_again(slot, time);
        }
    }

    /// As [`set`](Self::set) for a slot whose event is being served: an equal time is a new event, behind the others.
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

    /// Makes room for as many slots again.
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
