//! The sender's file trees: found by one thread, read, hashed and encoded by another.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, UNIX_EPOCH};

use tokio::sync::mpsc;
use walkdir::WalkDir;

use super::frame::{Entry, HEADER_BYTES, ToReceiver, kind, with_header};
use super::names::RelativeName;
use super::{EntryOutcome, Observer, Report};
use crate::limits::{DATA_BYTES_MAX, WALK_AHEAD_MAX};
use crate::output::printable;

/// Shortest read, bytes: what is left of a small file, and the end of any file, are found with one call.
const READ_BYTES_MIN: usize = 4096;

/// Encoded bytes after which a chunk goes to the connection.
const CHUNK_BYTES: usize = DATA_BYTES_MAX;

/// A file or directory named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
    name: OsString,
}

/// Why an argument cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// Missing or not readable.
    #[error("cannot send {}: {error}; check the path", printable(path))]
    Missing {
        /// As given.
        path: String,
        /// Of the system.
        error: io::Error,
    },
    /// Neither file nor directory, or a root without a name.
    #[error("cannot send {}: it is neither a file nor a directory with a name", printable(.0))]
    Kind(String),
    /// Two arguments would be stored under one name.
    #[error("two of the files would both be stored as {}; send them one by one", printable(.0))]
    Twice(String),
}

impl Root {
    /// Checks the arguments of the command line, before anything is sent.
    ///
    /// # Errors
    /// The first that cannot be sent.
    pub fn from_arguments(paths: &[PathBuf]) -> Result<Vec<Self>, RootError> {
        let mut roots: Vec<Self> = Vec::with_capacity(paths.len());
        for path in paths {
            let shown = || path.to_string_lossy().into_owned();
            let missing = |error| RootError::Missing { path: shown(), error };
            let metadata = path.metadata().map_err(missing)?;
            let name = match path.file_name() {
                Some(name) => name.to_owned(),
                // `.`, `..` and their like have a name only once they are resolved.
                None => {
                    let resolved = path.canonicalize().map_err(missing)?;
                    resolved.file_name().ok_or_else(|| RootError::Kind(shown()))?.to_owned()
                }
            };
            if !metadata.is_file() && !metadata.is_dir() {
                return Err(RootError::Kind(shown()));
            }
            if roots.iter().any(|root| root.name == name) {
                return Err(RootError::Twice(name.to_string_lossy().into_owned()));
            }
            roots.push(Self { path: path.clone(), name });
        }
        Ok(roots)
    }
}

/// What the threads and the connection's tasks know in common.
#[derive(Debug)]
pub struct Shared {
    /// Content of the files found so far, bytes.
    pub total_bytes: AtomicU64,
    /// Whether the search is over.
    pub total_is_final: AtomicBool,
    /// Time spent reading and hashing, µs.
    pub disk_us: AtomicU64,
    /// What has happened so far.
    pub report: Mutex<Report>,
    /// The highest entry that the receiver refused, or −1. Entries are read in order, so it is the current one or past.
    refused: AtomicI64,
}

impl Shared {
    /// Nothing happened yet.
    pub fn new() -> Self {
        Self {
            total_bytes: AtomicU64::new(0),
            total_is_final: AtomicBool::new(false),
            disk_us: AtomicU64::new(0),
            report: Mutex::default(),
            refused: AtomicI64::new(-1),
        }
    }

    /// The receiver does not want the rest of this entry.
    pub fn refuse(&self, index: u32) {
        self.refused.fetch_max(i64::from(index), Ordering::Relaxed);
    }

    /// Counts one entry's end.
    pub fn count(&self, outcome: &EntryOutcome) {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
    }

    fn is_refused(&self, index: u32) -> bool {
        self.refused.load(Ordering::Relaxed) == i64::from(index)
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}

/// What the reading thread did, in order; each precedes its frames on the way.
#[derive(Debug)]
pub enum Event {
    /// The entry's first frame was encoded.
    Entry {
        /// Its ordinal.
        index: u32,
        /// For messages.
        name: String,
        /// Or a file.
        is_directory: bool,
    },
    /// The file was sent in full.
    Sent {
        /// Its ordinal.
        index: u32,
        /// Its size as sent.
        bytes: u64,
        /// BLAKE3 of what was sent.
        hash: blake3::Hash,
    },
    /// The file was given up.
    GaveUp {
        /// Its ordinal.
        index: u32,
        /// Why.
        sentence: String,
    },
}

/// Something found in a tree.
enum Found {
    Directory { name: RelativeName, metadata: Metadata },
    File { path: PathBuf, name: RelativeName },
}

/// The other side went away; what it has to say about that counts, not this.
struct Stopped;

/// Finds, reads and encodes everything below `roots`, then the end frame. Returns when done or when nobody listens.
pub fn produce(
    roots: Vec<Root>,
    chunks: mpsc::Sender<Vec<u8>>,
    spare: Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
) {
    let (found_in, found_out) = sync_channel(WALK_AHEAD_MAX);
    let finder = Finder { found: found_in, shared: Arc::clone(&shared), observer: Arc::clone(&observer) };
    let finding = std::thread::Builder::new().name("find files".to_owned()).spawn(move || finder.run(roots));
    if let Err(error) = finding {
        tracing::error!(%error, "cannot start a thread");
        return; // The connection closes without an end frame, which the receiver reports.
    }
    let mut producer = Producer { chunks, spare, events, shared, observer, chunk: Vec::new(), entries: 0 };
    // `Stopped` needs no handling: see there.
    let _ = producer.run(&found_out);
}

struct Finder {
    found: SyncSender<Found>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
}

impl Finder {
    fn run(self, roots: Vec<Root>) {
        for root in roots {
            // Sorted, so that two runs over the same tree send the same bytes.
            for step in WalkDir::new(&root.path).follow_links(false).sort_by_file_name() {
                let sent = match step {
                    Ok(step) => self.step(&root, &step),
                    Err(error) => {
                        let path = error.path().unwrap_or(&root.path).to_path_buf();
                        let reason = error.io_error().map_or_else(|| error.to_string(), ToString::to_string);
                        fail(&self.shared, &*self.observer, &path, format!("it cannot be read: {reason}"));
                        Ok(())
                    }
                };
                if sent.is_err() {
                    return;
                }
            }
        }
        self.shared.total_is_final.store(true, Ordering::Relaxed);
    }

    fn step(&self, root: &Root, step: &walkdir::DirEntry) -> Result<(), Stopped> {
        let path = step.path();
        let inside = path.strip_prefix(&root.path).unwrap_or_else(|_| Path::new(""));
        let components = std::iter::once(root.name.as_os_str()).chain(inside.iter());
        let name = match RelativeName::from_components(components) {
            Ok(name) => name,
            Err(error) => {
                fail(&self.shared, &*self.observer, path, format!("it cannot be sent: {error}"));
                return Ok(());
            }
        };
        // A link on the command line is followed, as by `cp`; one inside a directory is not.
        let metadata = if step.depth() == 0 { path.metadata() } else { path.symlink_metadata() };
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => {
                fail(&self.shared, &*self.observer, path, format!("it cannot be read: {error}"));
                return Ok(());
            }
        };
        if metadata.is_dir() {
            self.found.send(Found::Directory { name, metadata }).map_err(|_| Stopped)
        } else if metadata.is_file() {
            self.shared.total_bytes.fetch_add(metadata.len(), Ordering::Relaxed);
            self.found.send(Found::File { path: path.to_path_buf(), name }).map_err(|_| Stopped)
        } else {
            let reason = if metadata.is_symlink() { "symbolic links are not followed" } else { "not a regular file" };
            self.shared.report.lock().unwrap_or_else(PoisonError::into_inner).skipped += 1;
            self.observer.skipped(&printable(&path.to_string_lossy()), reason);
            Ok(())
        }
    }
}

struct Producer {
    chunks: mpsc::Sender<Vec<u8>>,
    spare: Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
    chunk: Vec<u8>,
    entries: u32,
}

impl Producer {
    fn run(&mut self, found: &Receiver<Found>) -> Result<(), Stopped> {
        loop {
            let next = match found.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    // The search is slower than the path: what is ready should not wait for it.
                    self.flush()?;
                    let Ok(next) = found.recv() else { break };
                    next
                }
            };
            match next {
                Found::Directory { name, metadata } => {
                    let entry = entry(&name, &metadata);
                    self.start(&name, true)?;
                    entry.encode(kind::DIRECTORY, &mut self.chunk);
                    self.flush_if_full()?;
                }
                Found::File { path, name } => self.file(&path, &name)?,
            }
        }
        ToReceiver::End { entries: self.entries }.encode(&mut self.chunk);
        self.flush()
    }

    fn file(&mut self, path: &Path, name: &RelativeName) -> Result<(), Stopped> {
        let started = Instant::now();
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        self.spent(started);
        let (mut file, metadata) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                fail(&self.shared, &*self.observer, path, format!("it cannot be opened: {error}"));
                return Ok(());
            }
        };
        let index = self.start(name, false)?;
        entry(name, &metadata).encode(kind::FILE, &mut self.chunk);
        let mut hasher = blake3::Hasher::new();
        let mut len = 0_u64;
        let read_bytes = usize::try_from(metadata.len().saturating_add(1)).unwrap_or(DATA_BYTES_MAX);
        let read_bytes = read_bytes.clamp(READ_BYTES_MIN, DATA_BYTES_MAX);
        loop {
            if self.shared.is_refused(index) {
                return self.give_up(index, "the receiver does not take it".to_owned());
            }
            let started = Instant::now();
            let outcome = read_data_frame(&mut file, read_bytes, &mut self.chunk, &mut hasher);
            self.spent(started);
            match outcome {
                Ok(0) => break,
                Ok(read) => len += read as u64,
                Err(error) => return self.give_up(index, format!("it cannot be read: {error}")),
            }
            self.flush_if_full()?;
        }
        let hash = hasher.finalize();
        self.event(Event::Sent { index, bytes: len, hash })?;
        ToReceiver::FileEnd { len, hash: *hash.as_bytes() }.encode(&mut self.chunk);
        self.flush_if_full()
    }

    fn give_up(&mut self, index: u32, sentence: String) -> Result<(), Stopped> {
        self.event(Event::GaveUp { index, sentence: sentence.clone() })?;
        ToReceiver::FileAbort(sentence).encode(&mut self.chunk);
        self.flush_if_full()
    }

    fn start(&mut self, name: &RelativeName, is_directory: bool) -> Result<u32, Stopped> {
        let index = self.entries;
        self.entries = index.checked_add(1).ok_or(Stopped)?;
        self.event(Event::Entry { index, name: name.to_string(), is_directory })?;
        Ok(index)
    }

    fn flush_if_full(&mut self) -> Result<(), Stopped> {
        if self.chunk.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn event(&mut self, event: Event) -> Result<(), Stopped> {
        match self.events.try_send(event) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Stopped),
            Err(mpsc::error::TrySendError::Full(event)) => {
                // Room comes from verdicts, and those only once the receiver has all that was encoded.
                self.flush()?;
                self.events.blocking_send(event).map_err(|_| Stopped)
            }
        }
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let mut next = self.spare.try_recv().unwrap_or_default();
        next.clear();
        self.chunks.blocking_send(std::mem::replace(&mut self.chunk, next)).map_err(|_| Stopped)
    }

    fn spent(&self, since: Instant) {
        let spent_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.shared.disk_us.fetch_add(spent_us, Ordering::Relaxed);
    }
}

/// Appends one data frame of at most `read_bytes` from `file`; returns how many, 0 (and no frame) at its end.
fn read_data_frame(
    file: &mut File,
    read_bytes: usize,
    chunk: &mut Vec<u8>,
    hasher: &mut blake3::Hasher,
) -> io::Result<usize> {
    let start = chunk.len();
    let mut outcome = Ok(0);
    with_header(kind::DATA, chunk, |chunk| {
        let body = chunk.len();
        chunk.resize(body + read_bytes, 0);
        outcome = loop {
            match file.read(&mut chunk[body..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        chunk.truncate(body + outcome.as_ref().map_or(0, |read| *read));
    });
    if !matches!(outcome, Ok(1..)) {
        chunk.truncate(start);
        return outcome;
    }
    hasher.update(&chunk[start + HEADER_BYTES..]);
    outcome
}

fn fail(shared: &Shared, observer: &dyn Observer, path: &Path, sentence: String) {
    let name = printable(&path.to_string_lossy());
    let outcome = EntryOutcome { name, is_directory: false, bytes: 0, hash: None, failure: Some(sentence) };
    shared.count(&outcome);
    observer.entry(&outcome);
}

fn entry(name: &RelativeName, metadata: &Metadata) -> Entry {
    let (mtime_s, mtime_ns) = mtime(metadata);
    let size_hint_bytes = if metadata.is_dir() { 0 } else { metadata.len() };
    Entry { mode: mode(metadata), mtime_s, mtime_ns, size_hint_bytes, name: name.as_str().as_bytes().to_vec() }
}

/// Seconds and nanoseconds since 1970, the latter counting forwards before it too; 1970 where the system keeps none.
fn mtime(metadata: &Metadata) -> (i64, u32) {
    let Ok(modified) = metadata.modified() else { return (0, 0) };
    match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => (-seconds, 0),
                nanos => (-seconds - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o777
}

/// Elsewhere only "read-only" is known.
#[cfg(not(unix))]
fn mode(metadata: &Metadata) -> u32 {
    let execute = if metadata.is_dir() { 0o111 } else { 0 };
    execute | if metadata.permissions().readonly() { 0o444 } else { 0o644 }
}
