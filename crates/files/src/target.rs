//! Destination of received files: a directory, or a stream such as standard output for one file.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::{Entry, HASH_BYTES, Partial};
use dfcp_framing::names::RelativeName;

use super::owner::Owner;
use super::store::{
    Beginning, Changed, Completed, Existing, Found, Made, Offered, Over, Readings, Resumed, Slot, Staged, Store,
    Unpublished, mismatch,
};

/// Destination of the files of a session.
#[derive(Debug, Clone)]
pub enum Target {
    /// Files are stored below an output directory.
    Directory(Arc<Store>),
    /// A single file is written to a stream.
    Stream(Arc<OneFile>),
}

/// Output stream for a single file of a single sender.
pub struct OneFile {
    /// Output stream; `None` once a file has taken it.
    writer: Mutex<Option<Box<dyn Write + Send>>>,
    bytes_max: Option<u64>,
}

/// File being written to the stream. Bytes already written cannot be taken back.
pub(crate) struct Writing {
    writer: Box<dyn Write + Send>,
    hasher: blake3::Hasher,
}

impl From<Arc<Store>> for Target {
    fn from(store: Arc<Store>) -> Self {
        Self::Directory(store)
    }
}

impl Target {
    /// Returns a target for a single file of at most `bytes_max` bytes.
    pub fn stream(writer: impl Write + Send + 'static, bytes_max: Option<u64>) -> Self {
        Self::Stream(Arc::new(OneFile { writer: Mutex::new(Some(Box::new(writer))), bytes_max }))
    }

    /// Returns the limit on the content that one session may store, bytes.
    pub fn session_bytes_max(&self) -> Option<u64> {
        match self {
            Self::Directory(store) => store.session_bytes_max(),
            Self::Stream(one) => one.bytes_max,
        }
    }

    pub(super) fn make_directory(
        &self,
        name: &RelativeName,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Result<Made, Failure> {
        self.store()?.make_directory(name, entry, changed)
    }

    /// Starts or resumes a file; see [`Store::begin_of`] and [`Store::begin_once`].
    pub(super) fn begin(
        &self,
        owner: Option<&Owner>,
        name: &RelativeName,
        entry: &Entry,
        beginning: Beginning,
        changed: &mut Changed,
    ) -> Result<(Arc<Slot>, Option<Resumed>), Failure> {
        let store = self.store()?;
        match owner {
            Some(owner) => store.begin_of(owner, name, entry, beginning, changed),
            None => Ok((store.begin_once(name, entry, beginning, changed)?, None)),
        }
    }

    pub(super) fn offered(
        &self,
        owner: &Owner,
        name: &RelativeName,
        entry: &Entry,
        how: (Option<&[u8; HASH_BYTES]>, bool),
        readings: &mut Readings,
        changed: &mut Changed,
    ) -> Result<Offered, Failure> {
        self.store()?.offered(owner, name, entry, how, readings, changed)
    }

    /// Returns the partial files of `owner`.
    pub(super) fn unfinished(&self, owner: &Owner) -> Vec<Found> {
        self.store().map_or_else(|_| Vec::new(), |store| store.unfinished(owner))
    }

    /// Returns the partial files that the sender may resume.
    pub(super) fn resumable(&self, unfinished: Vec<Found>) -> Vec<Partial> {
        self.store().map_or_else(|_| Vec::new(), |store| store.resumable(unfinished))
    }

    /// Returns true if the name exists and the options may permit replacing it.
    pub(super) fn would_replace(&self, name: &RelativeName) -> bool {
        self.store().is_ok_and(|store| store.would_replace(name))
    }

    /// Returns true if the options permit any deletion.
    pub(super) fn deletes(&self) -> bool {
        self.store().is_ok_and(Store::deletes)
    }

    pub(super) fn keeps_links(&self) -> bool {
        self.store().is_ok_and(Store::keeps_links)
    }

    pub(super) fn takes_offers(&self) -> bool {
        self.store().is_ok_and(Store::takes_offers)
    }

    pub(super) fn flush_names(&self, changed: &mut Changed) -> io::Result<()> {
        self.store().map_or(Ok(()), |store| store.flush_names(changed))
    }

    pub(super) fn existing(
        &self,
        owner: Option<&Owner>,
        name: &RelativeName,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Option<Existing> {
        self.store().ok()?.existing(owner, name, entry, changed)
    }

    pub(super) fn finish(
        &self,
        staged: Staged,
        what: (&RelativeName, &Entry),
        content: (u64, &[u8; HASH_BYTES]),
        over: &Over,
    ) -> Result<Completed, Failure> {
        self.store()?.finish(staged, what, content, over)
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.store().is_ok_and(Store::is_crowded)
    }

    pub(super) fn publish(
        &self,
        batch: Vec<Unpublished>,
        changed: &mut Changed,
    ) -> io::Result<Vec<Result<(), Failure>>> {
        self.store().map_or_else(|_| Ok(Vec::new()), |store| store.publish(batch, changed))
    }

    /// Returns the store of the output directory; fails for a stream.
    pub(super) fn store(&self) -> Result<&Store, Failure> {
        match self {
            Self::Directory(store) => Ok(store),
            Self::Stream(_) => Err(one_only()),
        }
    }
}

impl OneFile {
    /// Starts the file `name`.
    ///
    /// # Errors
    /// Fails if the stream was already used, or if the file lies in a directory.
    pub(super) fn begin(&self, name: &RelativeName) -> Result<Writing, Failure> {
        if name.components().count() > 1 {
            return Err(one_only());
        }
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(one_only)?;
        Ok(Writing { writer, hasher: blake3::Hasher::new() })
    }
}

impl Writing {
    /// Appends `data`.
    ///
    /// # Errors
    /// Fails if the data cannot be written.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.hasher.update(data);
        self.writer.write_all(data).map_err(|error| Failure::from_io("write to its standard output", &error))
    }

    /// Verifies length and hash of the written content.
    ///
    /// # Errors
    /// Fails if the written content differs from the sent content, or if writing fails.
    pub(super) fn finish(mut self, len: u64, hash: &[u8; HASH_BYTES]) -> Result<(), Failure> {
        self.writer.flush().map_err(|error| Failure::from_io("write to its standard output", &error))?;
        let received = self.hasher.count();
        if received == len && self.hasher.finalize() == *hash { Ok(()) } else { Err(mismatch(received, len)) }
    }
}

fn one_only() -> Failure {
    let sentence = "the receiver writes one file to its standard output: send one file, and no directory";
    Failure::new(FailureCode::Name, sentence)
}

impl fmt::Debug for OneFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneFile").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writing").field("bytes", &self.hasher.count()).finish_non_exhaustive()
    }
}
