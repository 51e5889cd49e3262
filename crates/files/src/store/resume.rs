//! Files that an identified sender starts, resumes or offers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use dfcp_framing::error::{EXISTS, Failure, FailureCode};
use dfcp_framing::files::{Entry, HASH_BYTES, Partial};
use dfcp_framing::names::{RelativeName, is_temporary};

use super::changed::Changed;
use super::existing::Existing;
use super::partial::{Found, Id, Keep, UnfinishedFile};
use super::readings::{FileKey, Readings, key};
use super::staged::{Staged, Temporary};
use super::{Slot, Store};
use crate::beneath::status_of;
use crate::hash_tree::{ChainingValue, Shape, TreeHasher};
use crate::owner::Owner;

/// Position at which the sender's content starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The sender sends the whole file.
    New,
    /// The sender resumes the file at this offset, bytes.
    At(u64),
}

/// Already stored beginning of a resumed file.
#[derive(Debug)]
pub(crate) struct Resumed {
    /// Division of the file into parts.
    pub shape: Shape,
    /// Length of the stored beginning, bytes.
    pub offset: u64,
    /// Chaining values of the largest parts from the journal; `None` if unknown.
    pub spans: Vec<Option<ChainingValue>>,
    /// Partial file, open for reading.
    pub file: std::fs::File,
}

impl Resumed {
    /// Returns the key that identifies the partial file. `name` is its final name.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn key(&self, name: &RelativeName) -> io::Result<FileKey> {
        Ok(key(&status_of(&self.file)?, name))
    }
}

/// Decision about a file that a sender has offered.
#[derive(Debug)]
pub(crate) enum Offered {
    /// The receiver needs the file.
    Wanted,
    /// The receiver needs the file, which would replace this older version.
    Replaces(Box<Existing>),
    /// The receiver already has this file with the same content.
    Unchanged(Box<Existing>),
}

impl Store {
    /// Returns the partial files of `owner`.
    pub(crate) fn unfinished(&self, owner: &Owner) -> Vec<Found> {
        if !self.options.keep_unfinished {
            return Vec::new();
        }
        let now = SystemTime::now();
        let found = self.partials.list_beside(self.active.list(owner, now), Some(owner), now);
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "unfinished files cannot be found, and are sent again");
            Vec::new()
        })
    }

    /// Returns the partial files that a sender may resume.
    pub(crate) fn resumable(&self, unfinished: Vec<Found>) -> Vec<Partial> {
        let free = unfinished.into_iter();
        let free = free.filter(|found| found.is_free && found.offset > 0 && self.may_store(&found.file.name));
        free.map(|Found { file, offset, .. }| {
            let UnfinishedFile { name, len, mtime_s, mtime_ns, .. } = file;
            Partial { offset, len, mtime_s, mtime_ns, name }
        })
        .collect()
    }

    /// Returns true if a file of this name may be stored, because the name is free or its file may be replaced. If
    /// false, a partial file is of no use.
    fn may_store(&self, name: &[u8]) -> bool {
        let replace = &self.options.replace;
        let is_free = |name: RelativeName| !self.has(&name) || replace.permits(name.path());
        replace.is_always() || RelativeName::parse(name).map_or(true, is_free)
    }

    /// Returns true if the name exists and the options may permit replacing it.
    pub(crate) fn would_replace(&self, name: &RelativeName) -> bool {
        self.options.replace.is_possible() && self.has(name)
    }

    fn has(&self, name: &RelativeName) -> bool {
        self.parent(name).is_ok_and(|(directory, last)| directory.status(last).is_ok())
    }

    /// Returns true if senders may offer files: in an empty output directory there is nothing to compare.
    pub(crate) fn takes_offers(&self) -> bool {
        self.root.names().is_ok_and(|mut names| names.any(|name| name.is_ok_and(|name| !is_temporary(&name))))
    }

    /// Returns true if every sender may learn about existing files; if false, only the sender that stored a file.
    pub(crate) fn tells_of_all(&self) -> bool {
        self.options.allow_update
    }

    /// Begins a file as [`Store::begin`] does, for the identified sender `owner`. It resumes the file now, or may do so
    /// later.
    ///
    /// # Errors
    /// Fails if the file could not be stored even if all its content arrived.
    pub(crate) fn begin_of(
        &self,
        owner: &Owner,
        name: &RelativeName,
        entry: &Entry,
        beginning: Beginning,
        changed: &mut Changed,
    ) -> Result<(Arc<Slot>, Option<Resumed>), Failure> {
        let begun_bytes = if let Beginning::At(offset) = beginning { offset } else { 0 };
        let (place, destination) = self.check(name, entry.size_hint_bytes.saturating_sub(begun_bytes), changed)?;
        let id = Id::of(owner, name.as_bytes());
        if let Some(earlier) = self.active.take_over(&id)
            && beginning != Beginning::New
        {
            earlier.leave();
        }
        let shape = entry.len.and_then(Shape::of).filter(|_| self.options.keep_unfinished);
        let (staged, resumed) = match (beginning, shape) {
            (Beginning::At(offset), Some(shape)) => {
                let (file, temporary, keep, resumed) = self.reopen(id, owner, name, entry, (shape, offset), &place)?;
                let tree = TreeHasher::new(shape, offset);
                (Staged::kept(file, temporary, destination, keep, tree), Some(resumed))
            }
            (Beginning::At(_), None) => return Err(not_there()),
            (Beginning::New, Some(shape)) => {
                let before = self.partials.claim(owner, &id, entry.size_hint_bytes)?;
                match Temporary::create_kept(&place, &id) {
                    Ok((file, temporary)) => {
                        let identity = identity(owner, name, entry, shape);
                        let keep = Keep::new(Arc::clone(&self.partials), id, identity, entry.size_hint_bytes);
                        (Staged::kept(file, temporary, destination, keep, TreeHasher::new(shape, 0)), None)
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a file cannot be gone on with if it breaks off");
                        self.partials.disclaim(&id, before);
                        (self.unkept(&place, destination)?, None)
                    }
                }
            }
            (Beginning::New, None) => (self.unkept(&place, destination)?, None),
        };
        let mut staged = staged;
        staged.sender = Some(owner.clone());
        Ok((self.active.register(staged), resumed))
    }

    /// Begins a file as [`Store::begin`] does, for a sender that has no key by which it could be recognised again.
    ///
    /// # Errors
    /// Fails as [`Store::begin`] does. Also fails if the sender wants to resume the file.
    pub(crate) fn begin_once(
        &self,
        name: &RelativeName,
        entry: &Entry,
        beginning: Beginning,
        changed: &mut Changed,
    ) -> Result<Arc<Slot>, Failure> {
        if beginning != Beginning::New {
            return Err(not_there());
        }
        Ok(self.active.register(self.begin(name, entry.size_hint_bytes, changed)?))
    }

    fn unkept(&self, place: &Arc<super::Place>, destination: &std::ffi::OsStr) -> Result<Staged, Failure> {
        Staged::new(place, destination).map_err(|error| Failure::from_io("create the file", &error))
    }

    fn reopen(
        &self,
        id: Id,
        owner: &Owner,
        name: &RelativeName,
        entry: &Entry,
        (shape, offset): (Shape, u64),
        place: &Arc<super::Place>,
    ) -> Result<(std::fs::File, Temporary, Keep, Resumed), Failure> {
        let failed = |error| Failure::from_io("open the unfinished file", &error);
        let opened = self.partials.open(&id, place).map_err(failed)?.ok_or_else(not_there)?;
        let identity = identity(owner, name, entry, shape);
        if opened.identity != identity || offset > opened.offset || shape.floor(offset) != offset || offset == 0 {
            return Err(not_there());
        }
        let claimed_bytes = entry.size_hint_bytes.max(offset);
        let before = self.partials.claim(owner, &id, claimed_bytes)?;
        // Cut off content beyond the resumed offset: zeros written over it could not become holes.
        let truncated = opened.file.set_len(offset);
        match truncated.and_then(|()| place.directory().file(Path::new(&id.file_name()))) {
            Ok(file) => {
                let temporary = Temporary::adopt(place, id.file_name());
                let resumed = Resumed { shape, offset, spans: opened.spans, file };
                let keep = Keep::resumed(Arc::clone(&self.partials), id, identity, offset, claimed_bytes);
                Ok((opened.file, temporary, keep, resumed))
            }
            Err(error) => {
                self.partials.disclaim(&id, before);
                Err(failed(error))
            }
        }
    }

    /// Decides about a file that `owner` offers or, in a dry run, asks about. Stores nothing. For a foreign file, the
    /// answer depends on the name alone.
    ///
    /// # Errors
    /// Fails if the file could not be stored.
    pub(crate) fn offered(
        &self,
        owner: &Owner,
        name: &RelativeName,
        entry: &Entry,
        (hash, asks_only): (Option<&[u8; HASH_BYTES]>, bool),
        readings: &mut Readings,
        changed: &mut Changed,
    ) -> Result<Offered, Failure> {
        let Some(existing) = self.regular(name, changed).filter(|existing| self.is_known(existing, Some(owner))) else {
            return match self.check(name, 0, changed) {
                Err(failure) if failure.code == FailureCode::Exists => Err(failure),
                // Other failures are ignored, because the file's directory may still arrive.
                _ => Ok(Offered::Wanted),
            };
        };
        let existing = existing.for_entry(Some(owner), entry);
        let len = entry.len.unwrap_or_default();
        let failed = |error| Failure::from_io("read the file that exists", &error);
        let is_same = match hash {
            _ if existing.len() != len => false,
            Some(hash) => match readings.hash(existing.file(), existing.key()).map_err(failed)? {
                Some(found) => found == *hash,
                None => return Ok(Offered::Wanted),
            },
            None => existing.has_mtime(entry).map_err(failed)?,
        };
        // Equal files need no permission to replace.
        let replace = &self.options.replace;
        let replaces = if is_same { replace.is_always() } else { replace.permits(name.path()) };
        match (is_same, replaces) {
            (true, false) => Ok(Offered::Unchanged(Box::new(existing))),
            (true, true) if asks_only || self.has_metadata_of(&existing, entry)? => {
                readings.renew(existing.file(), existing.key()).map_err(failed)?;
                Ok(Offered::Unchanged(Box::new(existing)))
            }
            (_, true) => Ok(Offered::Replaces(Box::new(existing))),
            // A file of equal length with another time may turn out to be equal once received.
            (false, false) if hash.is_none() && existing.len() == len => Ok(Offered::Wanted),
            (false, false) => Err(Failure::new(FailureCode::Exists, EXISTS)),
        }
    }
}

fn identity(owner: &Owner, name: &RelativeName, entry: &Entry, shape: Shape) -> UnfinishedFile {
    UnfinishedFile {
        owner: owner.clone(),
        name: name.as_bytes().to_vec(),
        len: shape.file_bytes(),
        mtime_s: entry.mtime_s,
        mtime_ns: entry.mtime_ns,
    }
}

fn not_there() -> Failure {
    Failure::new(FailureCode::FileSystem, "the receiver does not have its beginning any more: send it again")
}
