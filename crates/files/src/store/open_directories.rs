//! Directories in use by sessions, which other sessions must neither delete nor make read-only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::opened_up::OpenedUp;
use crate::beneath::Identity;

/// Directories that sessions have open.
#[derive(Debug, Default)]
pub(super) struct OpenDirectories(Mutex<BTreeMap<Identity, Open>>);

#[derive(Debug, Default)]
struct Open {
    sessions: usize,
    /// Writable state to be reverted at the end.
    opened_up: Option<OpenedUp>,
}

/// Directory in use by a session, until dropped.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    all: Arc<OpenDirectories>,
    pub(super) identity: Identity,
}

impl OpenDirectories {
    /// Marks this directory as in use until the result is dropped.
    pub(super) fn open(self: &Arc<Self>, identity: Identity) -> OpenDirectory {
        self.lock().entry(identity).or_default().sessions += 1;
        OpenDirectory { all: Arc::clone(self), identity }
    }

    /// True if some session uses the directory.
    pub(super) fn has(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenDirectory {
    /// Takes charge of a directory made writable: its mode is restored when no session uses it.
    pub(super) fn keep(&self, opened_up: OpenedUp) {
        match self.all.lock().get_mut(&self.identity) {
            Some(open) if open.opened_up.is_none() => open.opened_up = Some(opened_up),
            // Another session has made it writable at the same time.
            _ => opened_up.forget(),
        }
    }

    /// Drops the saved mode, because another mode has been set.
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
                // Restore the mode before another session reads it.
                all.remove(&self.identity);
            }
        }
    }
}
