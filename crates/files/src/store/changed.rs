//! Directories in which a session has changed names. Each is held open once until it is flushed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dfcp_framing::error::Failure;

use super::Store;
use super::flush::flush_all;
use super::linkable::Linkable;
use super::spellings::{Spellings, folds};
use crate::beneath::{Directory, Identity};
use crate::limits::DIRECTORIES_FLUSHED_MAX;

/// Open directory below the output directory, shared by all operations of a session in that directory.
#[derive(Debug)]
pub(crate) struct Place {
    /// Path below the output directory.
    path: PathBuf,
    identity: Identity,
    directory: Directory,
    /// True if the directory folds case; unset until tested.
    folds: OnceLock<bool>,
    /// Counts this directory's descriptor in the total over all sessions.
    _counted: Arc<()>,
}

/// Directories of a session with unflushed names. Directories that already existed are included too, as their creator
/// may have been interrupted before its flush.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Directory used most recently. Files arrive directory by directory, so it is usually the next one too.
    last: Option<Arc<Place>>,
    unflushed: BTreeMap<(PathBuf, Identity), Unflushed>,
    /// Files stored by the session in directories that fold names.
    pub(super) spellings: Spellings,
    /// Files stored by the session that may get hard links.
    pub(super) linkable: Linkable,
}

#[derive(Debug)]
struct Unflushed {
    place: Arc<Place>,
    /// Descriptor that was opened for reading before the final mode was set, as that mode may forbid reading.
    readable: Option<File>,
}

impl Place {
    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the directory folds case. The first call tests this with `name`, which belongs to the file
    /// `identity`.
    pub(super) fn folds(&self, name: &OsStr, identity: Identity) -> bool {
        *self.folds.get_or_init(|| folds(&self.directory, name, identity))
    }

    fn is(&self, path: &Path, identity: Identity) -> bool {
        self.identity == identity && self.path == path
    }
}

impl Changed {
    /// Returns true if a directory needs a flush.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.unflushed.is_empty()
    }

    /// Returns true if [`DIRECTORIES_FLUSHED_MAX`] directories need a flush, which should then be done before others
    /// follow.
    pub(crate) fn is_many(&self) -> bool {
        self.unflushed.len() >= DIRECTORIES_FLUSHED_MAX
    }

    /// Returns the already open descriptor of the directory `found`, or `found` itself. The caller opens the path anew
    /// each time, because the name may now belong to another directory.
    pub(super) fn share(&mut self, path: &Path, found: Directory, counter: &Arc<()>) -> io::Result<Arc<Place>> {
        let identity = found.own_status()?.identity;
        if let Some(last) = self.last.as_ref().filter(|last| last.is(path, identity)) {
            return Ok(Arc::clone(last));
        }
        let key = (path.to_owned(), identity);
        let place = self.unflushed.get(&key).map_or_else(
            || {
                Arc::new(Place {
                    path: key.0,
                    identity,
                    directory: found,
                    folds: OnceLock::new(),
                    _counted: Arc::clone(counter),
                })
            },
            |known| Arc::clone(&known.place),
        );
        self.last = Some(Arc::clone(&place));
        Ok(place)
    }

    /// Schedules a flush of `place`. The descriptor `readable` is used for it, if given.
    pub(super) fn note(&mut self, place: &Arc<Place>, readable: Option<File>) {
        let key = (place.path.clone(), place.identity);
        let unflushed =
            self.unflushed.entry(key).or_insert_with(|| Unflushed { place: Arc::clone(place), readable: None });
        unflushed.readable = readable.or_else(|| unflushed.readable.take());
    }

    #[cfg(all(test, unix))]
    pub(super) fn readable(&self) -> Vec<&Path> {
        let all = self.unflushed.values().filter(|one| one.readable.is_some());
        all.map(|one| one.place.path.as_path()).collect()
    }
}

impl Store {
    /// Calls [`Changed::share`], and converts its error to a failure for display.
    pub(super) fn share(&self, path: &Path, found: Directory, changed: &mut Changed) -> Result<Arc<Place>, Failure> {
        let shared = changed.share(path, found, &self.held);
        shared.map_err(|error| Failure::from_io("look up its directory", &error))
    }

    /// Records that names in `place` have changed, or may not be flushed yet.
    pub(super) fn note(&self, changed: &mut Changed, place: &Arc<Place>) {
        if self.options.sync {
            changed.note(place, None);
        }
    }

    /// Flushes the names in all changed directories. This is done in groups, since each directory takes a second
    /// descriptor.
    pub(crate) fn flush_names(&self, changed: &mut Changed) -> io::Result<()> {
        changed.last = None;
        let mut left: Vec<Unflushed> = std::mem::take(&mut changed.unflushed).into_values().collect();
        while !left.is_empty() {
            let some = left.split_off(left.len().saturating_sub(DIRECTORIES_FLUSHED_MAX));
            #[cfg(test)]
            FLUSHED.with_borrow_mut(|log| log.push(some.iter().map(|one| one.place.path.clone()).collect()));
            let open = some.into_iter().filter_map(|Unflushed { place, readable }| match readable {
                Some(readable) => Some(Ok(readable)),
                None => place.directory.flushable().transpose(),
            });
            let open = open.collect::<io::Result<Vec<File>>>()?;
            flush_all(&open.iter().collect::<Vec<_>>(), &self.together).into_iter().collect::<io::Result<()>>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
thread_local! {
    /// Groups of directories that were flushed together, for tests.
    pub(super) static FLUSHED: std::cell::RefCell<Vec<Vec<PathBuf>>> = const { std::cell::RefCell::new(Vec::new()) };
}
