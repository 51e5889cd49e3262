//! Directories in which some session is storing, so that no other one deletes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::transfer::beneath::Identity;

/// The directories that sessions have open, and how often.
#[derive(Debug, Default)]
pub(super) struct OpenDirectories(Mutex<BTreeMap<Identity, usize>>);

/// A directory in which a session is storing. Dropping it says that it is done.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    all: Arc<OpenDirectories>,
    pub(super) identity: Identity,
}

impl OpenDirectories {
    /// A session stores in this directory until the result is dropped.
    pub(super) fn open(self: &Arc<Self>, identity: Identity) -> OpenDirectory {
        *self.lock().entry(identity).or_default() += 1;
        OpenDirectory { all: Arc::clone(self), identity }
    }

    /// Whether some session stores in it.
    pub(super) fn has(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(count) = all.get_mut(&self.identity) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.identity);
            }
        }
    }
}
