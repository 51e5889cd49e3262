//! Directories in use by sessions. Other sessions must neither delete them nor make them read-only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::opened_up::OpenedUp;
use crate::beneath::Identity;

/// Directories in use by sessions, by identity.
#[derive(Debug, Default)]
pub(super) struct OpenDirectories(Mutex<BTreeMap<Identity, Open>>);

#[derive(Debug, Default)]
struct Open {
    sessions: usize,
    /// Restores the original mode when dropped, if a session has made the directory writable.
    opened_up: Option<OpenedUp>,
}

/// Marks a directory as in use by a session until dropped.
#[derive(Debug)]
pub(super) struct OpenDirectory {
    all: Arc<OpenDirectories>,
    pub(super) identity: Identity,
}

impl OpenDirectories {
    /// Marks this directory as in use until the returned value is dropped.
    pub(super) fn open(self: &Arc<Self>, identity: Identity) -> OpenDirectory {
        self.lock().entry(identity).or_default().sessions += 1;
        OpenDirectory { all: Arc::clone(self), identity }
    }

    /// Returns true if any session uses the directory.
    pub(super) fn has(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenDirectory {
    /// Takes charge of a directory that was made writable. Its mode is restored when no session uses it any more.
    pub(super) fn keep(&self, opened_up: OpenedUp) {
        match self.all.lock().get_mut(&self.identity) {
            Some(open) if open.opened_up.is_none() => open.opened_up = Some(opened_up),
            // Another session has already made the directory writable and restores its mode.
            _ => opened_up.forget(),
        }
    }

    /// Discards the saved mode, because a new mode has been set.
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
                // Restore the mode under the lock, before another session can read it.
                all.remove(&self.identity);
            }
        }
    }
}
