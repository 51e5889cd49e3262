//! Incomplete messages or groups, indexed by id and by expiry.

use std::collections::{BTreeMap, BTreeSet};

use dfcp_time::Time;

/// Entries by id, each with an expiry. All operations take logarithmic time.
#[derive(Debug)]
pub(super) struct Pending<T> {
    entries: BTreeMap<u32, Entry<T>>,
    by_time: BTreeSet<(Time, u32)>,
}

#[derive(Debug)]
struct Entry<T> {
    until: Time,
    it: Box<T>,
}

impl<T> Pending<T> {
    /// Memory overhead per entry, bytes: the value itself, and its nodes in both B-trees, which are at least 5/11 full.
    pub(super) const ENTRY_BYTES: usize = size_of::<T>() + 128;

    pub(super) const fn new() -> Self {
        Self { entries: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, id: u32) -> Option<&T> {
        self.entries.get(&id).map(|entry| &*entry.it)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.entries.get_mut(&id).map(|entry| &mut *entry.it)
    }

    /// Returns the entry with the highest id up to `id`.
    pub(super) fn up_to(&mut self, id: u32) -> Option<(u32, &mut T)> {
        self.entries.range_mut(..=id).next_back().map(|(&id, entry)| (id, &mut *entry.it))
    }

    /// Adds an entry. There must be none with this id.
    pub(super) fn insert(&mut self, id: u32, until: Time, it: T) {
        self.by_time.insert((until, id));
        let before = self.entries.insert(id, Entry { until, it: Box::new(it) });
        debug_assert!(before.is_none(), "the time of the one before stays");
    }

    /// Changes the expiry of an entry.
    pub(super) fn set_until(&mut self, id: u32, until: Time) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.by_time.remove(&(entry.until, id));
        entry.until = until;
        self.by_time.insert((until, id));
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let entry = self.entries.remove(&id)?;
        self.by_time.remove(&(entry.until, id));
        Some(*entry.it)
    }

    /// Returns the id of an entry that has expired, or that is older than `first_id`.
    pub(super) fn over(&self, now: Time, first_id: u64) -> Option<u32> {
        let is_too_old = |id: &u32| u64::from(*id) < first_id;
        let too_old = self.entries.first_key_value().map(|(id, _)| *id).filter(is_too_old);
        too_old.or_else(|| self.first_to_end().filter(|(until, _)| *until < now).map(|(_, id)| id))
    }

    /// Returns the expiry and id of the entry that expires first.
    pub(super) fn first_to_end(&self) -> Option<(Time, u32)> {
        self.by_time.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_first_and_what_is_too_old_are_found() {
        let mut pending = Pending::new();
        assert_eq!((pending.over(Time::MAX, u64::MAX), pending.first_to_end()), (None, None));
        for (id, ms) in [(5, 30), (9, 10), (2, 20)] {
            pending.insert(id, Time::from_ms(ms), id);
        }
        assert_eq!(pending.up_to(8), Some((5, &mut 5)));
        assert_eq!(pending.up_to(1), None);
        assert_eq!(pending.over(Time::from_ms(10), 2), None);
        assert_eq!(pending.over(Time::from_ms(11), 2), Some(9));
        assert_eq!(pending.over(Time::from_ms(10), 3), Some(2));
        pending.set_until(9, Time::from_ms(40));
        assert_eq!(pending.first_to_end(), Some((Time::from_ms(20), 2)));
        assert_eq!((pending.remove(2), pending.remove(2), pending.len()), (Some(2), None, 2));
        assert_eq!(pending.first_to_end(), Some((Time::from_ms(30), 5)));
        assert_eq!(pending.get(9), Some(&9));
        assert_eq!(pending.get_mut(2), None);
    }
}
