//! What a receiver has and its sender does not.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use dfcp_framing::error::Failure;
use dfcp_framing::limits::DEPTH_MAX;
use dfcp_framing::names::{RelativeName, is_temporary};

use super::Store;
use super::changed::Changed;
use crate::transfer::beneath::{Directory, Kind};

/// The names in a directory of the receiver, as they are compared with the sender's.
#[derive(Debug)]
pub struct Surplus {
    directory: Directory,
    name: RelativeName,
    /// In the order of their bytes.
    ours: VecDeque<OsString>,
}

/// What was deleted, or could not be.
pub type Deletion = (Vec<u8>, Result<(), Failure>);

impl Store {
    /// Whether what a sender does not have may be deleted.
    pub fn deletes(&self) -> bool {
        self.options.allow_delete
    }

    /// The names in the directory `name`. None if there is no such directory: there is nothing to delete.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn surplus(&self, name: &RelativeName, changed: &mut Changed) -> Result<Option<Surplus>, Failure> {
        let Ok(directory) = self.root.directory(name.path()) else { return Ok(None) };
        let mut read = || {
            let names = directory.names()?.collect::<io::Result<Vec<_>>>()?;
            let shared = changed.share(name.path(), directory.directory(Path::new(""))?, &self.held)?;
            Ok((names, shared))
        };
        let (mut ours, place) = read().map_err(|error| Failure::from_io("list the directory", &error))?;
        self.note(changed, &place);
        ours.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
        Ok(Some(Surplus { directory, name: name.clone(), ours: ours.into() }))
    }
}

impl Surplus {
    /// Its name.
    pub fn name(&self) -> &RelativeName {
        &self.name
    }

    /// Deletes what comes before the next `theirs`, which are in order, and is not among them; if `asks_only`, only says what. Behind the
    /// `is_last` of them everything is surplus.
    pub fn compare(&mut self, theirs: &[Vec<u8>], is_last: bool, asks_only: bool) -> Vec<Deletion> {
        let mut deleted = Vec::new();
        for their in theirs {
            while self.ours.front().is_some_and(|our| our.as_encoded_bytes() < &their[..]) {
                deleted.extend(self.delete_next(asks_only));
            }
            if self.ours.front().is_some_and(|our| our.as_encoded_bytes() == &their[..]) {
                self.ours.pop_front();
            }
        }
        while is_last && !self.ours.is_empty() {
            deleted.extend(self.delete_next(asks_only));
        }
        deleted
    }

    fn delete_next(&mut self, asks_only: bool) -> Option<Deletion> {
        // What is under way belongs to no sender's tree.
        let our = self.ours.pop_front().filter(|our| !is_temporary(our))?;
        let name = [self.name.as_bytes(), b"/", our.as_encoded_bytes()].concat();
        let result = if asks_only { Ok(()) } else { delete(&self.directory, &our, 0) };
        Some((name, result.map_err(|error| Failure::from_io("delete it", &error))))
    }
}

/// Deletes a file, a link (and not where it leads), or a directory with all that is in it.
fn delete(directory: &Directory, name: &OsStr, depth: usize) -> io::Result<()> {
    if directory.status(name)?.kind != Kind::Directory {
        return directory.remove_file(name);
    }
    if depth >= DEPTH_MAX {
        return Err(io::Error::other("it is too deep"));
    }
    let inside = directory.directory(Path::new(name))?;
    for name in inside.names()?.collect::<io::Result<Vec<_>>>()? {
        delete(&inside, &name, depth + 1)?;
    }
    directory.remove_directory(name)
}
