//! Entries that are flushed together and then confirmed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::Entry;
use dfcp_framing::names::RelativeName;

use super::changed::{Changed, Place};
use super::existing::Existing;
use super::flush::flush_all;
use super::spellings::Spelling;
use super::staged::Finished;
use super::{Made, Store};
use crate::beneath::{Identity, status_of};

/// Sentence for a file that would replace another file of the same session.
const SAME_NAME: &str = "the receiver's file system does not tell its name from that of another file of this transfer (or there are too many \
                         to tell): send it by itself under another name";

/// Entry that is confirmed after the next flush.
#[derive(Debug)]
pub(crate) enum Unpublished {
    /// A complete received file that does not yet have its final name.
    File(Box<Finished>),
    /// An existing file with the same content, which may not have been flushed yet.
    Unchanged(Box<Existing>),
    /// An existing file of another sender with the same content, and the received file. The received file is flushed,
    /// too, as if it were stored: the response time must not reveal that the other file exists.
    Adopted(Box<(Existing, Finished)>),
    /// A complete directory.
    Directory {
        /// Name of the directory.
        name: RelativeName,
        /// Directory that was created or existed already.
        made: Made,
        /// Entry that contains the directory's metadata.
        entry: Entry,
    },
    /// A link that was created or existed already.
    Link,
}

impl Unpublished {
    /// Returns the bytes of content that may still be in the page cache only.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::File(finished) => finished.staged.len(),
            Self::Unchanged(existing) => existing.len(),
            Self::Adopted(both) => both.1.staged.len(),
            Self::Directory { .. } | Self::Link => 0,
        }
    }
}

impl Store {
    /// Returns true if waiting for more entries is useless, or would exceed the number of descriptors permitted over
    /// all sessions.
    pub(crate) fn is_crowded(&self) -> bool {
        // The store itself holds one reference.
        !self.options.sync || Arc::strong_count(&self.held) > self.held_max
    }

    /// Flushes all content, then names the files and sets the directories' metadata, then flushes the names in all
    /// directories of `changed`. Results are in the order of the entries; entries with a successful result are durable.
    ///
    /// # Errors
    /// Fails if names could not be flushed. The state of every entry is then unknown.
    pub(crate) fn publish(
        &self,
        batch: Vec<Unpublished>,
        changed: &mut Changed,
    ) -> io::Result<Vec<Result<(), Failure>>> {
        let mut contents = self.flush_contents(&batch);
        let mut results = Vec::with_capacity(batch.len());
        for (place, one) in batch.into_iter().enumerate() {
            let flushed = contents.remove(&place).unwrap_or(Ok(()));
            let flushed = flushed.map_err(|error| Failure::from_io("flush the file", &error));
            results.push(match one {
                Unpublished::File(finished) => match flushed {
                    Ok(()) => self.name(*finished, changed),
                    Err(failure) => {
                        finished.staged.leave_as_written_down();
                        Err(failure)
                    }
                },
                Unpublished::Unchanged(existing) => flushed.map(|()| self.confirm(&existing, changed)),
                Unpublished::Adopted(mut both) => {
                    // The adopted file now belongs to the sender, so it may get hard links.
                    both.0.is_linkable = both.1.staged.is_linkable;
                    flushed.map(|()| self.confirm(&both.0, changed))
                }
                Unpublished::Link => Ok(()),
                Unpublished::Directory { name, made, entry } => self.finish_directory(&name, made, &entry, changed),
            });
            // Flush in between, because each directory holds a descriptor.
            if changed.is_many() {
                self.flush_names(changed)?;
            }
        }
        self.flush_names(changed)?;
        Ok(results)
    }

    fn confirm(&self, existing: &Existing, changed: &mut Changed) {
        self.note(changed, &existing.place);
        if existing.is_linkable
            && let Ok(status) = status_of(&existing.file)
        {
            changed.linkable.insert(&existing.place.path().join(&existing.name), status.identity);
        }
        if self.options.replace.is_possible()
            && let Ok(status) = status_of(&existing.file)
            && existing.place.folds(&existing.name, status.identity)
        {
            changed.spellings.insert(Spelling::of(&existing.place.path().join(&existing.name), status.identity));
        }
    }

    fn flush_contents(&self, batch: &[Unpublished]) -> BTreeMap<usize, io::Result<()>> {
        if !self.options.sync {
            return BTreeMap::new();
        }
        let (places, files): (Vec<_>, Vec<_>) = batch
            .iter()
            .enumerate()
            .flat_map(|(place, one)| {
                let (first, second) = match one {
                    Unpublished::File(finished) => (Some(&finished.staged.file), None),
                    Unpublished::Unchanged(existing) => (Some(&existing.file), None),
                    Unpublished::Adopted(both) => (Some(&both.1.staged.file), Some(&both.0.file)),
                    Unpublished::Directory { .. } | Unpublished::Link => (None, None),
                };
                first.into_iter().chain(second).map(move |file| (place, file))
            })
            .unzip();
        let mut results = BTreeMap::new();
        for (place, flushed) in places.into_iter().zip(flush_all(&files, &self.together)) {
            // The first error of an entry's files is kept.
            let result = results.entry(place).or_insert(Ok(()));
            if result.is_ok() {
                *result = flushed;
            }
        }
        results
    }

    fn name(&self, finished: Finished, changed: &mut Changed) -> Result<(), Failure> {
        // Keep the file open, and so locked, until it has its final name. An unlocked file may be treated as abandoned.
        let mut staged = finished.staged;
        self.note(changed, staged.temporary.place());
        let failed = |error: &io::Error| Failure::from_io("rename the finished file", error);
        let identity = status_of(&staged.file).map_err(|error| failed(&error))?.identity;
        let place = Arc::clone(staged.temporary.place());
        let spelling =
            self.check_spelling(&place, (staged.temporary.name(), &staged.destination), identity, changed)?;
        let path = place.path().join(&staged.destination);
        let is_linkable = staged.is_linkable;
        let replaces = self.replaces(&place, &staged.destination);
        let named = staged.temporary.rename(identity, &staged.destination, replaces);
        named.map_err(|error| {
            let failure = failed(&error);
            if matches!(failure.code, FailureCode::DiskFull) {
                staged.leave_as_written_down();
            }
            failure
        })?;
        if is_linkable {
            changed.linkable.insert(&path, identity);
        }
        if let Some(spelling) = spelling {
            changed.spellings.insert(spelling);
        }
        Ok(())
    }

    /// Returns true if a complete file may replace an existing entry of its name.
    fn replaces(&self, place: &Place, destination: &OsStr) -> bool {
        let replace = &self.options.replace;
        let is_asked =
            || place.directory().status(destination).is_ok() && replace.permits(&place.path().join(destination));
        replace.is_always() || (replace.is_possible() && is_asked())
    }

    /// Checks that a file or link does not replace an entry of the same session whose name the file system treats as
    /// equal (for example, a name in another case). Returns hashes of the entry's path and inode, for later checks.
    /// `None` if the file system never treats different names as equal, or if no existing entry may be replaced.
    ///
    /// # Errors
    /// Fails if the entry would replace an entry of the same session.
    pub(super) fn check_spelling(
        &self,
        place: &Place,
        (temporary, destination): (&OsStr, &OsStr),
        identity: Identity,
        changed: &Changed,
    ) -> Result<Option<Spelling>, Failure> {
        if !self.options.replace.is_possible() || !place.folds(temporary, identity) {
            return Ok(None);
        }
        let path = place.path().join(destination);
        let there = place.directory().status(destination).ok();
        match there.map(|there| Spelling::of(&path, there.identity)) {
            Some(there) if changed.spellings.may_have(there) => Err(Failure::new(FailureCode::Exists, SAME_NAME)),
            _ => Ok(Some(Spelling::of(&path, identity))),
        }
    }
}
