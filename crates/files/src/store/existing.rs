//! Existing file of the receiver under the name of a received file.
//!
//! A sender learns about such a file only if the same key stored it, or if the user permits questions of all senders.
//! Any other file is *foreign*: no answer and no response time depends on its content, length, time or mode.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use dfcp_framing::error::Failure;
use dfcp_framing::files::{Entry, HASH_BYTES};
use dfcp_framing::names::RelativeName;

use super::changed::{Changed, Place};
use super::readings::{FileKey, Over, hash, key};
use super::staged::Finished;
use super::staged::Staged;
use super::{Store, mtime};
use crate::beneath::{Kind, is_sender, set_metadata, set_sender, status_of};
use crate::owner::Owner;

/// Regular file of the receiver, open for reading.
#[derive(Debug)]
pub(crate) struct Existing {
    pub(super) file: File,
    pub(super) place: Arc<Place>,
    /// Last component of the file's name.
    pub(super) name: OsString,
    pub(super) key: FileKey,
    len: u64,
    /// True if the file belongs to the session's sender and may get hard links in this session.
    pub(super) is_linkable: bool,
    /// Counts this file's descriptor in the total over all sessions.
    _counted: Arc<()>,
}

/// Result for a file that was received completely.
#[derive(Debug)]
pub(crate) enum Completed {
    /// The file is to get its final name.
    New(Box<Finished>),
    /// The sender had already stored the same content. The existing file stays untouched.
    Unchanged(Box<Existing>),
    /// A foreign file has the same content, and now belongs to this sender too. The sender gets the same answer as for
    /// a new file, after the same time.
    Adopted(Box<(Existing, Finished)>),
}

impl Store {
    /// Returns the regular file `name` if it is worth comparing with an entry. It must be long enough for the entry,
    /// `owner` must be permitted to learn its content, and the options must not permit replacing it.
    pub(crate) fn existing(
        &self,
        owner: Option<&Owner>,
        name: &RelativeName,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Option<Existing> {
        let replace = &self.options.replace;
        if replace.is_always() {
            return None;
        }
        let existing = self.regular(name, changed)?.for_entry(owner, entry);
        let may_be_same = self.is_known(&existing, owner) && existing.len >= entry.size_hint_bytes;
        (may_be_same && !replace.permits(name.path())).then_some(existing)
    }

    /// Returns true if `owner` may learn the content of the file.
    pub(super) fn is_known(&self, existing: &Existing, owner: Option<&Owner>) -> bool {
        self.options.allow_update || owner.is_some_and(|owner| is_sender(&existing.file, owner.as_str()))
    }

    /// Opens the regular file `name`. `None` if there is no such file.
    pub(super) fn regular(&self, name: &RelativeName, changed: &mut Changed) -> Option<Existing> {
        let (place, last) = self.place(name, changed).ok()?;
        self.regular_in(&place, last, name)
    }

    fn regular_in(&self, place: &Arc<Place>, last: &OsStr, name: &RelativeName) -> Option<Existing> {
        let directory = place.directory();
        // Check the kind first: opening a FIFO could block, and opening a device could have side effects.
        if directory.status(last).ok()?.kind != Kind::File {
            return None;
        }
        let file = directory.file(Path::new(last)).ok()?;
        let status = status_of(&file).ok()?;
        let (name, key) = (last.to_owned(), key(&status, name));
        let counted = Arc::clone(&self.held);
        (status.kind == Kind::File).then(|| Existing {
            file,
            place: Arc::clone(place),
            name,
            key,
            len: status.len,
            is_linkable: false,
            _counted: counted,
        })
    }

    /// Decides whether a verified file is stored, or is equal to the existing file of its name.
    pub(super) fn complete(&self, finished: Finished, name: &RelativeName, entry: &Entry, over: &Over) -> Completed {
        let staged = &finished.staged;
        let (place, destination, sender) = (staged.temporary.place(), &staged.destination, staged.sender.as_ref());
        let is_free = || {
            let status = place.directory().status(destination);
            matches!(status, Err(error) if error.kind() == io::ErrorKind::NotFound)
        };
        if !self.options.replace.is_possible() || is_free() {
            return Completed::New(Box::new(finished));
        }
        let existing = self.regular_in(place, destination, name);
        match existing {
            Some(existing) if self.is_known(&existing, sender) => {
                let is_same = self.is_same_known(&existing, staged, entry, over);
                // In the first case, dropping `finished` removes the received file.
                let existing = existing.for_entry(sender, entry);
                if is_same { Completed::Unchanged(Box::new(existing)) } else { Completed::New(Box::new(finished)) }
            }
            foreign => {
                let same = foreign_that_is_same(foreign, staged, over);
                match same.filter(|existing| self.adopt(existing, sender, entry)) {
                    Some(existing) => Completed::Adopted(Box::new((existing, finished))),
                    None => Completed::New(Box::new(finished)),
                }
            }
        }
    }

    fn is_same_known(&self, existing: &Existing, staged: &Staged, entry: &Entry, over: &Over) -> bool {
        let is_same = || {
            let Some(expected) = staged.verified.filter(|_| existing.len == staged.len()) else { return Ok(false) };
            Ok(hash(&existing.file, existing.len, over)? == Some(expected))
        };
        let is_same = is_same().unwrap_or_else(|error: io::Error| {
            tracing::debug!(%error, "the file that exists is replaced without a comparison");
            false
        });
        is_same
            && self.has_metadata_of(existing, entry).unwrap_or_else(|failure| {
                tracing::debug!(%failure, "the file that exists is replaced");
                false
            })
    }

    /// Transfers a foreign file to `sender`, as if it had been replaced. Returns false if the difference to a
    /// replacement would be visible; the file is then really replaced.
    fn adopt(&self, existing: &Existing, sender: Option<&Owner>, entry: &Entry) -> bool {
        let adopt = || {
            // This fails for a file with another hard link, which thus stays foreign.
            let own = existing.place.directory().own_file(&existing.name)?;
            if status_of(&own)?.identity != status_of(&existing.file)?.identity {
                return Ok(false);
            }
            set_sender(&own, sender.map(Owner::as_str))?;
            set_metadata(&own, self.mode(entry), mtime(entry))?;
            Ok(true)
        };
        adopt().unwrap_or_else(|error: io::Error| {
            tracing::debug!(%error, "the file that exists is replaced by the same content");
            false
        })
    }

    /// Returns true if an existing file has the entry's mode and time, or if both could be set.
    pub(super) fn has_metadata_of(&self, existing: &Existing, entry: &Entry) -> Result<bool, Failure> {
        let failed = |error| Failure::from_io("set the time and mode of the file that exists", &error);
        let status = status_of(&existing.file).map_err(failed)?;
        if status.mode == self.mode(entry) && existing.has_mtime(entry).map_err(failed)? {
            return Ok(true);
        }
        // This fails for a file with another hard link, which thus keeps its metadata.
        let Ok(own) = existing.place.directory().own_file(&existing.name) else { return Ok(false) };
        if status_of(&own).map_err(failed)?.identity != status.identity {
            return Ok(false);
        }
        set_metadata(&own, self.mode(entry), mtime(entry)).map_err(failed)?;
        Ok(true)
    }
}

/// Returns the foreign file under the name of a received file if both have the same content. The same number of bytes
/// is read in any case; otherwise the response time would reveal the foreign file's length. The sender cannot repeat
/// the question: the comparison takes a complete transfer, and a differing file is then replaced.
fn foreign_that_is_same(existing: Option<Existing>, staged: &Staged, over: &Over) -> Option<Existing> {
    let existing = existing.filter(|existing| existing.len == staged.len());
    let file = existing.as_ref().map_or(&staged.file, |existing| &existing.file);
    let found = hash(file, staged.len(), over);
    existing.filter(|_| matches!(found, Ok(Some(found)) if Some(found) == staged.verified))
}

impl Existing {
    /// Marks whether the file may get hard links as the result of `entry` from `owner`.
    pub(super) fn for_entry(self, owner: Option<&Owner>, entry: &Entry) -> Self {
        let is_own = || owner.is_some_and(|owner| is_sender(&self.file, owner.as_str()));
        Self { is_linkable: entry.has_more_names() && is_own(), ..self }
    }

    /// Returns the open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the key that identifies the file.
    pub(crate) fn key(&self) -> &FileKey {
        &self.key
    }

    /// Returns the length, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the file has the modification time of `entry`.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn has_mtime(&self, entry: &Entry) -> io::Result<bool> {
        let status = status_of(&self.file)?;
        Ok((status.mtime_s, status.mtime_ns) == (entry.mtime_s, entry.mtime_ns))
    }

    /// Returns true if length and BLAKE3 hash match, and the sender has sent all bytes (`received`). Without all bytes
    /// the file is not read; otherwise, a sender could make the receiver read a long file repeatedly with a few bytes.
    /// The comparison covers the whole file: if it stopped at the first difference, the sender could find out the
    /// content byte by byte.
    ///
    /// # Errors
    /// Passes on errors of the file system, and fails if the session has ended.
    pub(crate) fn is_identical(
        &self,
        received: u64,
        len: u64,
        expected: &[u8; HASH_BYTES],
        over: &Over,
    ) -> io::Result<bool> {
        if self.len != len || received != len {
            return Ok(false);
        }
        let found = hash(&self.file, len, over)?;
        Ok(found.is_some_and(|found| found == *expected) && status_of(&self.file)?.len == len)
    }
}
