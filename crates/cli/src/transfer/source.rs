//! The sender's file trees: found by one thread, read, hashed and encoded by another.

mod root;
mod search;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;

pub use self::root::{Root, RootError, STANDARD_STREAM};
use self::search::{Finder, Found, Place};
use super::beneath::{Directory, Identity, Kind, Status, is_link, open_named, status_of};
use super::frame::{Entry, HEADER_BYTES, ToReceiver, kind, with_header};
use super::names::RelativeName;
use super::{EntryOutcome, Observer, Report};
use crate::limits::{DATA_BYTES_MAX, WALK_AHEAD_MAX};
use crate::output::printable_path;

/// Shortest read, bytes: what is left of a small file, and the end of any file, are found with one call.
const READ_BYTES_MIN: usize = 4096;

/// Longest read from standard input, bytes: what a pipe of Linux holds.
const INPUT_READ_BYTES: usize = 64 * 1024;

/// Encoded bytes after which a chunk goes to the connection.
const CHUNK_BYTES: usize = DATA_BYTES_MAX;

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

/// Told of a file that was one when the search found it.
const BECAME_LINK: &str = "a symbolic link has its place, or that of one of its directories, and links are not followed: \
                           send it again";

/// Whole frames for the connection.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The frames.
    pub bytes: Vec<u8>,
    /// Whether they end inside a file of which more may take long to come.
    pub is_live: bool,
}

/// The other side went away; what it has to say about that counts, not this.
struct Stopped;

/// Finds, reads and encodes everything below `roots`, then the end frame. Returns when done or when nobody listens.
pub fn produce(
    roots: Vec<Root>,
    chunks: mpsc::Sender<Chunk>,
    spare: Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
) {
    let (found_in, found_out) = sync_channel(WALK_AHEAD_MAX);
    let finder = Finder { found: found_in, shared: Arc::clone(&shared), observer: Arc::clone(&observer) };
    let finding = std::thread::Builder::new().name("find files".to_owned()).spawn(move || finder.run(&roots));
    if let Err(error) = finding {
        tracing::error!(%error, "cannot start a thread");
        return; // The connection closes without an end frame, which the receiver reports.
    }
    let mut producer = Producer {
        chunks,
        spare,
        events,
        shared,
        observer,
        chunk: Chunk::default(),
        entries: 0,
        tree: Tree::default(),
    };
    // `Stopped` needs no handling: see there.
    let _ = producer.run(&found_out);
}

/// The tree that is being read: its directory on the command line, held open. There is one at a time, however many were
/// found ahead.
#[derive(Default)]
struct Tree {
    path: PathBuf,
    directory: Option<Directory>,
}

struct Producer {
    chunks: mpsc::Sender<Chunk>,
    spare: Receiver<Vec<u8>>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
    chunk: Chunk,
    entries: u32,
    tree: Tree,
}

impl Tree {
    /// Opens what was searched. If something else has its path by now, there is no directory to read from.
    fn open(root: Root, identity: Identity) -> Self {
        let opened =
            Directory::open(&root.path, root.resolution).and_then(|directory| Ok((directory.own_status()?, directory)));
        let directory = opened.ok().and_then(|(status, directory)| (status.identity == identity).then_some(directory));
        Self { path: root.path, directory }
    }

    /// Opens the file which the search found, or says in a sentence why it cannot be sent.
    fn open_file(&self, place: &Place, identity: Identity) -> Result<(File, Status), String> {
        let opened = match place {
            Place::Named(path) => open_named(path),
            Place::Below(path) => {
                let Some(directory) = &self.directory else {
                    let root = printable_path(&self.path);
                    return Err(format!("{root} is no longer the directory that was searched: send it again"));
                };
                directory.file(path)
            }
        };
        let (status, file) = opened.and_then(|file| Ok((status_of(&file)?, file))).map_err(|error| {
            if is_link(&error) { BECAME_LINK.to_owned() } else { format!("it cannot be opened: {error}") }
        })?;
        if status.kind != Kind::File {
            return Err("it is no regular file any more: send it again".to_owned());
        }
        if status.identity != identity {
            return Err("another file has its name now: send it again".to_owned());
        }
        Ok((file, status))
    }

    fn path_of(&self, place: &Place) -> PathBuf {
        match place {
            Place::Named(path) => path.clone(),
            Place::Below(path) => self.path.join(path),
        }
    }
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
                Found::Root { root, identity } => self.tree = Tree::open(root, identity),
                Found::Directory { name, status } => {
                    let entry = entry(&name, &status);
                    self.start(&name, true)?;
                    entry.encode(kind::DIRECTORY, &mut self.chunk.bytes);
                    self.flush_if_full()?;
                }
                Found::File { place, identity, name } => self.file(&place, identity, &name)?,
                Found::StandardInput { name } => self.standard_input(&name)?,
            }
        }
        self.shared.total_is_final.store(true, Ordering::Relaxed);
        ToReceiver::End { entries: self.entries }.encode(&mut self.chunk.bytes);
        self.flush()
    }

    fn file(&mut self, place: &Place, identity: Identity, name: &RelativeName) -> Result<(), Stopped> {
        let started = Instant::now();
        let opened = self.tree.open_file(place, identity);
        self.spent(started);
        let (mut file, status) = match opened {
            Ok(opened) => opened,
            Err(sentence) => {
                fail(&self.shared, &*self.observer, &self.tree.path_of(place), sentence);
                return Ok(());
            }
        };
        let index = self.start(name, false)?;
        entry(name, &status).encode(kind::FILE, &mut self.chunk.bytes);
        let read_bytes = usize::try_from(status.len.saturating_add(1)).unwrap_or(DATA_BYTES_MAX);
        let read_bytes = read_bytes.clamp(READ_BYTES_MIN, DATA_BYTES_MAX);
        self.content(index, &mut file, read_bytes, false)
    }

    /// Standard input, to its end. Its length is not known before, so what is read counts as found.
    fn standard_input(&mut self, name: &RelativeName) -> Result<(), Stopped> {
        let index = self.start(name, false)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry {
            mode: 0o644,
            mtime_s: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            mtime_ns: now.subsec_nanos(),
            size_hint_bytes: 0,
            name: name.as_bytes().to_vec(),
        };
        entry.encode(kind::FILE, &mut self.chunk.bytes);
        // The first bytes may take long to come.
        self.chunk.is_live = true;
        self.flush()?;
        self.content(index, &mut io::stdin().lock(), INPUT_READ_BYTES, true)
    }

    /// What is read from `input`. From one that is `live` more may take long to come, so nothing waits for it.
    fn content(&mut self, index: u32, input: &mut impl Read, read_bytes: usize, is_live: bool) -> Result<(), Stopped> {
        let mut hasher = blake3::Hasher::new();
        let mut len = 0_u64;
        loop {
            if self.shared.is_refused(index) {
                return self.give_up(index, "the receiver does not take it".to_owned());
            }
            let started = Instant::now();
            let outcome = read_data_frame(input, read_bytes, &mut self.chunk.bytes, &mut hasher);
            if !is_live {
                self.spent(started);
            }
            match outcome {
                Ok(0) => break,
                Ok(read) if is_live => {
                    len += read as u64;
                    self.shared.total_bytes.fetch_add(read as u64, Ordering::Relaxed);
                    self.flush()?;
                }
                Ok(read) => len += read as u64,
                Err(error) => return self.give_up(index, format!("it cannot be read: {error}")),
            }
            self.flush_if_full()?;
        }
        self.chunk.is_live = false;
        let hash = hasher.finalize();
        self.event(Event::Sent { index, bytes: len, hash })?;
        ToReceiver::FileEnd { len, hash: *hash.as_bytes() }.encode(&mut self.chunk.bytes);
        self.flush_if_full()
    }

    fn give_up(&mut self, index: u32, sentence: String) -> Result<(), Stopped> {
        self.chunk.is_live = false;
        self.event(Event::GaveUp { index, sentence: sentence.clone() })?;
        ToReceiver::FileAbort(sentence).encode(&mut self.chunk.bytes);
        self.flush_if_full()
    }

    fn start(&mut self, name: &RelativeName, is_directory: bool) -> Result<u32, Stopped> {
        let index = self.entries;
        self.entries = index.checked_add(1).ok_or(Stopped)?;
        self.event(Event::Entry { index, name: name.to_string(), is_directory })?;
        Ok(index)
    }

    fn flush_if_full(&mut self) -> Result<(), Stopped> {
        if self.chunk.bytes.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
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
        if self.chunk.bytes.is_empty() {
            return Ok(());
        }
        let mut next = self.spare.try_recv().unwrap_or_default();
        next.clear();
        let next = Chunk { bytes: next, is_live: self.chunk.is_live };
        self.chunks.blocking_send(std::mem::replace(&mut self.chunk, next)).map_err(|_| Stopped)
    }

    fn spent(&self, since: Instant) {
        let spent_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.shared.disk_us.fetch_add(spent_us, Ordering::Relaxed);
    }
}

/// Appends one data frame of at most `read_bytes` from `input`; returns how many, 0 (and no frame) at its end.
fn read_data_frame(
    input: &mut impl Read,
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
            match input.read(&mut chunk[body..]) {
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
    let name = printable_path(path);
    let outcome = EntryOutcome { name, failure: Some(sentence), ..EntryOutcome::default() };
    shared.count(&outcome);
    observer.entry(&outcome);
}

fn entry(name: &RelativeName, status: &Status) -> Entry {
    Entry {
        mode: status.mode & 0o777,
        mtime_s: status.mtime_s,
        mtime_ns: status.mtime_ns,
        // What a receiver needs room for: holes take none.
        size_hint_bytes: if status.kind == Kind::Directory { 0 } else { status.len.min(status.allocated_bytes) },
        name: name.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests;
