//! A file under a temporary name.

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

/// Of files that have no name of their own yet.
const UNFINISHED_MODE: u32 = 0o600;

/// A file being received. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(super) file: File,
    pub(super) temporary: Temporary,
    /// Its last component.
    pub(super) destination: OsString,
    /// The sender, if it can be known again.
    pub(super) sender: Option<Owner>,
    /// BLAKE3 of its content, once that has turned out to be what was sent.
    pub(super) verified: Option<blake3::Hash>,
    /// True if it may get further names in this session.
    pub(super) is_linkable: bool,
    /// Present if another session can resume it.
    pub(super) keep: Option<Keep>,
    content: Content,
    len: u64,
    /// The file's own position: behind the bytes that were written last.
    written_bytes: u64,
    /// The file system has refused to take more.
    has_failed: bool,
}

/// Hasher of the content.
#[derive(Debug)]
enum Content {
    /// One that comes as a whole.
    Plain(Box<blake3::Hasher>),
    /// One that may be resumed.
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

    /// One that can be resumed, with the bytes in front of `tree`'s position in `file` already.
    pub(super) fn kept(file: File, temporary: Temporary, destination: &OsStr, keep: Keep, tree: TreeHasher) -> Self {
        let len = tree.position();
        let content = Content::Tree(Box::new(tree));
        Self { keep: Some(keep), content, len, ..Self::of(file, temporary, destination) }
    }

    /// Appends `data`. A hole is left in place of whole blocks of zeros.
    ///
    /// # Errors
    /// Why it could not be written.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        if let Some(keep) = &mut self.keep {
            keep.grow(self.len + data.len() as u64)?;
        }
        // First, so that what is not on the disk counts nowhere.
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

    /// True if the file system has refused to take more of it, as a full disk does.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// True if the file system has taken content that did not reach the disk. It tells that once only.
    pub(super) fn has_lost(&self) -> bool {
        self.keep.as_ref().is_some_and(Keep::has_lost)
    }

    /// Writes `data` in place of what is at `position`. Not a part of its hash until [`Staged::insert`].
    ///
    /// # Errors
    /// Why it could not be written.
    pub(crate) fn write_again(&mut self, position: u64, data: &[u8]) -> Result<(), Failure> {
        let written = self.write_at(position, data);
        self.check(written)
    }

    /// A part of what was there before has this chaining value.
    pub(crate) fn insert(&mut self, part: Part, value: crate::hash_tree::ChainingValue) {
        if let Content::Tree(tree) = &mut self.content {
            tree.tree().insert(part, value);
        }
    }

    /// Its tree hasher, if it can be resumed.
    pub(crate) fn tree(&self) -> Option<&TreeHasher> {
        match &self.content {
            Content::Plain(_) => None,
            Content::Tree(tree) => Some(tree),
        }
    }

    /// Writes the parts of `data`, whose place is `start`, that are not pieces of zeros. A piece ends where a block does, so
    /// one that is cut by the borders of `data` counts by what is in it.
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

    /// Gives the file its length, in which a hole at its end is not contained yet.
    pub(super) fn finish_length(&self) -> io::Result<()> {
        if self.written_bytes == self.len { Ok(()) } else { self.file.set_len(self.len) }
    }

    /// BLAKE3 of all bytes, after [`Staged::finish_length`]. None if the parts do not make up the file.
    ///
    /// # Errors
    /// Those of the file system: a file that has turned out longer or shorter than its sender said is read again.
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

    /// Record to be written down about it; none if it cannot be resumed, or nothing is new.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn checkpoint(&mut self) -> io::Result<Option<Checkpoint>> {
        let (Some(keep), Content::Tree(tree)) = (&mut self.keep, &mut self.content) else { return Ok(None) };
        let offset = tree.shape().floor(tree.position());
        if self.written_bytes < offset {
            // A hole at its end, which is shorter than what the journal would say.
            self.file.set_len(self.len)?;
        }
        keep.checkpoint(&self.file, self.temporary.place(), tree.tree(), offset)
    }

    /// As [`Staged::checkpoint`], of a file that the file system takes no more of. A full disk has no room for a journal either, so the last
    /// leaf makes way for it.
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

    /// Leaves it for another session to resume, if it can be.
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

    /// Leaves it for another session, as far as its journal says already. It may have its mode, which may forbid its owner to go on.
    pub(super) fn leave_as_written_down(mut self) {
        let len = self.len;
        if self.keep.as_mut().is_some_and(|keep| keep.keep(len)) {
            if let Err(error) = set_mode(&self.file, UNFINISHED_MODE) {
                tracing::warn!(%error, "an unfinished file keeps its mode");
            }
            // A record on its way to the journal has the same description of the file, and would keep it locked.
            if let Err(error) = self.file.unlock() {
                tracing::debug!(%error, "an unfinished file stays locked for a while");
            }
            self.temporary.leave();
        }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// The name of an unfinished file, and the directory in which it is. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Temporary {
    place: Arc<Place>,
    name: OsString,
    /// The file is not ours any more: it has its name, or another session has resumed it.
    is_settled: bool,
}

impl Temporary {
    /// Makes a file with `mode` in the directory `place`, which stays open until the file has its name. As long as the file is open it
    /// is locked, so that other receivers know that it is not abandoned.
    pub(super) fn create(place: &Arc<Place>, mode: u32) -> io::Result<(File, Self)> {
        let (file, temporary) = Self::make(place, |directory, name| directory.create_file(name, mode))?;
        if let Err(error) = file.try_lock() {
            // Some file systems know no locks. Nothing is removed there for being abandoned, either.
            tracing::debug!(%error, "an unfinished file is not locked");
        }
        Ok((file, temporary))
    }

    /// Makes something in the directory `place` under a name that is free.
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

    /// As [`Temporary::create`], for a file that can be resumed. The part that an earlier session has left is given up.
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

    /// Of a file that is there.
    pub(super) fn adopt(place: &Arc<Place>, name: OsString) -> Self {
        Self { place: Arc::clone(place), name, is_settled: false }
    }

    pub(super) fn place(&self) -> &Arc<Place> {
        &self.place
    }

    /// The temporary name.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Gives the file its name, if it is the one with this identity: another one may have got the temporary name, by somebody who may write to
    /// the directory, and would be confirmed in its place.
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
