//! The units under way, and which of them is next. What is looked up is found without passing through all others: there may be thousands.

use std::collections::{BTreeMap, BTreeSet};

use dfcp_time::Time;

use super::unit::{Place, Unit};

/// Units by the id of their first message, which is the number of a unit.
#[derive(Debug, Default)]
pub(super) struct Units {
    all: BTreeMap<u32, Unit>,
    /// Units which owe symbols: from when on, and those whose time for that has come, the most urgent first.
    owing: BTreeSet<(Time, u32)>,
    due: BTreeSet<(Time, u32)>,
    /// No unit's time has come later than this.
    due_since: Time,
    /// Times of the units' wake-ups.
    wakes: BTreeSet<(Time, u32)>,
    /// Units that were looked at.
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

    /// The oldest one.
    pub(super) fn first(&self) -> Option<(u32, &Unit)> {
        self.look();
        self.all.first_key_value().map(|(&number, unit)| (number, unit))
    }

    /// The number of the one which has this message.
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

    // ---- which is next ----

    /// To be called after everything that may change what a unit owes, from when on, or how urgent that is.
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

    /// The most urgent one that owes a symbol now.
    pub(super) fn next_due(&mut self, now: Time) -> Option<u32> {
        while let Some(&(_, number)) = self.owing.first().filter(|&&(at, _)| at <= now) {
            self.queue(now, number);
        }
        self.due.first().map(|&(_, number)| number)
    }

    /// True if a unit is due.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Time from which a unit owes a symbol, of those that had none to send at `asked`.
    pub(super) fn owing_after(&self, asked: Time) -> Option<Time> {
        if !self.due.is_empty() && self.due_since > asked {
            return Some(self.due_since);
        }
        self.owing.range((asked, u32::MAX)..).map(|&(at, _)| at).find(|&at| at > asked)
    }

    // ---- when they are looked at ----

    /// One wake-up for each unit, and none for those which are gone: each costs a pass through the session's timers.
    pub(super) fn set_wake(&mut self, number: u32, at: Option<Time>) {
        let Some(unit) = self.all.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut unit.wakes_at, at) {
            self.wakes.remove(&(before, number));
        }
        self.wakes.extend(at.map(|at| (at, number)));
    }

    /// The next wake-up.
    pub(super) fn wakes_at(&self) -> Option<Time> {
        self.wakes.first().map(|&(at, _)| at)
    }

    /// A unit whose time has come; it has no wake-up then.
    pub(super) fn next_wake(&mut self, now: Time) -> Option<(Time, u32)> {
        let &(at, number) = self.wakes.first().filter(|&&(at, _)| at <= now)?;
        self.set_wake(number, None);
        Some((at, number))
    }
}
