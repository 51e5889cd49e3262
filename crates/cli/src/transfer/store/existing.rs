//! A file that has the name of one that comes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use dfcp_framing::files::{Entry, HASH_BYTES};
use dfcp_framing::names::RelativeName;

use super::Store;
use super::changed::{Changed, Place};
use crate::transfer::beneath::{Kind, status_of};

/// A regular file of the receiver, open for reading.
#[derive(Debug)]
pub struct Existing {
    pub(super) file: File,
    pub(super) place: Arc<Place>,
    len: u64,
    /// So that the store knows how many there are, of all sessions.
    _counted: Arc<()>,
}

impl Store {
    /// The regular file `name`, if one is there which may turn out to be the same as one that takes at least
    /// `announced_bytes`, and which is not to be replaced anyway.
    pub fn existing(&self, name: &RelativeName, announced_bytes: u64, changed: &mut Changed) -> Option<Existing> {
        if self.options.replace {
            return None;
        }
        self.regular(name, changed).filter(|existing| existing.len >= announced_bytes)
    }

    /// The regular file `name`, if one is there.
    pub(super) fn regular(&self, name: &RelativeName, changed: &mut Changed) -> Option<Existing> {
        let (place, last) = self.place(name, changed).ok()?;
        let directory = place.directory();
        // Opening anything else could wait, or do something to a device.
        if directory.status(last).ok()?.kind != Kind::File {
            return None;
        }
        let file = directory.file(Path::new(last)).ok()?;
        let status = status_of(&file).ok()?;
        let counted = Arc::clone(&self.held);
        (status.kind == Kind::File).then(|| Existing { file, place, len: status.len, _counted: counted })
    }
}

impl Existing {
    /// To read it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes of content.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no content.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether its content is as old as that of the entry.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn has_mtime(&self, entry: &Entry) -> io::Result<bool> {
        let status = status_of(&self.file)?;
        Ok((status.mtime_s, status.mtime_ns) == (entry.mtime_s, entry.mtime_ns))
    }

    /// Whether it has this length and BLAKE3 hash, if all bytes of the other were `received`. Else it is not read: a few
    /// bytes of a sender would cost the reading of the longest file here, as often as it likes. The answer comes only from the
    /// whole: a sender that was told of the first difference could find out the content of a file byte by byte.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn is_identical(&self, received: u64, len: u64, hash: &[u8; HASH_BYTES]) -> io::Result<bool> {
        if self.len != len || received != len {
            return Ok(false);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader((&self.file).take(len))?;
        Ok(hasher.count() == len && hasher.finalize() == *hash && status_of(&self.file)?.len == len)
    }
}
