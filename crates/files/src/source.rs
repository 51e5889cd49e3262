//! Sender's access to its file trees. One thread searches them, another opens and numbers files, and one thread per
//! stream reads, hashes and encodes.

mod beside;
mod delta;
mod encoder;
mod job;
mod jobs;
mod links;
mod listings;
mod producer;
mod reading;
mod resume;
mod root;
mod search;
mod steady;
mod tree;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::{Entry, HAS_MORE_NAMES};
use dfcp_framing::printable_path;
use tokio::sync::{Semaphore, mpsc};

pub(super) use self::beside::{Known, Opener};
use self::jobs::Jobs;
pub(super) use self::producer::{Deletion, produce};
use self::reading::ReadingFiles;
pub use self::root::{Root, RootError, STANDARD_STREAM};
use super::beneath::{Kind, Status};
use super::{EntryKind, EntryOutcome, Observer, Report, Skipped, basis};
use crate::limits::{FILE_STREAMS_MAX, UNANSWERED_MAX};

/// State shared by the sender's threads and the connection's tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Content of the files found so far, bytes, excluding content that need not be sent.
    pub total_bytes: AtomicU64,
    /// True once the search is over.
    pub total_is_final: AtomicBool,
    /// Time spent reading and hashing for each stream, µs.
    disk_us: [AtomicU64; FILE_STREAMS_MAX as usize + 1],
    /// Counts of the session so far.
    pub report: Mutex<Report>,
    /// Permits for entries that have no verdict yet.
    unanswered: Semaphore,
    /// Files that are being read.
    reading: ReadingFiles,
    /// Files that wait to be read.
    jobs: Jobs,
}

impl Shared {
    /// Creates the state of a new session.
    pub(crate) fn new() -> Self {
        Self {
            total_bytes: AtomicU64::new(0),
            total_is_final: AtomicBool::new(false),
            disk_us: std::array::from_fn(|_| AtomicU64::new(0)),
            report: Mutex::default(),
            unanswered: Semaphore::new(UNANSWERED_MAX),
            reading: ReadingFiles::default(),
            jobs: Jobs::default(),
        }
    }

    /// Records that the receiver rejects the rest of the entry with this ordinal.
    pub(crate) fn refuse(&self, index: u32) {
        self.reading.refuse(index);
    }

    /// Records that the receiver wants an offered file; `known` contains the chunks of its older version. Returns true
    /// if the file was offered.
    pub(super) fn want(&self, index: u32, known: Option<basis::Known>) -> bool {
        self.jobs.want(index, known)
    }

    /// Returns true if the file with this ordinal was offered and not answered yet.
    pub(super) fn is_offered(&self, index: u32) -> bool {
        self.jobs.is_offered(index)
    }

    /// Records that the receiver does not want an offered file. Returns the file's length and hash if it was offered.
    pub(super) fn answer_offer(&self, index: u32) -> Option<(u64, Option<blake3::Hash>)> {
        self.jobs.answer(index)
    }

    /// Records the receiver's comparison of a partial file's beginning. Returns true if that file is being read.
    ///
    /// # Errors
    /// Fails if the comparison is inconsistent.
    pub(super) fn checked(&self, index: u32, end: u64, differ: &[u64]) -> Result<bool, ProtocolError> {
        self.reading.checked(index, end, differ)
    }

    /// Reduces the total by content that need not be sent.
    pub(super) fn spare(&self, bytes: u64) {
        self.total_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Releases the permit of an entry that has its verdict.
    pub(crate) fn answered(&self) {
        self.unanswered.add_permits(1);
    }

    #[cfg(test)]
    pub(super) fn take_place(&self) {
        self.unanswered.try_acquire().expect("there is room").forget();
    }

    /// Ends the session for all threads: verdicts are no longer read.
    pub(crate) fn close(&self) {
        self.unanswered.close();
        self.reading.close();
        self.jobs.close();
    }

    /// Adds an entry's outcome to the report.
    pub(crate) fn count(&self, outcome: &EntryOutcome) {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
    }

    /// Returns the longest busy time of any stream's thread. The maximum is meaningful because the threads run in
    /// parallel.
    pub(crate) fn disk_time(&self) -> Duration {
        let longest_us = self.disk_us.iter().map(|spent| spent.load(Ordering::Relaxed)).max();
        Duration::from_micros(longest_us.unwrap_or_default())
    }

    fn spent(&self, stream: usize, time: Duration) {
        let spent_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.disk_us[stream].fetch_add(spent_us, Ordering::Relaxed);
    }

    fn found(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}

/// Progress of an entry at the reading threads. Each event is sent before the frames that it concerns.
#[derive(Debug)]
pub(crate) enum Event {
    /// The entry is about to be sent.
    Entry {
        /// Ordinal of the entry.
        index: u32,
        /// Name of the entry, for messages.
        name: String,
        /// Kind of the entry.
        kind: EntryKind,
    },
    /// The file was sent in full.
    Sent {
        /// Ordinal of the file.
        index: u32,
        /// Length as sent, bytes.
        bytes: u64,
        /// Bytes that the receiver copies from its older version.
        copied_bytes: u64,
        /// Bytes that the receiver already had from an earlier session.
        resumed_bytes: u64,
        /// BLAKE3 hash of the whole content.
        hash: blake3::Hash,
        /// True if the file has grown beyond the sent content.
        has_grown: bool,
    },
    /// All entries have been started.
    AllBegun,
    /// The file could not be sent completely.
    GaveUp {
        /// Ordinal of the file.
        index: u32,
        /// Reason, as a sentence.
        sentence: String,
    },
}

/// Complete frames for the connection.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Encoded frames.
    pub bytes: Vec<u8>,
    /// True if the last frame is within a file whose next data may take long.
    pub is_live: bool,
}

/// Receiving end of the chunks of one stream.
#[derive(Debug)]
pub(super) struct Feed {
    /// Chunks to be written to the stream.
    pub chunks: mpsc::Receiver<Chunk>,
    /// Channel that returns the buffers of written chunks.
    pub spare: std::sync::mpsc::Sender<Vec<u8>>,
}

/// Error that means that the session has ended. The cause is reported elsewhere.
struct Stopped;

fn fail(shared: &Shared, observer: &dyn Observer, path: &Path, sentence: String) {
    let name = printable_path(path);
    let outcome = EntryOutcome { name, failure: Some(sentence), ..EntryOutcome::default() };
    shared.count(&outcome);
    observer.entry(&outcome);
}

fn skip(shared: &Shared, observer: &dyn Observer, path: &Path, what: Skipped) {
    shared.report.lock().unwrap_or_else(PoisonError::into_inner).skip(what);
    observer.skipped(&printable_path(path), what);
}

/// Returns the entry with the current metadata of its file.
fn entry_of(entry: &Entry, status: &Status) -> Entry {
    let is_directory = status.kind == Kind::Directory;
    Entry {
        mode: (entry.mode & HAS_MORE_NAMES) | (status.mode & 0o777),
        mtime_s: status.mtime_s,
        mtime_ns: status.mtime_ns,
        // Holes take no space at the receiver, so the space needed is at most the allocated bytes.
        size_hint_bytes: if is_directory { 0 } else { status.len.min(status.allocated_bytes) },
        // Generated files, such as those in `/proc`, report a length of 0, so their length is unknown.
        len: Some(status.len).filter(|len| !is_directory && *len > 0),
        ..entry.clone()
    }
}

#[cfg(test)]
mod changing_tests;
#[cfg(test)]
mod tests;
