//! Units (groups of messages planned together) in progress, and their sending order. No operation loops over all units,
//! because there may be thousands.

use std::collections::{BTreeMap, BTreeSet};

use dfcp_time::Time;

use super::unit::{Place, Unit};

/// Units by number. A unit's number is the id of its first message.
#[derive(Debug, Default)]
pub(super) struct Units {
    all: BTreeMap<u32, Unit>,
    /// Units with symbols to send later, by time.
    owing: BTreeSet<(Time, u32)>,
    /// Units with symbols to send now, most urgent first.
    due: BTreeSet<(Time, u32)>,
    /// Latest time at which a unit in `due` became due.
    due_since: Time,
    /// Timers of units.
    wakes: BTreeSet<(Time, u32)>,
    /// Number of unit look-ups, to test their cost.
    #[cfg(test)]
    pub(super) looked_at: std::cell::Cell<u64>,
}

impl Units {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn insert(&mut self, number: u32, unit: Unit) {
        self.all.insert(number, unit);
    }

    pub(super) fn get(&self, number: u32) -> Option<&Unit> {
        self.look();
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Unit> {
        self.look();
        self.all.get_mut(&number)
    }

    /// Returns the oldest unit.
    pub(super) fn first(&self) -> Option<(u32, &Unit)> {
        self.look();
        self.all.first_key_value().map(|(&number, unit)| (number, unit))
    }

    /// Returns the number of the unit that contains message `id`.
    pub(super) fn holder(&self, id: u32) -> Option<u32> {
        self.look();
        self.all.range(..=id).next_back().filter(|(_, unit)| unit.holds(id)).map(|(&number, _)| number)
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.set_wake(number, None);
        self.set_place(number, None);
        self.all.remove(&number);
    }

    fn look(&self) {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + 1);
    }

    // ---- sending order ----

    /// Updates the unit's place in the sending order. Must be called after every change of its queued symbols, their
    /// time, or their deadline.
    pub(super) fn queue(&mut self, now: Time, number: u32) {
        let Some(unit) = self.get(number).filter(|unit| unit.owes()) else { return self.set_place(number, None) };
        let (place, at) = match unit.next_at {
            at if at <= now => (Place::Due(unit.urgency()), at),
            at => (Place::Owing(at), Time::ZERO),
        };
        self.due_since = self.due_since.max(at);
        self.set_place(number, Some(place));
    }

    fn set_place(&mut self, number: u32, place: Option<Place>) {
        let Some(unit) = self.all.get_mut(&number) else { return };
        match std::mem::replace(&mut unit.place, place) {
            before if before == place => return,
            Some(Place::Owing(at)) => self.owing.remove(&(at, number)),
            Some(Place::Due(urgency)) => self.due.remove(&(urgency, number)),
            None => true,
        };
        match place {
            Some(Place::Owing(at)) => self.owing.insert((at, number)),
            Some(Place::Due(urgency)) => self.due.insert((urgency, number)),
            None => true,
        };
    }

    /// Returns the unit with the earliest deadline among those with a symbol to send now.
    pub(super) fn next_due(&mut self, now: Time) -> Option<u32> {
        while let Some(&(_, number)) = self.owing.first().filter(|&&(at, _)| at <= now) {
            self.queue(now, number);
        }
        self.due.first().map(|&(_, number)| number)
    }

    /// Returns true if a unit has a symbol to send now.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Returns the earliest time after `asked` at which a unit has a symbol to send.
    pub(super) fn owing_after(&self, asked: Time) -> Option<Time> {
        if !self.due.is_empty() && self.due_since > asked {
            return Some(self.due_since);
        }
        self.owing.range((asked, u32::MAX)..).map(|&(at, _)| at).find(|&at| at > asked)
    }

    // ---- timers ----

    /// Sets the only timer of a unit. Stale timers are removed, because each costs a pass through the session's timers.
    pub(super) fn set_wake(&mut self, number: u32, at: Option<Time>) {
        let Some(unit) = self.all.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut unit.wakes_at, at) {
            self.wakes.remove(&(before, number));
        }
        self.wakes.extend(at.map(|at| (at, number)));
    }

    /// Returns the time of the next timer.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.wakes.first().map(|&(at, _)| at)
    }

    /// Returns a unit whose timer has expired, and removes the timer.
    pub(super) fn next_wake(&mut self, now: Time) -> Option<(Time, u32)> {
        let &(at, number) = self.wakes.first().filter(|&&(at, _)| at <= now)?;
        self.set_wake(number, None);
        Some((at, number))
    }
}
