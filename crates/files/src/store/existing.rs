//! Existing file under the name of a received one.
//!
//! A sender learns its content only if the same key stored it, or the user allows questions of all senders. Any other file is *foreign*: no
//! answer and no response time depends on its content, length, time or mode.

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
use super::finished::Finished;
use super::readings::{FileKey, Over, hash, key};
use super::staged::Staged;
use super::{Store, mtime};
use crate::beneath::{Kind, is_sender, set_metadata, set_sender, status_of};
use crate::owner::Owner;

/// Regular file of the receiver, open for reading.
#[derive(Debug)]
pub(crate) struct Existing {
    pub(super) file: File,
    pub(super) place: Arc<Place>,
    /// Last component of its name.
    pub(super) name: OsString,
    pub(super) key: FileKey,
    len: u64,
    /// True if it belongs to its sender and may get hard links in this session.
    pub(super) is_linkable: bool,
    /// Counts the descriptors over all sessions.
    _counted: Arc<()>,
}

/// Result of a completely received file.
#[derive(Debug)]
pub(crate) enum Completed {
    /// The file gets its name.
    New(Box<Finished>),
    /// Its sender had stored the same content before, which stays untouched.
    Unchanged(Box<Existing>),
    /// A foreign file has the same content, and now belongs to the sender too. The sender gets the answer of a new file, at the same time.
    Adopted(Box<(Existing, Finished)>),
}

impl Store {
    /// The regular file `name`, if `owner` may know it, it may turn out equal to an entry of at least the stated length, and it would not
    /// be replaced anyway.
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

    /// True if `owner` may learn the file's content.
    pub(super) fn is_known(&self, existing: &Existing, owner: Option<&Owner>) -> bool {
        self.options.allow_update || owner.is_some_and(|owner| is_sender(&existing.file, owner.as_str()))
    }

    /// Opens the regular file `name`, if there is one.
    pub(super) fn regular(&self, name: &RelativeName, changed: &mut Changed) -> Option<Existing> {
        let (place, last) = self.place(name, changed).ok()?;
        self.regular_in(&place, last, name)
    }

    fn regular_in(&self, place: &Arc<Place>, last: &OsStr, name: &RelativeName) -> Option<Existing> {
        let directory = place.directory();
        // Opening another kind could block, or affect a device.
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

    /// Decides about a verified file that may replace the current holder of its name.
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
                // Dropping `finished` removes the temporary file.
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

    /// Gives a foreign file to `sender`, as if it had been replaced. False where that would be visible: the file is then replaced.
    fn adopt(&self, existing: &Existing, sender: Option<&Owner>, entry: &Entry) -> bool {
        let adopt = || {
            // A file with another hard link stays foreign.
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

    /// True if a replaceable file has the entry's mode and time, or has just got them.
    pub(super) fn has_metadata_of(&self, existing: &Existing, entry: &Entry) -> Result<bool, Failure> {
        let failed = |error| Failure::from_io("set the time and mode of the file that exists", &error);
        let status = status_of(&existing.file).map_err(failed)?;
        if status.mode == self.mode(entry) && existing.has_mtime(entry).map_err(failed)? {
            return Ok(true);
        }
        // A file with another hard link keeps its metadata.
        let Ok(own) = existing.place.directory().own_file(&existing.name) else { return Ok(false) };
        if status_of(&own).map_err(failed)?.identity != status.identity {
            return Ok(false);
        }
        set_metadata(&own, self.mode(entry), mtime(entry)).map_err(failed)?;
        Ok(true)
    }
}

/// Foreign file under the name of a received one, if its content is equal. The same amount is read in any case: otherwise the response time
/// would reveal its length. It is read after the other has arrived completely, and is replaced if it differs, so no second question about
/// it is possible.
fn foreign_that_is_same(existing: Option<Existing>, staged: &Staged, over: &Over) -> Option<Existing> {
    let existing = existing.filter(|existing| existing.len == staged.len());
    let file = existing.as_ref().map_or(&staged.file, |existing| &existing.file);
    let found = hash(file, staged.len(), over);
    existing.filter(|_| matches!(found, Ok(Some(found)) if Some(found) == staged.verified))
}

impl Existing {
    /// View of the file as the possible result of an entry of `owner`.
    pub(super) fn for_entry(self, owner: Option<&Owner>, entry: &Entry) -> Self {
        let is_own = || owner.is_some_and(|owner| is_sender(&self.file, owner.as_str()));
        Self { is_linkable: entry.has_more_names() && is_own(), ..self }
    }

    /// Handle for reading.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Key that identifies the file.
    pub(crate) fn key(&self) -> &FileKey {
        &self.key
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// True if its modification time is the entry's.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(super) fn has_mtime(&self, entry: &Entry) -> io::Result<bool> {
        let status = status_of(&self.file)?;
        Ok((status.mtime_s, status.mtime_ns) == (entry.mtime_s, entry.mtime_ns))
    }

    /// True if length and BLAKE3 hash match, and all bytes of the other were `received`. Otherwise the file is not read: a few bytes could
    /// make the receiver read its longest file, repeatedly. The answer covers the whole: a sender that learnt the first difference could
    /// find out the content byte by byte.
    ///
    /// # Errors
    /// Passes on errors of the file system, and fails if the session is over.
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
