//! The sender's file trees: found by one thread, opened and numbered by another, and read, hashed and encoded for each stream by one of its
//! own.

mod beside;
mod encoder;
mod root;
mod search;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dfcp_framing::frame::{Entry, ToReceiver, kind};
use dfcp_framing::names::RelativeName;
use dfcp_framing::printable_path;
use tokio::sync::{Semaphore, TryAcquireError, mpsc};

use self::beside::Beside;
pub(super) use self::beside::Opener;
use self::encoder::{Content, Encoder, Job};
pub use self::root::{Root, RootError, STANDARD_STREAM};
use self::search::{Finder, Found, Place};
use super::beneath::{Directory, Identity, Kind, Status, is_link, open_named, status_of};
use super::{EntryOutcome, Observer, Report};
use crate::limits::{
    CHUNKS_WAITING_MAX, DIRECTORIES_WAIT, FILE_STREAMS_MAX, FIRST_STREAM_BYTES_MAX, UNANSWERED_MAX, WALK_AHEAD_MAX,
};

/// What the threads and the connection's tasks know in common.
#[derive(Debug)]
pub struct Shared {
    /// Content of the files found so far, bytes.
    pub total_bytes: AtomicU64,
    /// Whether the search is over.
    pub total_is_final: AtomicBool,
    /// Time spent reading and hashing for each stream, µs.
    disk_us: [AtomicU64; FILE_STREAMS_MAX as usize + 1],
    /// What has happened so far.
    pub report: Mutex<Report>,
    /// Entries that may be begun before others are answered.
    unanswered: Semaphore,
    /// Files that are being read, one for each stream at most, and whether the receiver does not want the rest.
    refused: Mutex<BTreeMap<u32, bool>>,
}

impl Shared {
    /// Nothing happened yet.
    pub fn new() -> Self {
        Self {
            total_bytes: AtomicU64::new(0),
            total_is_final: AtomicBool::new(false),
            disk_us: std::array::from_fn(|_| AtomicU64::new(0)),
            report: Mutex::default(),
            unanswered: Semaphore::new(UNANSWERED_MAX),
            refused: Mutex::default(),
        }
    }

    /// The receiver does not want the rest of this entry.
    pub fn refuse(&self, index: u32) {
        if let Some(refused) = self.reading().get_mut(&index) {
            *refused = true;
        }
    }

    /// An entry has its verdict, so that another one may be begun.
    pub fn answered(&self) {
        self.unanswered.add_permits(1);
    }

    #[cfg(test)]
    pub(super) fn take_place(&self) {
        self.unanswered.try_acquire().expect("there is room").forget();
    }

    /// Nobody hears verdicts any more.
    pub fn close(&self) {
        self.unanswered.close();
    }

    /// Counts one entry's end.
    pub fn count(&self, outcome: &EntryOutcome) {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).add(outcome);
    }

    /// How long the disk has kept the stream busy which it has kept busy longest: streams wait for it at the same time.
    pub fn disk_time(&self) -> Duration {
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

    fn begin(&self, index: u32) {
        self.reading().insert(index, false);
    }

    fn is_refused(&self, index: u32) -> bool {
        self.reading().get(&index).copied().unwrap_or_default()
    }

    fn end(&self, index: u32) {
        self.reading().remove(&index);
    }

    fn reading(&self) -> MutexGuard<'_, BTreeMap<u32, bool>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self::new()
    }
}

/// What the reading threads did, for each entry in order; each precedes its frames on the way.
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

/// Where the chunks of one stream come from.
#[derive(Debug)]
pub(super) struct Feed {
    /// The chunks.
    pub chunks: mpsc::Receiver<Chunk>,
    /// Takes their memory back.
    pub spare: std::sync::mpsc::Sender<Vec<u8>>,
}

/// The other side went away; what it has to say about that counts, not this.
struct Stopped;

/// Everything below `roots`, to be found and sent by [`Producer::run`], with what goes over the first stream and the means to send over
/// others.
pub(super) fn produce(
    roots: Vec<Root>,
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
) -> (Producer, Feed, Opener) {
    let (first, feed) = Encoder::new(0, CHUNKS_WAITING_MAX, events.clone(), Arc::clone(&shared));
    let (beside, opener) = beside::pair(events, Arc::clone(&shared));
    let producer = Producer {
        roots,
        first,
        first_bytes: 0,
        beside,
        shared,
        observer,
        entries: 0,
        directories: 0,
        waits_since: None,
        tree: Tree::default(),
    };
    (producer, feed, opener)
}

/// The tree that is being read: its directory on the command line, held open. There is one at a time, however many were
/// found ahead.
#[derive(Default)]
struct Tree {
    path: PathBuf,
    directory: Option<Directory>,
}

/// Goes through what was found.
pub(super) struct Producer {
    roots: Vec<Root>,
    first: Encoder,
    /// Content on the first stream.
    first_bytes: u64,
    beside: Beside,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
    entries: u32,
    directories: u32,
    /// How long directories have been encoded and not sent.
    waits_since: Option<Instant>,
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
    /// Finds and sends everything, then the end frame. Returns when done or when nobody listens.
    pub(super) fn run(mut self) {
        let (found_in, found) = sync_channel(WALK_AHEAD_MAX);
        let finder = Finder { found: found_in, shared: Arc::clone(&self.shared), observer: Arc::clone(&self.observer) };
        let roots = std::mem::take(&mut self.roots);
        let finding = std::thread::Builder::new().name("find files".to_owned()).spawn(move || finder.run(&roots));
        if let Err(error) = finding {
            tracing::error!(%error, "cannot start a thread");
            return; // The connection closes without an end frame, which the receiver reports.
        }
        // `Stopped` needs no handling: see there.
        let _ = self.send(&found);
    }

    fn send(&mut self, found: &Receiver<Found>) -> Result<(), Stopped> {
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
                Found::Directory { name, status } => self.directory(&name, &status)?,
                Found::File { place, identity, name } => self.file(&place, identity, &name)?,
                Found::StandardInput { name } => self.standard_input(&name)?,
            }
        }
        self.shared.total_is_final.store(true, Ordering::Relaxed);
        let streams = self.beside.count_at_end()?;
        ToReceiver::End { entries: self.entries, streams }.encode(&mut self.first.chunk.bytes);
        self.flush()
    }

    fn directory(&mut self, name: &RelativeName, status: &Status) -> Result<(), Stopped> {
        let entry = Entry { index: self.start(name, true)?, directories: self.directories, ..entry(name, status) };
        self.directories += 1;
        entry.encode(kind::DIRECTORY, &mut self.first.chunk.bytes);
        self.waits_since.get_or_insert_with(Instant::now);
        self.first.flush_if_full()
    }

    fn file(&mut self, place: &Place, identity: Identity, name: &RelativeName) -> Result<(), Stopped> {
        let started = Instant::now();
        let opened = self.tree.open_file(place, identity);
        self.first.spent(started);
        let (file, status) = match opened {
            Ok(opened) => opened,
            Err(sentence) => {
                fail(&self.shared, &*self.observer, &self.tree.path_of(place), sentence);
                return Ok(());
            }
        };
        let entry = Entry { index: self.start(name, false)?, directories: self.directories, ..entry(name, &status) };
        let is_for_first = match self.beside.count() {
            Some(count) => count == 0,
            None => self.first_bytes.saturating_add(status.len) <= FIRST_STREAM_BYTES_MAX || self.is_alone()?,
        };
        let job = Job { entry, content: Content::File(file, status.len) };
        if is_for_first {
            self.first_bytes = self.first_bytes.saturating_add(status.len);
            return self.first.file(job);
        }
        self.hand_on(job)
    }

    fn standard_input(&mut self, name: &RelativeName) -> Result<(), Stopped> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry {
            index: self.start(name, false)?,
            directories: self.directories,
            mode: 0o644,
            mtime_s: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            mtime_ns: now.subsec_nanos(),
            size_hint_bytes: 0,
            name: name.as_bytes().to_vec(),
        };
        let job = Job { entry, content: Content::StandardInput };
        if self.is_alone()? { self.first.file(job) } else { self.hand_on(job) }
    }

    /// Waits until the number of the other streams is known; whether there are none.
    fn is_alone(&mut self) -> Result<bool, Stopped> {
        self.flush()?;
        Ok(self.beside.wait()? == 0)
    }

    /// Leaves a file to the stream that is free next.
    fn hand_on(&mut self, job: Job) -> Result<(), Stopped> {
        if self.waits_since.is_some_and(|since| since.elapsed() >= DIRECTORIES_WAIT) {
            self.flush()?;
        }
        let Some(job) = self.beside.try_hand_on(job)? else { return Ok(()) };
        // All are busy, perhaps for long.
        self.flush()?;
        self.beside.hand_on(job)
    }

    fn start(&mut self, name: &RelativeName, is_directory: bool) -> Result<u32, Stopped> {
        let index = self.entries;
        self.entries = index.checked_add(1).ok_or(Stopped)?;
        self.await_answers()?;
        self.first.event(Event::Entry { index, name: name.to_string(), is_directory })?;
        Ok(index)
    }

    /// Waits while as many entries as may be are without a verdict.
    fn await_answers(&mut self) -> Result<(), Stopped> {
        let permit = match self.shared.unanswered.try_acquire() {
            Ok(permit) => permit,
            Err(TryAcquireError::Closed) => return Err(Stopped),
            Err(TryAcquireError::NoPermits) => {
                // Verdicts come only for what has been sent.
                self.waits_since = None;
                self.first.flush()?;
                let next = self.shared.unanswered.acquire();
                tokio::runtime::Handle::current().block_on(next).map_err(|_| Stopped)?
            }
        };
        permit.forget();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        self.waits_since = None;
        self.first.flush()
    }
}

fn fail(shared: &Shared, observer: &dyn Observer, path: &Path, sentence: String) {
    let name = printable_path(path);
    let outcome = EntryOutcome { name, failure: Some(sentence), ..EntryOutcome::default() };
    shared.count(&outcome);
    observer.entry(&outcome);
}

/// Without its place among the others.
fn entry(name: &RelativeName, status: &Status) -> Entry {
    Entry {
        index: 0,
        directories: 0,
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
