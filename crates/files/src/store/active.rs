//! Partial files that sessions of this program are writing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use super::partial::{Found, Id};
use super::staged::Staged;
use crate::owner::Owner;

/// Minimum number of entries before those of ended sessions are removed.
const ACTIVE_SWEPT_MIN: usize = 64;

/// Partial files that sessions of this program are writing, by id.
#[derive(Debug, Default)]
pub(super) struct ActiveFiles(Mutex<State>);

/// Table of active files; it also contains some entries of ended sessions.
#[derive(Debug, Default)]
pub(super) struct State {
    slots: BTreeMap<Id, Weak<Slot>>,
    /// Number of entries at which ended sessions are removed next: twice the number left by the last removal, so the
    /// amortised cost is constant.
    swept_at: usize,
    #[cfg(test)]
    pub(super) passed_through: u64,
}

/// Slot of a file being received. Another session of the same sender may take the file out.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<Option<Staged>>);

impl Slot {
    /// Locks the slot. It contains `None` after a takeover.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Staged>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveFiles {
    /// Makes a resumable file visible to other sessions of its sender.
    pub(super) fn register(&self, staged: Staged) -> Arc<Slot> {
        let id = staged.keep.as_ref().map(|keep| keep.id.clone());
        let slot = Arc::new(Slot(Mutex::new(Some(staged))));
        if let Some(id) = id {
            self.state().insert(id, &slot);
        }
        slot
    }

    /// Takes a file from the session that is writing it. A restarted sender may be back before its old session notices
    /// the loss of the connection.
    pub(super) fn take_over(&self, id: &Id) -> Option<Staged> {
        let slot = self.state().slots.get(id).and_then(Weak::upgrade)?;
        slot.lock().take()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the files of `owner` that are being written; they may have no journal yet.
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
