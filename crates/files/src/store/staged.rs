//! File being received under a temporary name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use dfcp_framing::error::Failure;
use dfcp_framing::names::{TEMPORARY_PREFIX, TEMPORARY_SUFFIX};

use super::changed::Place;
use super::partial::{Checkpoint, Id, Keep};
use crate::beneath::{Directory, Identity, set_mode};
use crate::hash_tree::{LEAF_BYTES, Part, TreeHasher};
use crate::limits::{HOLE_BYTES_MIN, TEMPORARY_NAMES_TRIED_MAX};
use crate::owner::Owner;

/// Mode of a file until it gets its final name.
const UNFINISHED_MODE: u32 = 0o600;

/// File being received. Dropping this value removes the file.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(super) file: File,
    pub(super) temporary: Temporary,
    /// Last component of the final name.
    pub(super) destination: OsString,
    /// Sender of the file, if it has a key by which it can be recognised again.
    pub(super) sender: Option<Owner>,
    /// BLAKE3 hash of the content, once verified.
    pub(super) verified: Option<blake3::Hash>,
    /// True if the file may get hard links in this session.
    pub(super) is_linkable: bool,
    /// State for resumption by another session; `None` if that is impossible.
    pub(super) keep: Option<Keep>,
    content: Content,
    len: u64,
    /// File position: the end of the most recent write.
    written_bytes: u64,
    /// True after the file system has refused a write.
    has_failed: bool,
}

/// Hasher of the content.
#[derive(Debug)]
enum Content {
    /// Sequential hasher, for a file that is received in order.
    Plain(Box<blake3::Hasher>),
    /// Tree hasher, for a resumable file.
    Tree(Box<TreeHasher>),
}

impl Staged {
    pub(super) fn new(place: &Arc<Place>, destination: &OsStr) -> io::Result<Self> {
        let (file, temporary) = Temporary::create(place, UNFINISHED_MODE)?;
        Ok(Self::of(file, temporary, destination))
    }

    fn of(file: File, temporary: Temporary, destination: &OsStr) -> Self {
        Self {
            file,
            temporary,
            destination: destination.to_owned(),
            sender: None,
            verified: None,
            is_linkable: false,
            keep: None,
            content: Content::Plain(Box::default()),
            len: 0,
            written_bytes: 0,
            has_failed: false,
        }
    }

    /// Returns a resumable file whose bytes before `tree`'s position are already in `file`.
    pub(super) fn kept(file: File, temporary: Temporary, destination: &OsStr, keep: Keep, tree: TreeHasher) -> Self {
        let len = tree.position();
        let content = Content::Tree(Box::new(tree));
        Self { keep: Some(keep), content, len, ..Self::of(file, temporary, destination) }
    }

    /// Appends `data`; whole blocks of zeros become holes.
    ///
    /// # Errors
    /// Fails if the data cannot be written.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        if let Some(keep) = &mut self.keep {
            keep.grow(self.len + data.len() as u64)?;
        }
        // Write before hashing, so that bytes which could not be written are never counted.
        let written = self.write_solid(self.len, data);
        self.check(written)?;
        match &mut self.content {
            Content::Plain(hasher) => {
                hasher.update(data);
            }
            Content::Tree(tree) => tree.update(data),
        }
        self.len += data.len() as u64;
        Ok(())
    }

    fn check(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        self.has_failed |= written.is_err();
        written.map_err(|error| Failure::from_io("write the file", &error))
    }

    /// Returns true if the file system has refused a write, for example because the disk is full.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns true if content accepted by the file system did not reach the disk. The system reports that only once.
    pub(super) fn has_lost(&self) -> bool {
        self.keep.as_ref().is_some_and(Keep::has_lost)
    }

    /// Overwrites the bytes at `position`. The caller adds them to the hash by [`Staged::insert`].
    ///
    /// # Errors
    /// Fails if the data cannot be written.
    pub(crate) fn write_again(&mut self, position: u64, data: &[u8]) -> Result<(), Failure> {
        let written = self.write_at(position, data);
        self.check(written)
    }

    /// Sets the chaining value of a part that is already in the file.
    pub(crate) fn insert(&mut self, part: Part, value: crate::hash_tree::ChainingValue) {
        if let Content::Tree(tree) = &mut self.content {
            tree.tree().insert(part, value);
        }
    }

    /// Returns the tree hasher of a resumable file; `None` for other files.
    pub(crate) fn tree(&self) -> Option<&TreeHasher> {
        match &self.content {
            Content::Plain(_) => None,
            Content::Tree(tree) => Some(tree),
        }
    }

    /// Writes `data` at `start`, except blocks of zeros. A block only partly inside `data` is skipped if that part is
    /// zero.
    fn write_solid(&mut self, start: u64, data: &[u8]) -> io::Result<()> {
        const ZEROS: [u8; HOLE_BYTES_MIN] = [0; HOLE_BYTES_MIN];
        let mut end = 0;
        let mut solid: Option<usize> = None;
        while end < data.len() {
            let from = end;
            let into_block = ((start + from as u64) % HOLE_BYTES_MIN as u64) as usize;
            end = data.len().min(from + HOLE_BYTES_MIN - into_block);
            let piece = &data[from..end];
            if piece != &ZEROS[..piece.len()] {
                solid.get_or_insert(from);
            } else if let Some(begin) = solid.take() {
                self.write_at(start + begin as u64, &data[begin..from])?;
            }
        }
        solid.map_or(Ok(()), |begin| self.write_at(start + begin as u64, &data[begin..]))
    }

    fn write_at(&mut self, position: u64, data: &[u8]) -> io::Result<()> {
        if position != self.written_bytes {
            self.file.seek(SeekFrom::Start(position))?;
        }
        self.file.write_all(data)?;
        self.written_bytes = position + data.len() as u64;
        Ok(())
    }

    /// Sets the file's length, since skipped zeros at the end do not extend the file.
    pub(super) fn finish_length(&self) -> io::Result<()> {
        if self.written_bytes == self.len { Ok(()) } else { self.file.set_len(self.len) }
    }

    /// Returns the BLAKE3 hash of all bytes; call [`Staged::finish_length`] before. `None` if parts are missing.
    ///
    /// # Errors
    /// Passes on errors of the file system. A file whose length differs from the announced one is read again.
    pub(super) fn hash(&mut self) -> io::Result<Option<blake3::Hash>> {
        let tree = match &self.content {
            Content::Plain(hasher) => return Ok(Some(hasher.finalize())),
            Content::Tree(tree) => tree,
        };
        if self.len == tree.shape().file_bytes() {
            return Ok(tree.root());
        }
        self.file.seek(SeekFrom::Start(0))?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader((&self.file).take(self.len))?;
        Ok((hasher.count() == self.len).then(|| hasher.finalize()))
    }

    /// Returns the journal record to be written; `None` if the file is not resumable or has no new progress.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn checkpoint(&mut self) -> io::Result<Option<Checkpoint>> {
        let (Some(keep), Content::Tree(tree)) = (&mut self.keep, &mut self.content) else { return Ok(None) };
        let offset = tree.shape().floor(tree.position());
        if self.written_bytes < offset {
            // Extend the file over skipped zeros at its end; otherwise the recorded length would exceed the file's.
            self.file.set_len(self.len)?;
        }
        keep.checkpoint(&self.file, self.temporary.place(), tree.tree(), offset)
    }

    /// Like [`Staged::checkpoint`], for a file on a full disk. Cuts off the last leaf to make room for the journal.
    fn cut_back(&mut self) -> io::Result<Option<Checkpoint>> {
        let (Some(keep), Content::Tree(tree)) = (&mut self.keep, &mut self.content) else { return Ok(None) };
        if keep.has_lost() {
            return Ok(None);
        }
        let spared = tree.shape().floor(tree.position().saturating_sub(LEAF_BYTES));
        let offset = spared.max(keep.written_down());
        self.file.set_len(offset)?;
        keep.checkpoint(&self.file, self.temporary.place(), tree.tree(), offset)
    }

    /// Leaves the file for resumption by another session, if possible.
    pub(crate) fn leave(mut self) {
        if let Some(keep) = &mut self.keep {
            keep.take_back_unwritten();
        }
        let checkpoint = if self.has_failed { self.cut_back() } else { self.checkpoint() };
        match checkpoint {
            Ok(Some(checkpoint)) => {
                if let Err(error) = checkpoint.write() {
                    tracing::warn!(%error, "it cannot be written down how far an unfinished file has come");
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "an unfinished file is left as it was last written down"),
        }
        self.leave_as_written_down();
    }

    /// Leaves the file to another session with the progress journalled so far. The file may already have its final
    /// mode, which may forbid further writes, so that mode is reset.
    pub(super) fn leave_as_written_down(mut self) {
        let len = self.len;
        if self.keep.as_mut().is_some_and(|keep| keep.keep(len)) {
            if let Err(error) = set_mode(&self.file, UNFINISHED_MODE) {
                tracing::warn!(%error, "an unfinished file keeps its mode");
            }
            // A pending record shares the open file description, and would keep the lock.
            if let Err(error) = self.file.unlock() {
                tracing::debug!(%error, "an unfinished file stays locked for a while");
            }
            self.temporary.leave();
        }
    }

    /// Length of the content received so far, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// Temporary name of a file in its directory. Dropping this value removes the file.
#[derive(Debug)]
pub(super) struct Temporary {
    place: Arc<Place>,
    name: OsString,
    /// True if the file must not be removed on drop: it has its final name, or another session may resume it.
    is_settled: bool,
}

impl Temporary {
    /// Creates a file with `mode` in the directory `place`. The directory stays open until the file has its final name.
    /// The file is locked, so that other receivers do not treat it as abandoned.
    pub(super) fn create(place: &Arc<Place>, mode: u32) -> io::Result<(File, Self)> {
        let (file, temporary) = Self::make(place, |directory, name| directory.create_file(name, mode))?;
        if let Err(error) = file.try_lock() {
            // Some file systems lack locks. Abandoned files are not removed there either.
            tracing::debug!(%error, "an unfinished file is not locked");
        }
        Ok((file, temporary))
    }

    /// Creates an entry by `make` in the directory `place` under a random free name.
    pub(super) fn make<T>(
        place: &Arc<Place>,
        make: impl Fn(&Directory, &OsStr) -> io::Result<T>,
    ) -> io::Result<(T, Self)> {
        for _ in 0..TEMPORARY_NAMES_TRIED_MAX {
            let random = getrandom::u64().map_err(io::Error::other)?;
            let name = OsString::from(format!("{TEMPORARY_PREFIX}{random:016x}{TEMPORARY_SUFFIX}"));
            match make(place.directory(), &name) {
                Ok(made) => return Ok((made, Self::adopt(place, name))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("no name for a temporary file is free"))
    }

    /// Creates a resumable file as [`Temporary::create`] does. An existing partial file is truncated.
    pub(super) fn create_kept(place: &Arc<Place>, id: &Id) -> io::Result<(File, Self)> {
        let name = id.file_name();
        let file = match place.directory().create_file(&name, UNFINISHED_MODE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = place.directory().own_unfinished(&name)?;
                file.try_lock()?;
                file.set_len(0)?;
                return Ok((file, Self::adopt(place, name)));
            }
            made => made?,
        };
        let temporary = Self::adopt(place, name);
        file.try_lock()?;
        Ok((file, temporary))
    }

    /// Returns the temporary name of an existing file.
    pub(super) fn adopt(place: &Arc<Place>, name: OsString) -> Self {
        Self { place: Arc::clone(place), name, is_settled: false }
    }

    pub(super) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// Returns the temporary name.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Gives the file its final name if its identity is still `identity`: another user of the directory may have put
    /// another file under the temporary name.
    pub(super) fn rename(&mut self, identity: Identity, destination: &OsStr, replace: bool) -> io::Result<()> {
        if self.place.directory().status(&self.name)?.identity != identity {
            return Err(io::Error::other("another file has taken its place"));
        }
        self.place.directory().rename(&self.name, destination, replace)?;
        self.is_settled = true;
        Ok(())
    }

    fn leave(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_settled
            && let Err(error) = self.place.directory().remove_file(&self.name)
        {
            tracing::debug!(%error, "an unfinished file could not be removed");
        }
    }
}

/// Verified file that only lacks its final name. Dropping this value removes the file.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(super) staged: Staged,
    /// Counts this file's descriptor in the total over all sessions.
    pub(super) _counted: Arc<()>,
}
