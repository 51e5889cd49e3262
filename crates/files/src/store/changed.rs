//! Directories in which a session has changed names: open until they are flushed, each once.

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

/// An open directory below the output directory. All work of a session there shares it.
#[derive(Debug)]
pub(crate) struct Place {
    /// Below the output directory.
    path: PathBuf,
    identity: Identity,
    directory: Directory,
    /// True if names that differ by case are the same here, once that is known.
    folds: OnceLock<bool>,
    /// So that the store knows how many there are, of all sessions.
    _counted: Arc<()>,
}

/// Directories of a session whose names have changed and are not flushed. Those that were there already are among them: what
/// made them may have been interrupted before it flushed them.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Place that was used last, because files come directory by directory.
    last: Option<Arc<Place>>,
    unflushed: BTreeMap<(PathBuf, Identity), Unflushed>,
    /// Files of the session in directories that take different names for the same.
    pub(super) spellings: Spellings,
    /// Files of the session which may get further names.
    pub(super) linkable: Linkable,
}

#[derive(Debug)]
struct Unflushed {
    place: Arc<Place>,
    /// Opened for reading before its mode was set, which may forbid that.
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

    /// True if names that differ by case are the same here, as the `name` of the file `identity` shows.
    pub(super) fn folds(&self, name: &OsStr, identity: Identity) -> bool {
        *self.folds.get_or_init(|| folds(&self.directory, name, identity))
    }

    fn is(&self, path: &Path, identity: Identity) -> bool {
        self.identity == identity && self.path == path
    }
}

impl Changed {
    /// True if something is to be flushed.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.unflushed.is_empty()
    }

    /// True if [`DIRECTORIES_FLUSHED_MAX`] wait, which should be flushed before more follow.
    pub(crate) fn is_many(&self) -> bool {
        self.unflushed.len() >= DIRECTORIES_FLUSHED_MAX
    }

    /// The directory that was found at `path`, or the same one if it is open already. It is opened before that is known: its
    /// name may have passed to another one.
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

    /// Remembers to flush `place`, by the descriptor `readable` if there is one.
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
    /// As [`Changed::share`], with an error for people.
    pub(super) fn share(&self, path: &Path, found: Directory, changed: &mut Changed) -> Result<Arc<Place>, Failure> {
        let shared = changed.share(path, found, &self.held);
        shared.map_err(|error| Failure::from_io("look up its directory", &error))
    }

    /// Remembers that names in `place` have changed, or may not be on the disk.
    pub(super) fn note(&self, changed: &mut Changed, place: &Arc<Place>) {
        if self.options.sync {
            changed.note(place, None);
        }
    }

    /// Flushes the names in all that has changed. Each directory takes a second descriptor for it, so some are done at a time.
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
    /// Directories that were flushed together.
    pub(super) static FLUSHED: std::cell::RefCell<Vec<Vec<PathBuf>>> = const { std::cell::RefCell::new(Vec::new()) };
}
