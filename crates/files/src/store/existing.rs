//! A file that has the name of one that comes.
//!
//! A sender learns what is in it only if the same key has stored it, or the user lets every sender ask. Any other file is *foreign*: no
//! answer depends on its content, length, time or mode, and nothing that takes time does.

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

/// A regular file of the receiver, open for reading.
#[derive(Debug)]
pub(crate) struct Existing {
    pub(super) file: File,
    pub(super) place: Arc<Place>,
    /// Its last component.
    pub(super) name: OsString,
    pub(super) key: FileKey,
    len: u64,
    /// True if it is its sender's own, and may get further names in this session.
    pub(super) is_linkable: bool,
    /// So that the store knows how many there are, of all sessions.
    _counted: Arc<()>,
}

/// Fate of a file that has come as a whole.
#[derive(Debug)]
pub(crate) enum Completed {
    /// It gets its name.
    New(Box<Finished>),
    /// Its sender has stored the same before: that stays, untouched.
    Unchanged(Box<Existing>),
    /// A foreign file is the same and is its sender's from now on. The sender is told the same as of a new one, and no sooner.
    Adopted(Box<(Existing, Finished)>),
}

impl Store {
    /// The regular file `name`, if one is there which `owner` may know, which may turn out to be the same as one that takes at least
    /// the entry says, and which is not to be replaced anyway.
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

    /// True if `owner` may learn its content.
    pub(super) fn is_known(&self, existing: &Existing, owner: Option<&Owner>) -> bool {
        self.options.allow_update || owner.is_some_and(|owner| is_sender(&existing.file, owner.as_str()))
    }

    /// The regular file `name`, if one is there.
    pub(super) fn regular(&self, name: &RelativeName, changed: &mut Changed) -> Option<Existing> {
        let (place, last) = self.place(name, changed).ok()?;
        self.regular_in(&place, last, name)
    }

    fn regular_in(&self, place: &Arc<Place>, last: &OsStr, name: &RelativeName) -> Option<Existing> {
        let directory = place.directory();
        // Opening anything else could wait, or do something to a device.
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

    /// Decides about a file that is whole and verified, and may replace what has its name.
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
                // Without `finished` the temporary file is removed.
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

    /// Makes a foreign file one of `sender`, as if it had been replaced. False where that cannot be done without a trace: then it is
    /// replaced.
    fn adopt(&self, existing: &Existing, sender: Option<&Owner>, entry: &Entry) -> bool {
        let adopt = || {
            // With a second name it is also another file, which stays foreign.
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

    /// True if a file that may be replaced has the mode and time of the entry, or has got them now.
    pub(super) fn has_metadata_of(&self, existing: &Existing, entry: &Entry) -> Result<bool, Failure> {
        let failed = |error| Failure::from_io("set the time and mode of the file that exists", &error);
        let status = status_of(&existing.file).map_err(failed)?;
        if status.mode == self.mode(entry) && existing.has_mtime(entry).map_err(failed)? {
            return Ok(true);
        }
        // With a second name it is also another file, whose metadata are not ours to set.
        let Ok(own) = existing.place.directory().own_file(&existing.name) else { return Ok(false) };
        if status_of(&own).map_err(failed)?.identity != status.identity {
            return Ok(false);
        }
        set_metadata(&own, self.mode(entry), mtime(entry)).map_err(failed)?;
        Ok(true)
    }
}

/// The foreign file in the place of one that has come, if its content is the same. As much is read whatever it is: else the time until
/// the answer would tell its length. It is read once the other has come as a whole, and is replaced if it differs, so nothing can be
/// asked about it twice.
fn foreign_that_is_same(existing: Option<Existing>, staged: &Staged, over: &Over) -> Option<Existing> {
    let existing = existing.filter(|existing| existing.len == staged.len());
    let file = existing.as_ref().map_or(&staged.file, |existing| &existing.file);
    let found = hash(file, staged.len(), over);
    existing.filter(|_| matches!(found, Ok(Some(found)) if Some(found) == staged.verified))
}

impl Existing {
    /// As what an entry of `owner` may turn out to be.
    pub(super) fn for_entry(self, owner: Option<&Owner>, entry: &Entry) -> Self {
        let is_own = || owner.is_some_and(|owner| is_sender(&self.file, owner.as_str()));
        Self { is_linkable: entry.has_more_names() && is_own(), ..self }
    }

    /// To read it.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Key that identifies the file.
    pub(crate) fn key(&self) -> &FileKey {
        &self.key
    }

    /// Bytes of content.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// True if its content has the time of the entry.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn has_mtime(&self, entry: &Entry) -> io::Result<bool> {
        let status = status_of(&self.file)?;
        Ok((status.mtime_s, status.mtime_ns) == (entry.mtime_s, entry.mtime_ns))
    }

    /// True if it has this length and BLAKE3 hash, if all bytes of the other were `received`. Else it is not read: a few bytes
    /// of a sender would cost the reading of the longest file here, as often as it likes. The answer comes only from the
    /// whole: a sender that was told of the first difference could find out the content of a file byte by byte.
    ///
    /// # Errors
    /// Those of the file system; the session is over.
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
