//! Partial files in use by sessions of this program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::partial::{Found, Id};
use super::staged::Staged;
use crate::owner::Owner;

/// Minimum number of entries before ended ones are swept.
const ACTIVE_SWEPT_MIN: usize = 64;

/// Partial files that sessions of this program are writing.
#[derive(Debug, Default)]
pub(super) struct ActiveFiles(Mutex<State>);

/// Partial files in use, and some that are no longer.
#[derive(Debug, Default)]
pub(super) struct State {
    slots: BTreeMap<Id, Weak<Slot>>,
    /// Number of entries at which the next sweep is due: twice the last result, for constant amortised cost.
    swept_at: usize,
    #[cfg(test)]
    pub(super) passed_through: u64,
}

/// File being received, which another session of its sender may take over.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<Option<Staged>>);

impl Slot {
    /// Locks the file, which is `None` after a takeover.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Staged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveFiles {
    /// Makes a resumable file visible to its sender's other sessions.
    pub(super) fn register(&self, staged: Staged) -> Arc<Slot> {
        let id = staged.keep.as_ref().map(|keep| keep.id.clone());
        let slot = Arc::new(Slot(Mutex::new(Some(staged))));
        if let Some(id) = id {
            self.state().insert(id, &slot);
        }
        slot
    }

    /// Takes a file from the session writing it: a killed sender may return before its receiver notices the loss.
    pub(super) fn take_over(&self, id: &Id) -> Option<Staged> {
        let slot = self.state().slots.get(id).and_then(Weak::upgrade)?;
        slot.lock().take()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files of `owner` in use, which may have no journal yet.
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
