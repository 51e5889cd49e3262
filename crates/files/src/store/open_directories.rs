//! Directories in which some session is storing, so that no other one deletes them, or takes the right to write to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::opened_up::OpenedUp;
use crate::beneath::Identity;

/// The directories that sessions have open.
#[derive(Debug, Default)]
pub(super) struct OpenDirectories(Mutex<BTreeMap<Identity, Open>>);

#[derive(Debug, Default)]
struct Open {
    sessions: usize,
    /// One to which its owner may write for as long.
    opened_up: Option<OpenedUp>,
}

/// A directory in which a session is storing. Dropping it says that it is done.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    all: Arc<OpenDirectories>,
    pub(super) identity: Identity,
}

impl OpenDirectories {
    /// A session stores in this directory until the result is dropped.
    pub(super) fn open(self: &Arc<Self>, identity: Identity) -> OpenDirectory {
        self.lock().entry(identity).or_default().sessions += 1;
        OpenDirectory { all: Arc::clone(self), identity }
    }

    /// True if some session stores in it.
    pub(super) fn has(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenDirectory {
    /// It was made writable, and gets its mode back when no session stores in it any more.
    pub(super) fn keep(&self, opened_up: OpenedUp) {
        match self.all.lock().get_mut(&self.identity) {
            Some(open) if open.opened_up.is_none() => open.opened_up = Some(opened_up),
            // Another session has made it writable at the same time.
            _ => opened_up.forget(),
        }
    }

    /// It has another mode now.
    pub(super) fn forget_mode(&self) {
        if let Some(opened_up) = self.all.lock().get_mut(&self.identity).and_then(|open| open.opened_up.take()) {
            opened_up.forget();
        }
    }
}

impl Drop for OpenDirectory {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(open) = all.get_mut(&self.identity) {
            open.sessions -= 1;
            if open.sessions == 0 {
                // It gets its mode back before another session looks at that.
                all.remove(&self.identity);
            }
        }
    }
}
