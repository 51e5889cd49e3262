//! In-memory table of an output directory's journals. With it, adding a journal costs the same however many exist.
//!
//! The names of the journals are read at the first session, and again at every further session, as other programs may
//! use the directory too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Id;
use crate::limits::{ABANDONED_AGE, PARTIALS_MAX, PARTIALS_PER_SENDER_MAX};

#[derive(Debug)]
pub(super) struct Table {
    /// Maximum number of journals; [`PARTIALS_MAX`] except in tests.
    pub(super) files_max: usize,
    /// Known journals; `None` until their names have been read.
    journals: Mutex<Option<Journals>>,
}

#[derive(Debug, Default)]
struct Journals {
    all: BTreeMap<Id, Known>,
    /// Journals of each sender, least recently changed first. The key is the sender's part of their ids.
    senders: BTreeMap<String, BTreeSet<(SystemTime, Id)>>,
    /// Senders sorted by their number of journals.
    counts: BTreeSet<(usize, String)>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    changed: SystemTime,
    /// True while the journal has a place in the table, but no file yet.
    is_being_made: bool,
}

/// Result of requesting a place for a journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The journal already had a place.
    Had,
    /// The journal got a new place.
    Taken,
    /// All places are taken. Contains the least recently changed journal of the sender with the most journals, which is
    /// to be removed. That sender has at least two more than the requesting one.
    Instead(Id),
}

impl Journals {
    fn put(&mut self, id: &Id, known: Option<Known>) {
        let before = match known {
            Some(known) => self.all.insert(id.clone(), known),
            None => self.all.remove(id),
        };
        let sender = id.sender().to_owned();
        let mut its = self.senders.remove(&sender).unwrap_or_default();
        self.counts.remove(&(its.len(), sender.clone()));
        if let Some(before) = before {
            its.remove(&(before.changed, id.clone()));
        }
        its.extend(known.map(|known| (known.changed, id.clone())));
        if !its.is_empty() {
            self.counts.insert((its.len(), sender.clone()));
            self.senders.insert(sender, its);
        }
    }

    fn take(&mut self, id: &Id, now: SystemTime, files_max: usize) -> io::Result<Place> {
        if self.all.contains_key(id) {
            return Ok(Place::Had);
        }
        let count = self.senders.get(id.sender()).map_or(0, BTreeSet::len);
        if count >= PARTIALS_PER_SENDER_MAX {
            return Err(io::Error::other("too many files of its sender are unfinished already"));
        }
        if self.all.len() < files_max {
            self.put(id, Some(Known { changed: now, is_being_made: true }));
            return Ok(Place::Taken);
        }
        let most = self.counts.last().filter(|(most, _)| *most > count + 1);
        let oldest = most.and_then(|(_, sender)| self.senders.get(sender)?.first());
        let (_, oldest) = oldest.ok_or_else(|| io::Error::other("too many files are unfinished already"))?;
        Ok(Place::Instead(oldest.clone()))
    }
}

impl Table {
    pub(super) fn new() -> Self {
        Self { files_max: PARTIALS_MAX, journals: Mutex::default() }
    }

    pub(super) fn is_read(&self) -> bool {
        self.journals().is_some()
    }

    /// Replaces the set of journals by `ids`; `changed` gives the change time of unknown ones. Returns the ids of
    /// journals unchanged for [`ABANDONED_AGE`] before `now`.
    pub(super) fn read(&self, ids: &BTreeSet<Id>, now: SystemTime, changed: impl Fn(&Id) -> SystemTime) -> Vec<Id> {
        let mut journals = self.journals();
        let journals = journals.get_or_insert_default();
        let is_gone = |(id, known): (&Id, &Known)| (!known.is_being_made && !ids.contains(id)).then(|| id.clone());
        for id in journals.all.iter().filter_map(is_gone).collect::<Vec<_>>() {
            journals.put(&id, None);
        }
        for id in ids {
            if !journals.all.contains_key(id) {
                journals.put(id, Some(Known { changed: changed(id), is_being_made: false }));
            }
        }
        let is_old = |known: &Known| now.duration_since(known.changed).is_ok_and(|age| age >= ABANDONED_AGE);
        journals.all.iter().filter(|(_, known)| is_old(known)).map(|(id, _)| id.clone()).collect()
    }

    /// Requests a place for this journal. The names must have been read before.
    ///
    /// # Errors
    /// Fails if the sender has too many journals. Also fails if all places are taken and no sender has at least two
    /// more journals than this one.
    pub(super) fn take(&self, id: &Id, now: SystemTime) -> io::Result<Place> {
        self.journals().get_or_insert_default().take(id, now, self.files_max)
    }

    /// Marks the journal as changed, if it has a place.
    pub(super) fn touch(&self, id: &Id, now: SystemTime) {
        if let Some(journals) = &mut *self.journals()
            && journals.all.contains_key(id)
        {
            journals.put(id, Some(Known { changed: now, is_being_made: false }));
        }
    }

    /// Removes a journal that no longer exists.
    pub(super) fn release(&self, id: &Id) {
        if let Some(journals) = &mut *self.journals() {
            journals.put(id, None);
        }
    }

    fn journals(&self) -> MutexGuard<'_, Option<Journals>> {
        self.journals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::owner::Owner;

    fn id(sender: &str, number: u32) -> Id {
        Id::of(&Owner::from_fingerprint(sender), &number.to_be_bytes())
    }

    fn at(s: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(s)
    }

    #[test]
    fn what_is_read_is_what_there_is_except_for_what_is_being_made() {
        let table = Table::new();
        assert!(!table.is_read());
        let ids = BTreeSet::from([id("a", 0), id("a", 1), id("b", 0)]);
        assert_eq!(table.read(&ids, at(10), |_| at(5)), []);
        assert!(table.is_read());
        assert_eq!(table.take(&id("b", 1), at(10)).unwrap(), Place::Taken);
        assert_eq!(table.take(&id("b", 1), at(10)).unwrap(), Place::Had);
        table.read(&BTreeSet::from([id("a", 0)]), at(11), |_| panic!("it is known"));
        let journals = table.journals.lock().unwrap();
        let journals = journals.as_ref().unwrap();
        assert_eq!(journals.all.keys().collect::<BTreeSet<_>>(), BTreeSet::from([&id("a", 0), &id("b", 1)]));
        assert_eq!((journals.senders.len(), journals.counts.len()), (2, 2));
    }

    #[test]
    fn the_oldest_of_the_sender_with_most_makes_room_and_what_is_in_use_is_young() {
        let table = Table { files_max: 4, ..Table::new() };
        for number in 0..4 {
            assert_eq!(table.take(&id("a", number), at(number.into())).unwrap(), Place::Taken);
        }
        assert!(table.take(&id("a", 4), at(9)).is_err(), "nothing is given up for its own");
        assert_eq!(table.take(&id("b", 0), at(9)).unwrap(), Place::Instead(id("a", 0)));
        table.touch(&id("a", 0), at(9));
        assert_eq!(table.take(&id("b", 0), at(9)).unwrap(), Place::Instead(id("a", 1)));
        table.release(&id("a", 1));
        assert_eq!(table.take(&id("b", 0), at(9)).unwrap(), Place::Taken);
        assert_eq!(table.take(&id("b", 1), at(9)).unwrap(), Place::Instead(id("a", 2)));
        table.release(&id("a", 2));
        table.take(&id("b", 1), at(9)).unwrap();
        assert!(table.take(&id("c", 0), at(9)).is_ok() && table.take(&id("b", 2), at(9)).is_err());
    }

    #[test]
    fn a_sender_has_so_many_and_what_is_old_is_told() {
        let table = Table::new();
        let ids = (0..PARTIALS_PER_SENDER_MAX as u32).map(|number| id("a", number)).collect();
        let old = |found: &Id| if *found == id("a", 7) { at(0) } else { at(1) };
        assert_eq!(table.read(&ids, at(0) + ABANDONED_AGE, old), [id("a", 7)]);
        assert!(table.take(&id("a", 1_000), at(9)).is_err());
        assert_eq!(table.take(&id("b", 0), at(9)).unwrap(), Place::Taken);
    }
}
