//! Producer, which decides for each found file whether it is offered or sent, from which offset, and on which stream.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dfcp_framing::files::{Delete, Entry, HAS_MORE_NAMES, Link, ToReceiver};
use dfcp_framing::frame::kind;
use dfcp_framing::limits::LINKS_MAX;
use dfcp_framing::names::RelativeName;
use tokio::sync::{TryAcquireError, mpsc, oneshot};

use super::beside::{self, Beside, Known, Opener};
use super::encoder::Encoder;
use super::job::{Content, Job, Resumed};
use super::links::{FirstNames, FoundLink, Waiting};
use super::listings::{Lister, which};
use super::root::Root;
use super::search::{Finder, Found, Place};
use super::steady::{CHANGED, Reading, SENDINGS_MAX, Stamp, Worth};
use super::tree::Tree;
use super::{Event, Feed, Shared, Stopped, entry_of, fail, skip};
use crate::beneath::{Identity, Status, status_of};
use crate::hash_tree::Shape;
use crate::known_directories::KnownDirectories;
use crate::limits::{CHUNKS_WAITING_MAX, DIRECTORIES_WAIT, WALK_AHEAD_MAX};
use crate::skipped::SKIPPED_BEYOND;
use crate::{EntryKind, EntryOutcome, Observer, SendOptions, Skipped};

/// State of a requested deletion.
#[derive(Debug)]
pub(crate) struct Deletion {
    /// Directories that were sent.
    pub(crate) known: KnownDirectories,
    /// Receives true once the receiver has stored everything without a failure, and false if nothing may be deleted.
    pub(crate) is_allowed: oneshot::Receiver<bool>,
}

/// Prepares to find and send everything below `roots`; [`Producer::run`] does the work. Also returns the receiving end
/// of the first stream's chunks, and the opener of additional streams. Until the receiver's first frame arrives, the
/// first stream carries at most `first_bytes_max` bytes of content.
pub(crate) fn produce(
    roots: Vec<Root>,
    options: SendOptions,
    (first_bytes_max, deletion): (u64, Option<Deletion>),
    events: mpsc::Sender<Event>,
    shared: Arc<Shared>,
    observer: Arc<dyn Observer>,
) -> (Producer, Feed, Opener) {
    let (first, feed) = Encoder::new(0, CHUNKS_WAITING_MAX, events.clone(), Arc::clone(&shared));
    let (beside, opener) = beside::pair(events, Arc::clone(&shared));
    let producer = Producer {
        roots,
        options,
        deletion,
        first,
        first_bytes: 0,
        first_bytes_max,
        beside,
        shared,
        observer,
        entries: 0,
        directories: 0,
        waits_since: None,
        tree: Tree::default(),
        links: Waiting::default(),
    };
    (producer, feed, opener)
}

/// Turns the results of the search into entries and frames.
pub(crate) struct Producer {
    roots: Vec<Root>,
    pub(super) options: SendOptions,
    deletion: Option<Deletion>,
    pub(super) first: Encoder,
    /// Content sent on the first stream, bytes.
    first_bytes: u64,
    /// Limit on `first_bytes` until the receiver's first frame arrives.
    first_bytes_max: u64,
    beside: Beside,
    pub(super) shared: Arc<Shared>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) entries: u32,
    directories: u32,
    /// Time since which the oldest encoded frame has been held back; `None` if there is none.
    waits_since: Option<Instant>,
    tree: Tree,
    pub(super) links: Waiting,
}

impl Producer {
    /// Finds and sends everything, then the end frame, links and listings. Returns when that is done or the session
    /// ends.
    pub(crate) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let is_sent = self.run_to_end().is_ok();
        // The other streams end after their files, and must not wait for links.
        shared.jobs.complete();
        if is_sent {
            // The cause of `Stopped` is reported elsewhere.
            let _ = self.send_links().and_then(|()| self.list());
        }
    }

    fn run_to_end(&mut self) -> Result<(), Stopped> {
        let (found_in, found) = sync_channel(WALK_AHEAD_MAX);
        let finder = Finder {
            found: found_in,
            shared: Arc::clone(&self.shared),
            observer: Arc::clone(&self.observer),
            options: self.options.clone(),
            first_names: FirstNames::default(),
        };
        let roots = self.roots.clone();
        let finding = std::thread::Builder::new().name("find files".to_owned()).spawn(move || finder.run(&roots));
        if let Err(error) = finding {
            tracing::error!(%error, "cannot start a thread");
            return Err(Stopped); // The connection closes without an end frame, which the receiver reports.
        }
        self.send(&found)
    }

    /// Lists the sent directories, unless something failed.
    fn list(&mut self) -> Result<(), Stopped> {
        self.first.event(Event::AllBegun)?;
        let Some(Deletion { mut known, is_allowed }) = self.deletion.take() else { return Ok(()) };
        if !is_allowed.blocking_recv().map_err(|_| Stopped)? {
            return Ok(());
        }
        if known.is_beyond() {
            let mut report = self.shared.report.lock().unwrap_or_else(PoisonError::into_inner);
            report.deletion_skipped = Some(SKIPPED_BEYOND);
            return Ok(());
        }
        let (shared, observer) = (Arc::clone(&self.shared), Arc::clone(&self.observer));
        let first = &mut self.first;
        Lister { options: &self.options, known: &mut known, first, shared, observer }.run(&self.roots)
    }

    fn send(&mut self, found: &Receiver<Found>) -> Result<(), Stopped> {
        if self.options.delete || self.options.links {
            // Await the abilities: if deletion or links are unsupported, the session ends here, before anything is
            // sent.
            self.known()?;
        }
        if self.options.delete {
            for delete in Delete::split(self.options.dry_run, &self.options.exclude.texts()) {
                ToReceiver::Delete(delete).encode(&mut self.first.chunk.bytes);
            }
        }
        loop {
            let next = match found.try_recv() {
                Ok(next) => next,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    // The search is slower than the path, so send the frames that are ready.
                    self.flush()?;
                    let Ok(next) = found.recv() else { break };
                    next
                }
            };
            match next {
                Found::Root { root, identity } => self.tree = Tree::open(root, identity),
                Found::Directory { name, status } => self.directory(&name, &status)?,
                Found::File { place, identity, name, has_more_names } => {
                    self.file(place, identity, &name, has_more_names)?;
                }
                Found::Link(link) => self.found_link(link),
                Found::StandardInput { name } => self.standard_input(&name)?,
            }
        }
        self.shared.total_is_final.store(true, Ordering::Relaxed);
        let streams = self.beside.count_at_end()?;
        self.announce_links();
        ToReceiver::End { entries: self.entries, streams }.encode(&mut self.first.chunk.bytes);
        self.flush()
    }

    fn directory(&mut self, name: &RelativeName, status: &Status) -> Result<(), Stopped> {
        // With --delete, a dry run includes directories: one that cannot be created prevents deletion.
        if self.options.dry_run && !self.options.delete {
            return Ok(());
        }
        if let Some(deletion) = &mut self.deletion {
            let [name, which] = which(name, status.identity);
            deletion.known.add(&[&name, &which]);
        }
        let entry = self.start(entry_of(&new_entry(name), status), name, EntryKind::Directory)?;
        self.directories += 1;
        entry.encode(kind::DIRECTORY, &mut self.first.chunk.bytes);
        self.waits_since.get_or_insert_with(Instant::now);
        self.first.flush_if_full()
    }

    fn file(
        &mut self,
        place: Place,
        identity: Identity,
        name: &RelativeName,
        has_more_names: bool,
    ) -> Result<(), Stopped> {
        let started = Instant::now();
        let opened = self.tree.open_file(&place, identity);
        self.first.spent(started);
        let (file, status) = match opened {
            Ok(opened) => opened,
            Err(sentence) => {
                fail(&self.shared, &*self.observer, &self.tree.path_of(&place), sentence);
                return Ok(());
            }
        };
        let mode = if has_more_names { HAS_MORE_NAMES } else { 0 };
        let entry = entry_of(&Entry { mode, ..new_entry(name) }, &status);
        if self.options.dry_run {
            return self.ask(entry, name, place, identity);
        }
        let is_for_first = self.first_bytes.saturating_add(status.len) <= self.first_bytes_max;
        if is_for_first && self.beside.known().is_none() {
            // Sending without waiting for the receiver saves a round trip.
            return self.send_first(entry, name, file, status);
        }
        let is_resuming = self.options.resume;
        let known = self.known()?;
        let (streams, takes_offers) = (known.streams, known.takes_offers);
        let offset = if is_resuming { known.beginning_of(&entry) } else { None };
        let resumed =
            offset.zip(entry.len.and_then(Shape::of)).filter(|(offset, shape)| shape.floor(*offset) == *offset);
        if let Some((offset, shape)) = resumed.filter(|(offset, _)| *offset > 0) {
            // Open the file a second time, because each handle has a file position of its own.
            if let Ok((beginning, _)) = self.tree.open_file(&place, identity) {
                let entry = self.start(entry, name, EntryKind::File)?;
                self.shared.spare(offset);
                let resumed = Box::new(Resumed { beginning, rest: file, status, shape, offset });
                let job = Job { entry, content: Content::Resumed(resumed), hash: None, older: None };
                return if streams == 0 { self.first.file(job) } else { self.hand_on(job) };
            }
        }
        if streams > 0 && takes_offers && entry.len.is_some() {
            drop(file);
            return self.offer(entry, name, place, identity);
        }
        if streams == 0 {
            return self.send_first(entry, name, file, status);
        }
        let entry = self.start(entry, name, EntryKind::File)?;
        self.hand_on(Job { entry, content: Content::File(file, status), hash: None, older: None })
    }

    fn send_first(&mut self, entry: Entry, name: &RelativeName, file: File, status: Status) -> Result<(), Stopped> {
        let entry = self.start(entry, name, EntryKind::File)?;
        self.first_bytes = self.first_bytes.saturating_add(status.len);
        self.first.file(Job { entry, content: Content::File(file, status), hash: None, older: None })
    }

    /// Offers the file in a dry run. If the receiver accepts no offers, the file counts as wanted.
    fn ask(&mut self, entry: Entry, name: &RelativeName, place: Place, identity: Identity) -> Result<(), Stopped> {
        if self.known()?.takes_offers && entry.len.is_some() {
            return self.offer(entry, name, place, identity);
        }
        let bytes = entry.len.unwrap_or_default();
        let outcome = EntryOutcome { name: name.to_string(), is_wanted: true, bytes, ..EntryOutcome::default() };
        self.shared.spare(bytes);
        self.shared.count(&outcome);
        self.observer.entry(&outcome);
        Ok(())
    }

    /// Offers the file to the receiver.
    fn offer(
        &mut self,
        mut entry: Entry,
        name: &RelativeName,
        place: Place,
        identity: Identity,
    ) -> Result<(), Stopped> {
        let hash = if self.options.checksum {
            let started = Instant::now();
            let hashed =
                self.tree.open_file(&place, identity).and_then(|opened| hash(opened, || self.shared.jobs.is_closed()));
            self.first.spent(started);
            match hashed {
                Ok((status, hash)) => {
                    entry = entry_of(&entry, &status);
                    Some(hash)
                }
                Err(sentence) => {
                    fail(&self.shared, &*self.observer, &self.tree.path_of(&place), sentence);
                    return Ok(());
                }
            }
        } else {
            None
        };
        let entry = self.start(entry, name, EntryKind::File)?;
        let content = Content::Offered(self.tree.found(place, identity));
        // Register the offer first: the answer may arrive as soon as the frame is sent.
        self.shared.jobs.offer(Job { entry: entry.clone(), content, hash, older: None });
        let (asks_only, takes_basis) = (self.options.dry_run, self.options.delta);
        ToReceiver::Offer { hash: hash.map(Into::into), asks_only, takes_basis, entry }
            .encode(&mut self.first.chunk.bytes);
        self.waits_since.get_or_insert_with(Instant::now);
        self.flush_if_late()?;
        self.first.flush_if_full()
    }

    fn standard_input(&mut self, name: &RelativeName) -> Result<(), Stopped> {
        if self.options.dry_run {
            let outcome = EntryOutcome { name: name.to_string(), is_wanted: true, ..EntryOutcome::default() };
            self.shared.count(&outcome);
            self.observer.entry(&outcome);
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let entry = Entry {
            mode: 0o644,
            mtime_s: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            mtime_ns: now.subsec_nanos(),
            ..new_entry(name)
        };
        let entry = self.start(entry, name, EntryKind::File)?;
        let job = Job { entry, content: Content::StandardInput, hash: None, older: None };
        if self.known()?.streams == 0 { self.first.file(job) } else { self.hand_on(job) }
    }

    /// Waits for the receiver's abilities.
    fn known(&mut self) -> Result<&Known, Stopped> {
        if self.beside.known().is_none() {
            self.flush()?;
        }
        self.beside.wait()
    }

    /// Queues a file for the next free stream.
    fn hand_on(&mut self, job: Job) -> Result<(), Stopped> {
        self.flush_if_late()?;
        let Some(job) = self.shared.jobs.try_hand_on(job)? else { return Ok(()) };
        // The queue is full, possibly for long, so send the frames that are ready.
        self.flush()?;
        self.shared.jobs.hand_on(job)
    }

    fn flush_if_late(&mut self) -> Result<(), Stopped> {
        let is_late = self.waits_since.is_some_and(|since| since.elapsed() >= DIRECTORIES_WAIT);
        if is_late { self.flush() } else { Ok(()) }
    }

    /// Assigns the next ordinal to an entry, waiting while too many entries are unanswered.
    fn start(&mut self, entry: Entry, name: &RelativeName, kind: EntryKind) -> Result<Entry, Stopped> {
        let index = self.entries;
        self.entries = index.checked_add(1).ok_or(Stopped)?;
        self.await_answers()?;
        self.first.event(Event::Entry { index, name: name.to_string(), kind })?;
        Ok(Entry { index, directories: self.directories, ..entry })
    }

    /// Waits while [`UNANSWERED_MAX`](crate::limits::UNANSWERED_MAX) entries have no verdict.
    fn await_answers(&mut self) -> Result<(), Stopped> {
        let permit = match self.shared.unanswered.try_acquire() {
            Ok(permit) => permit,
            Err(TryAcquireError::Closed) => return Err(Stopped),
            Err(TryAcquireError::NoPermits) => {
                // Verdicts arrive only for frames that have been sent, so send all.
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

    /// Keeps a link until all files have been sent.
    fn found_link(&mut self, mut link: FoundLink) {
        // The path is needed only for the message about a link beyond the limit.
        let path = std::mem::take(&mut link.path);
        if !self.links.push(link) {
            skip(&self.shared, &*self.observer, &path, Skipped::LinkBeyond);
        }
    }

    /// Announces the number of links that follow the end frame.
    fn announce_links(&mut self) {
        // Cannot fail: the number of links is limited to `LINKS_MAX`.
        let count = u32::try_from(self.links.len()).unwrap_or(LINKS_MAX);
        if count > 0 {
            ToReceiver::Links { count }.encode(&mut self.first.chunk.bytes);
        }
    }

    /// Sends the links, sorted by directory. Their ordinals follow those of all other entries.
    fn send_links(&mut self) -> Result<(), Stopped> {
        let mut links = std::mem::take(&mut self.links).into_links();
        // The receiver then opens each directory only once.
        links.sort_by(|a, b| a.name.path().parent().cmp(&b.name.path().parent()));
        for link in links {
            let FoundLink { name, kind, target, mtime: (mtime_s, mtime_ns), .. } = link;
            let index = self.entries;
            self.entries = index.checked_add(1).ok_or(Stopped)?;
            self.await_answers()?;
            self.first.event(Event::Entry { index, name: name.to_string(), kind: EntryKind::Link })?;
            let (asks_only, name) = (self.options.dry_run, name.as_bytes().to_vec());
            ToReceiver::Link(Link { index, kind, asks_only, mtime_s, mtime_ns, target, name })
                .encode(&mut self.first.chunk.bytes);
            self.first.flush_if_full()?;
        }
        self.first.flush()
    }
}

/// Returns an entry without metadata and ordinal.
fn new_entry(name: &RelativeName) -> Entry {
    Entry {
        index: 0,
        directories: 0,
        mode: 0,
        mtime_s: 0,
        mtime_ns: 0,
        size_hint_bytes: 0,
        len: None,
        name: name.as_bytes().to_vec(),
    }
}

/// Returns status and BLAKE3 hash of a consistent version of a file that was just opened. Reads again if the file
/// changes meanwhile. The error is a sentence.
fn hash((mut file, mut status): (File, Status), is_over: impl Fn() -> bool) -> Result<(Status, blake3::Hash), String> {
    let cannot_be_read = |error: io::Error| format!("it cannot be read: {error}");
    for _ in 0..SENDINGS_MAX {
        let stamp = Stamp::new(&status, SystemTime::now());
        let reading = Reading::of(&file, status.len, &is_over).map_err(cannot_be_read)?;
        let is_steady = stamp.proves(&reading, &file).map_err(cannot_be_read)?
            || reading.judge(&file, &is_over).map_err(cannot_be_read)? != Worth::Mixture;
        if is_steady {
            return Ok((status, reading.hash));
        }
        file.seek(SeekFrom::Start(0)).map_err(cannot_be_read)?;
        status = status_of(&file).map_err(cannot_be_read)?;
    }
    Err(CHANGED.to_owned())
}
