//! Unfinished files that sessions of this program are writing to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::partial::{Found, Id};
use super::staged::Staged;
use crate::owner::Owner;

/// The fewest active files of which those that are over are looked for.
const ACTIVE_SWEPT_MIN: usize = 64;

/// Those which some session of this program is writing to.
#[derive(Debug, Default)]
pub(super) struct ActiveFiles(Mutex<State>);

/// Those which some session of this program is writing to, and some which none is any more.
#[derive(Debug, Default)]
pub(super) struct State {
    slots: BTreeMap<Id, Weak<Slot>>,
    /// Those which are over are looked for when there are as many: twice what there were, so that each costs the same.
    swept_at: usize,
    #[cfg(test)]
    pub(super) passed_through: u64,
}

/// A file that is being received. Another session of its sender may take it.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<Option<Staged>>);

impl Slot {
    /// The file, as long as nobody has taken it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Staged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveFiles {
    /// Makes a file one that others of its sender's sessions find, if it can be resumed.
    pub(super) fn register(&self, staged: Staged) -> Arc<Slot> {
        let id = staged.keep.as_ref().map(|keep| keep.id.clone());
        let slot = Arc::new(Slot(Mutex::new(Some(staged))));
        if let Some(id) = id {
            self.state().insert(id, &slot);
        }
        slot
    }

    /// Takes a file from the session that writes to it. A sender which was killed is back before its receiver knows that it is gone.
    pub(super) fn take_over(&self, id: &Id) -> Option<Staged> {
        let slot = self.state().slots.get(id).and_then(Weak::upgrade)?;
        slot.lock().take()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of `owner`, which may have no journals yet.
    pub(super) fn list(&self, owner: &Owner, now: SystemTime) -> BTreeMap<Id, Found> {
        let wanted = Id::of(owner, b"");
        let slot = |(id, slot): (&Id, &Weak<Slot>)| Some((id.clone(), slot.upgrade()?));
        let slots: Vec<_> =
            self.state().slots.iter().filter(|(id, _)| id.is_of_sender_of(&wanted)).filter_map(slot).collect();
        let found = slots.into_iter().filter_map(|(id, slot)| {
            let slot = slot.lock();
            let (keep, tree) = slot.as_ref().and_then(|staged| Some((staged.keep.as_ref()?, staged.tree()?)))?;
            let offset = tree.shape().floor(tree.position());
            let (file, bytes) = (keep.file.clone(), tree.position());
            Some((id, Found { file, offset, bytes, is_active: true, is_free: true, changed: now }))
        });
        found.collect()
    }
}

impl State {
    fn insert(&mut self, id: Id, slot: &Arc<Slot>) {
        if self.slots.len() >= self.swept_at.max(ACTIVE_SWEPT_MIN) {
            #[cfg(test)]
            {
                self.passed_through += self.slots.len() as u64;
            }
            self.slots.retain(|_, slot| slot.strong_count() > 0);
            self.swept_at = 2 * self.slots.len();
        }
        self.slots.insert(id, Arc::downgrade(slot));
    }
}
