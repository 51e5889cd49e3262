//! Partial files that a later session can resume. Each consists of a file under a reserved name in its target
//! directory, and a journal in a common directory of the output directory.
//!
//! Both names derive from the sender's key and the file's name, so no sender can find another sender's partial files. A
//! journal's name begins with digits derived from the key alone, so the journals of one sender are found without
//! reading others. A receiver holds the file's lock while writing to the file.

mod claims;
mod journal;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use dfcp_framing::error::Failure;
use dfcp_framing::names::{RelativeName, TEMPORARY_PREFIX, TEMPORARY_SUFFIX};

use self::claims::{Claim, Claims};
pub use self::journal::UnfinishedFile;
use self::journal::{Journal, State};
use self::table::Table;
use super::changed::Place;
use crate::beneath::{Directory, Resolution, Status, status_of};
use crate::hash_tree::{ChainingValue, HashTree, Shape};
use crate::limits::{
    ABANDONED_AGE, HALF_MADE_AGE, LOCK_TRIES_MAX, LOCK_TRY_INTERVAL, PARTIALS_GIVEN_UP_TRIES_MAX, PARTIALS_MAX,
};
use crate::owner::Owner;

/// Directory of the journals, below the output directory. The file name is reserved, so senders cannot use it.
const JOURNALS: &str = ".dfcp-journals.part";
const JOURNAL_SUFFIX: &str = ".journal";
/// Hex digits of an [`Id`] derived from the sender; the remaining [`FILE_DIGITS`] derive from sender and name.
const SENDER_DIGITS: usize = 16;
const FILE_DIGITS: usize = 32;
/// All partial files of an output directory.
#[derive(Debug)]
pub struct Partials {
    root: Directory,
    sync: bool,
    claims: Claims,
    table: Table,
    /// Number of journals read so far.
    #[cfg(test)]
    visited: std::sync::atomic::AtomicU64,
}

/// Identifier of a partial file, contained in the names of file and journal: digits derived from the sender, then
/// digits derived from sender and file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(String);

/// Partial file found below the output directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Sender, name, length and modification time of the file.
    pub file: UnfinishedFile,
    /// Length of the stored part, bytes.
    pub offset: u64,
    /// Disk space of the file if it has no holes, bytes.
    pub bytes: u64,
    /// True while a receiver is writing to the file.
    pub is_active: bool,
    /// True if another session of the same sender may resume the file.
    pub is_free: bool,
    /// Time of the last change of content or metadata.
    pub changed: SystemTime,
}

/// State that makes a partial file resumable. Dropping it removes the journal, unless [`Keep::keep`] was called.
#[derive(Debug)]
pub(super) struct Keep {
    partials: Arc<Partials>,
    pub(super) id: Id,
    pub(super) file: UnfinishedFile,
    journal: Arc<Mutex<Recorder>>,
    has_lost: Arc<AtomicBool>,
    /// Number of the first part whose chaining value is not in the journal.
    next_span: usize,
    /// Length recorded in the journal or in a pending record, bytes.
    offset: u64,
    recorded: Arc<Mutex<Recorded>>,
    /// Bytes charged to the sender.
    claimed_bytes: u64,
    is_kept: bool,
}

/// Progress recorded in a file's journal.
#[derive(Clone, Copy, Debug, Default)]
struct Recorded {
    offset: u64,
    /// Number of the first part whose chaining value is not in the journal.
    next_span: usize,
}

/// State of the journal of a file that is being received.
#[derive(Debug)]
enum Recorder {
    /// No journal exists.
    Missing,
    /// A valid journal exists that cannot be appended to, but only rewritten.
    Earlier,
    Open(Journal),
    /// The file was stored under its final name or given up: no more records are written.
    Closed,
}

/// Journal record to be written, after a flush of the content that it describes.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    partials: Arc<Partials>,
    id: Id,
    file: File,
    place: Arc<Place>,
    identity: UnfinishedFile,
    journal: Arc<Mutex<Recorder>>,
    /// Set after a failed flush, because the system reports a write error only once per descriptor.
    has_lost: Arc<AtomicBool>,
    recorded: Arc<Mutex<Recorded>>,
    offset: u64,
    next_span: usize,
    /// Chaining values that are not in the journal yet, by number of the part.
    spans: Vec<(usize, ChainingValue)>,
    /// Complete state, used if the journal must be created anew.
    state: State,
}

/// Partial file, opened and locked.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) offset: u64,
    pub(super) identity: UnfinishedFile,
    pub(super) spans: Vec<Option<ChainingValue>>,
}

impl Id {
    pub(super) fn of(owner: &Owner, name: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("DFCP unfinished file of a sender, version 1");
        hasher.update(&(owner.as_str().len() as u64).to_be_bytes()).update(owner.as_str().as_bytes()).update(name);
        let mut sender = blake3::Hasher::new_derive_key("DFCP sender of unfinished files, version 1");
        sender.update(owner.as_str().as_bytes());
        // A collision of 128 bits between files of one sender must be constructed by that sender, and merely causes
        // resending. Two senders whose keys share 64 bits would share their limit on the number of journals.
        let (sender, file) = (sender.finalize().to_hex(), hasher.finalize().to_hex());
        Self(format!("{}{}", &sender[..SENDER_DIGITS], &file[..FILE_DIGITS]))
    }

    /// Returns the id contained in the name of a journal.
    fn of_journal(name: &OsStr) -> Option<Self> {
        let id = name.to_str()?.strip_suffix(JOURNAL_SUFFIX)?;
        let is_one = id.len() == SENDER_DIGITS + FILE_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_one.then(|| Self(id.to_owned()))
    }

    /// Returns the digits derived from the sender.
    fn sender(&self) -> &str {
        &self.0[..SENDER_DIGITS]
    }

    /// Returns true if both ids belong to the same sender.
    pub(super) fn is_of_sender_of(&self, other: &Self) -> bool {
        self.sender() == other.sender()
    }

    /// Returns the name of the partial file in its directory.
    pub(super) fn file_name(&self) -> OsString {
        format!("{TEMPORARY_PREFIX}{}{TEMPORARY_SUFFIX}", &self.0[SENDER_DIGITS..]).into()
    }

    fn journal_name(&self) -> OsString {
        format!("{}{JOURNAL_SUFFIX}", self.0).into()
    }
}

impl Partials {
    /// Opens the partial files below the output directory at `path`, for inspection.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Directory::open(path, Resolution::of_system())?, false, None))
    }

    /// Manages the partial files below `root`. Each sender may leave partial files of at most `bytes_max` in total.
    pub(super) fn new(root: Directory, sync: bool, bytes_max: Option<u64>) -> Self {
        Self {
            root,
            sync,
            claims: Claims::new(bytes_max),
            table: Table::new(),
            #[cfg(test)]
            visited: Default::default(),
        }
    }

    /// Charges `bytes` to the sender for a file; returns the file's previous charge.
    ///
    /// # Errors
    /// Fails if the sender's total exceeds the limit.
    pub(super) fn claim(&self, owner: &Owner, id: &Id, bytes: u64) -> Result<Option<Claim>, Failure> {
        self.claims.claim(owner, id, bytes)
    }

    /// Restores the charge from before [`Partials::claim`].
    pub(super) fn disclaim(&self, id: &Id, before: Option<Claim>) {
        self.claims.restore(id, before);
    }

    /// Returns the partial files of `owner`, or of all senders. On the way, invalid journals and journals without a
    /// file are removed. Files that have not changed for [`ABANDONED_AGE`] before `now` are removed with their
    /// journals.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub fn list(&self, owner: Option<&Owner>, now: SystemTime) -> io::Result<Vec<Found>> {
        self.list_beside(BTreeMap::new(), owner, now)
    }

    /// Like [`Partials::list`], for files not written by this program. `active` contains the files that it is writing;
    /// they may lack journals and are added to the result.
    pub(super) fn list_beside(
        &self,
        active: BTreeMap<Id, Found>,
        owner: Option<&Owner>,
        now: SystemTime,
    ) -> io::Result<Vec<Found>> {
        let wanted = owner.map(|owner| Id::of(owner, b""));
        let is_wanted = |id: &Id| wanted.as_ref().is_none_or(|wanted| id.is_of_sender_of(wanted));
        let mut found = active;
        if let Some(journals) = self.journals()? {
            let (ids, old) = self.read_names(&journals, now)?;
            for id in ids.iter().filter(|id| is_wanted(id) || old.contains(id)) {
                if !found.contains_key(id)
                    && let Some(one) = self.look(&journals, id, now)?
                {
                    // Other senders' files are not looked at: their change times come from the journals.
                    self.table.touch(id, if one.is_active { now } else { one.changed });
                    found.insert(id.clone(), one);
                }
            }
        } else {
            self.table.read(&BTreeSet::new(), now, |_| now);
        }
        if let Some(owner) = owner {
            found.retain(|_, found| found.file.owner == *owner);
            self.claims.found(owner, &found.iter().map(|(id, found)| (id.clone(), found.bytes)).collect());
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by(|a, b| a.file.name.cmp(&b.file.name));
        Ok(found)
    }

    /// Returns the ids of all journals, and the ids of journals that may be abandoned.
    fn read_names(&self, journals: &Directory, now: SystemTime) -> io::Result<(BTreeSet<Id>, BTreeSet<Id>)> {
        let mut ids = BTreeSet::new();
        for name in journals.names()?.take(PARTIALS_MAX * 2) {
            let name = name?;
            match Id::of_journal(&name) {
                Some(id) => {
                    ids.insert(id);
                }
                None => Self::remove_half_made(journals, &name, now),
            }
        }
        let changed = |id: &Id| journals.status(&id.journal_name()).map_or(now, |status| status.changed);
        let old = self.table.read(&ids, now, changed);
        Ok((ids, old.into_iter().collect()))
    }

    /// Removes a journal without its final name if it is old. Creating a journal takes far less time, so its receiver
    /// must have been killed.
    fn remove_half_made(journals: &Directory, name: &OsStr, now: SystemTime) {
        let is_old = |status: Status| now.duration_since(status.changed).is_ok_and(|age| age >= HALF_MADE_AGE);
        if journals.status(name).is_ok_and(is_old)
            && let Err(error) = journals.remove_file(name)
        {
            tracing::debug!(%error, "a journal that was never finished is left alone");
        }
    }

    fn look(&self, journals: &Directory, id: &Id, now: SystemTime) -> io::Result<Option<Found>> {
        let Some((identity, state)) = self.read(journals, id)? else {
            self.forget(journals, id);
            return Ok(None);
        };
        let file = match self.own_file(&identity, id) {
            Ok((_, file)) => file,
            Err(error) => {
                tracing::debug!(%error, "an unfinished file is not there");
                if error.kind() == io::ErrorKind::NotFound {
                    self.forget(journals, id);
                }
                return Ok(None);
            }
        };
        let status = status_of(&file)?;
        // The lock shows that another program is writing the file.
        let is_active = file.try_lock().is_err();
        if !is_active && now.duration_since(status.changed).is_ok_and(|age| age >= ABANDONED_AGE) {
            self.remove(&identity, id)?;
            self.forget(journals, id);
            return Ok(None);
        }
        let offset = Shape::of(identity.len).map_or(0, |shape| shape.floor(state.offset.min(status.len)));
        let (bytes, changed) = (status.len, status.changed);
        let found = Found { file: identity, offset, bytes, is_active, is_free: !is_active, changed };
        Ok((offset > 0).then_some(found))
    }

    /// Opens and locks a partial file for resumption.
    ///
    /// # Errors
    /// Passes on errors of the file system, and fails if another program holds the file.
    pub(super) fn open(&self, id: &Id, place: &Place) -> io::Result<Option<Opened>> {
        let Some(journals) = self.journals()? else { return Ok(None) };
        let Some((identity, State { offset, spans })) = self.read(&journals, id)? else { return Ok(None) };
        let Some(shape) = Shape::of(identity.len) else { return Ok(None) };
        let file = place.directory().own_unfinished(&id.file_name())?;
        lock_soon(&file)?;
        // Another session may have replaced or removed the file before the lock was taken.
        if place.directory().status(&id.file_name())?.identity != status_of(&file)?.identity {
            return Err(io::Error::other("another file has its name now"));
        }
        let offset = shape.floor(offset.min(status_of(&file)?.len));
        Ok(Some(Opened { file, offset, identity, spans }))
    }

    /// Returns the content of a journal if it is readable and belongs to this id.
    fn read(&self, journals: &Directory, id: &Id) -> io::Result<Option<(UnfinishedFile, State)>> {
        #[cfg(test)]
        self.visited.fetch_add(1, Ordering::Relaxed);
        let file = match journals.own_file(&id.journal_name()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = journal::read(&file)?;
        Ok(read.filter(|(identity, _)| Id::of(&identity.owner, &identity.name) == *id))
    }

    fn own_file(&self, identity: &UnfinishedFile, id: &Id) -> io::Result<(Directory, File)> {
        let name = RelativeName::parse(&identity.name).map_err(io::Error::other)?;
        let directory = self.root.directory(name.path().parent().unwrap_or_else(|| Path::new("")))?;
        let file = directory.own_unfinished(&id.file_name())?;
        Ok((directory, file))
    }

    fn remove(&self, identity: &UnfinishedFile, id: &Id) -> io::Result<()> {
        let (directory, _file) = self.own_file(identity, id)?;
        directory.remove_file(&id.file_name())
    }

    /// Reserves a place in the table of journals. If all places are taken, the sender with the most journals loses its
    /// least recently changed one to a sender with fewer. Otherwise, a few senders could occupy all places for a week.
    /// Returns true if the place is new.
    ///
    /// # Errors
    /// Fails if no place can be freed, or if the file system fails.
    fn take_place(&self, journals: &Directory, id: &Id) -> io::Result<bool> {
        let now = SystemTime::now();
        if !self.table.is_read() {
            self.read_names(journals, now)?;
        }
        for _ in 0..PARTIALS_GIVEN_UP_TRIES_MAX {
            match self.table.take(id, now)? {
                table::Place::Had => return Ok(false),
                table::Place::Taken => return Ok(true),
                table::Place::Instead(oldest) => self.give_up(journals, &oldest, now)?,
            }
        }
        Err(io::Error::other("too many files are unfinished already"))
    }

    /// Removes a partial file, unless it is in use. A file in use is marked as changed at `now` instead.
    fn give_up(&self, journals: &Directory, id: &Id, now: SystemTime) -> io::Result<()> {
        let Some((identity, _)) = self.read(journals, id)? else {
            self.forget(journals, id);
            return Ok(());
        };
        let (directory, file) = match self.own_file(&identity, id) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(journals, id);
                return Ok(());
            }
            Err(error) => {
                tracing::debug!(%error, "an unfinished file is not given up");
                self.table.touch(id, now);
                return Ok(());
            }
        };
        // The lock may be held because the sender has just returned.
        if file.try_lock().is_err() {
            self.table.touch(id, now);
            return Ok(());
        }
        directory.remove_file(&id.file_name())?;
        self.forget(journals, id);
        Ok(())
    }

    /// Removes a journal and its charge.
    fn forget(&self, journals: &Directory, id: &Id) {
        self.claims.release(id);
        match journals.remove_file(&id.journal_name()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a journal of an unfinished file cannot be removed");
                // The journal keeps its place. Marking it as changed keeps it from being the next candidate for
                // removal.
                self.table.touch(id, SystemTime::now());
            }
            _ => self.table.release(id),
        }
        // Removing the directory succeeds only if it is empty. An output directory without partial files then looks
        // unused.
        let _ = self.root.remove_directory(OsStr::new(JOURNALS));
    }

    fn journals(&self) -> io::Result<Option<Directory>> {
        match self.root.directory(Path::new(JOURNALS)) {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn journals_made(&self) -> io::Result<Directory> {
        if let Some(journals) = self.journals()? {
            return Ok(journals);
        }
        match self.root.make_directory(OsStr::new(JOURNALS), 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.flush(&self.root)?;
        self.root.directory(Path::new(JOURNALS))
    }

    fn flush(&self, directory: &Directory) -> io::Result<()> {
        match directory.flushable()?.filter(|_| self.sync) {
            Some(names) => names.sync_all(),
            None => Ok(()),
        }
    }
}

impl Keep {
    /// Creates the state of a new file, for which `claimed_bytes` are charged.
    pub(super) fn new(partials: Arc<Partials>, id: Id, file: UnfinishedFile, claimed_bytes: u64) -> Self {
        let journal = Arc::new(Mutex::new(Recorder::Missing));
        Self {
            partials,
            id,
            file,
            journal,
            has_lost: Arc::default(),
            next_span: 0,
            offset: 0,
            recorded: Arc::default(),
            claimed_bytes,
            is_kept: false,
        }
    }

    /// Creates the state of a file that is resumed at `offset`. The next record rewrites the file's journal.
    pub(super) fn resumed(
        partials: Arc<Partials>,
        id: Id,
        file: UnfinishedFile,
        offset: u64,
        claimed_bytes: u64,
    ) -> Self {
        let journal = Arc::new(Mutex::new(Recorder::Earlier));
        Self {
            partials,
            id,
            file,
            journal,
            has_lost: Arc::default(),
            next_span: 0,
            offset,
            recorded: Arc::new(Mutex::new(Recorded { offset, next_span: 0 })),
            claimed_bytes,
            is_kept: false,
        }
    }

    /// Raises the charge to `len` bytes if the file has become longer.
    ///
    /// # Errors
    /// Fails if `len` exceeds both the charged length and the sender's limit.
    pub(super) fn grow(&mut self, len: u64) -> Result<(), Failure> {
        if len > self.claimed_bytes {
            self.partials.claim(&self.file.owner, &self.id, len)?;
            self.claimed_bytes = len;
        }
        Ok(())
    }

    /// Returns the length recorded in the journal or in a pending record, bytes. 0 if the journal could not be created.
    pub(super) fn written_down(&mut self) -> u64 {
        if matches!(&*locked(&self.journal), Recorder::Missing) {
            (self.offset, self.next_span) = (0, 0);
        }
        self.offset
    }

    /// Discards pending records from the known progress, because another session is about to read the journal.
    pub(super) fn take_back_unwritten(&mut self) {
        let Recorded { offset, next_span } = *locked(&self.recorded);
        (self.offset, self.next_span) = (offset, next_span);
    }

    /// Returns true if written content has failed to reach the disk.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Returns the record to be written now; `None` if there is no progress since the last one.
    pub(super) fn checkpoint(
        &mut self,
        file: &File,
        place: &Arc<Place>,
        tree: &HashTree,
        offset: u64,
    ) -> io::Result<Option<Checkpoint>> {
        if offset <= self.offset {
            return Ok(None);
        }
        let whole = tree.whole_spans(offset);
        let state = match &*locked(&self.journal) {
            Recorder::Closed => return Ok(None),
            Recorder::Open(_) => State { offset, spans: Vec::new() },
            Recorder::Missing | Recorder::Earlier => State { offset, spans: tree.spans(whole) },
        };
        let spans = (self.next_span..whole).filter_map(|number| Some((number, tree.span(number)?))).collect();
        (self.next_span, self.offset) = (whole, offset);
        Ok(Some(Checkpoint {
            partials: Arc::clone(&self.partials),
            id: self.id.clone(),
            file: file.try_clone()?,
            place: Arc::clone(place),
            identity: self.file.clone(),
            journal: Arc::clone(&self.journal),
            has_lost: Arc::clone(&self.has_lost),
            recorded: Arc::clone(&self.recorded),
            offset,
            next_span: whole,
            spans,
            state,
        }))
    }

    /// Keeps the journal for a file of `len` bytes beyond this value's drop. Returns false if there is no journal.
    pub(super) fn keep(&mut self, len: u64) -> bool {
        self.is_kept = matches!(&*locked(&self.journal), Recorder::Open(_) | Recorder::Earlier);
        if self.is_kept {
            self.partials.claims.leave(&self.file.owner, &self.id, len);
        }
        self.is_kept
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        self.partials.claims.release(&self.id);
        let before = std::mem::replace(&mut *locked(&self.journal), Recorder::Closed);
        if matches!(before, Recorder::Open(_) | Recorder::Earlier) {
            match self.partials.journals() {
                Ok(Some(journals)) => self.partials.forget(&journals, &self.id),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "a journal of an unfinished file cannot be removed"),
            }
        }
    }
}

impl Checkpoint {
    /// Flushes the content, then writes the record.
    ///
    /// # Errors
    /// Passes on errors of the file system. Also fails if there are too many partial files. After an error, the next
    /// record rewrites the journal.
    pub(crate) fn write(self) -> io::Result<()> {
        if self.partials.sync
            && let Err(error) = self.file.sync_data()
        {
            self.has_lost.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let mut recorder = locked(&self.journal);
        // A later record may have been written first; this older one would then revert the progress.
        if locked(&self.recorded).offset >= self.offset {
            return Ok(());
        }
        let written = match &mut *recorder {
            Recorder::Closed => return Ok(()),
            Recorder::Open(journal) => journal
                .append(self.offset, &self.spans, self.partials.sync)
                .inspect(|()| self.partials.table.touch(&self.id, SystemTime::now())),
            Recorder::Missing | Recorder::Earlier => self.begin().map(|journal| *recorder = Recorder::Open(journal)),
        };
        if written.is_err() && matches!(&*recorder, Recorder::Open(_)) {
            // The journal may now end in an incomplete record, after which further records would be ignored.
            *recorder = Recorder::Earlier;
        }
        if written.is_ok() {
            *locked(&self.recorded) = Recorded { offset: self.offset, next_span: self.next_span };
        }
        written
    }

    fn begin(&self) -> io::Result<Journal> {
        let journals = self.partials.journals_made()?;
        let is_new = self.partials.take_place(&journals, &self.id)?;
        // The partial file's own name must be on the disk first; the journal is useless without it.
        let made = self.partials.flush(self.place.directory()).and_then(|()| {
            let name = self.id.journal_name();
            Journal::create(&journals, &name, &self.identity, &self.state, self.partials.sync)
        });
        match &made {
            Ok(_) => self.partials.table.touch(&self.id, SystemTime::now()),
            Err(_) if is_new => self.partials.table.release(&self.id),
            Err(_) => {}
        }
        made
    }
}

/// Locks a file, retrying for a while: another program may hold the lock briefly to inspect the file.
fn lock_soon(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES_MAX {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_TRY_INTERVAL),
            done => return Ok(done?),
        }
    }
    Ok(file.try_lock()?)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
