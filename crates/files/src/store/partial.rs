//! Unfinished files that can be resumed: a file under a reserved name where it is to be, and a journal beside the others' in one
//! directory of the output directory.
//!
//! Both names follow from the sender's key and the file's name, so nobody else's are found, and a journal's begins with what follows from
//! the key alone, so that a sender's are found without reading others'. While a receiver writes to the file it holds its lock.

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

/// Directory of the journals, below the output directory. No sender can name it.
const JOURNALS: &str = ".dfcp-journals.part";
const JOURNAL_SUFFIX: &str = ".journal";
/// Digits of an [`Id`] which stand for the sender, and for the file.
const SENDER_DIGITS: usize = 16;
const FILE_DIGITS: usize = 32;
/// The unfinished files of an output directory.
#[derive(Debug)]
pub struct Partials {
    root: Directory,
    sync: bool,
    claims: Claims,
    table: Table,
    /// Journals that were opened.
    #[cfg(test)]
    visited: std::sync::atomic::AtomicU64,
}

/// Identifier of an unfinished file, part of its names: digits that follow from its sender, and those which follow from its name, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(String);

/// An unfinished file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its sender, name, length and time.
    pub file: UnfinishedFile,
    /// Length of the part that is there, bytes.
    pub offset: u64,
    /// Space that it takes of the disk, bytes, if it has no holes.
    pub bytes: u64,
    /// True while some receiver is writing to it.
    pub is_active: bool,
    /// True if another session of its sender may resume it.
    pub is_free: bool,
    /// Time of the last change of anything about it.
    pub changed: SystemTime,
}

/// State that makes an unfinished file resumable. Dropping it removes its journal, unless it was kept.
#[derive(Debug)]
pub(super) struct Keep {
    partials: Arc<Partials>,
    pub(super) id: Id,
    pub(super) file: UnfinishedFile,
    journal: Arc<Mutex<Recorder>>,
    has_lost: Arc<AtomicBool>,
    /// The first part whose chaining value is not written down.
    next_span: usize,
    /// Length that is written down or on its way there, bytes.
    offset: u64,
    recorded: Arc<Mutex<Recorded>>,
    /// Bytes that its sender is charged for it.
    claimed_bytes: u64,
    is_kept: bool,
}

/// Extent of what the journal of a file says.
#[derive(Clone, Copy, Debug, Default)]
struct Recorded {
    offset: u64,
    /// The first part whose chaining value is not in it.
    next_span: usize,
}

/// State of the journal of a file.
#[derive(Debug)]
enum Recorder {
    /// There is none.
    Missing,
    /// There is one to which nothing can be added, and which still holds.
    Earlier,
    Open(Journal),
    /// The file has its name, or is given up: nothing is to be written any more.
    Closed,
}

/// Record about a file, which is written down once its content is on the disk.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    partials: Arc<Partials>,
    id: Id,
    file: File,
    place: Arc<Place>,
    identity: UnfinishedFile,
    journal: Arc<Mutex<Recorder>>,
    /// Set if the content could not be flushed: the system tells a descriptor of that once.
    has_lost: Arc<AtomicBool>,
    recorded: Arc<Mutex<Recorded>>,
    offset: u64,
    next_span: usize,
    /// Chaining values that are not in the journal yet.
    spans: Vec<(usize, ChainingValue)>,
    /// Everything, for a journal that is to be made.
    state: State,
}

/// An unfinished file, open and locked.
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
        // Two files of one sender that share 128 bits would have to be made for it, and would then only be sent again; two senders that share
        // 64 would share their places.
        let (sender, file) = (sender.finalize().to_hex(), hasher.finalize().to_hex());
        Self(format!("{}{}", &sender[..SENDER_DIGITS], &file[..FILE_DIGITS]))
    }

    /// From the name of a journal.
    fn of_journal(name: &OsStr) -> Option<Self> {
        let id = name.to_str()?.strip_suffix(JOURNAL_SUFFIX)?;
        let is_one = id.len() == SENDER_DIGITS + FILE_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_one.then(|| Self(id.to_owned()))
    }

    /// The digits that follow from the sender alone.
    fn sender(&self) -> &str {
        &self.0[..SENDER_DIGITS]
    }

    /// True if the other one's sender is its own.
    pub(super) fn is_of_sender_of(&self, other: &Self) -> bool {
        self.sender() == other.sender()
    }

    /// The name of the file, in its directory.
    pub(super) fn file_name(&self) -> OsString {
        format!("{TEMPORARY_PREFIX}{}{TEMPORARY_SUFFIX}", &self.0[SENDER_DIGITS..]).into()
    }

    fn journal_name(&self) -> OsString {
        format!("{}{JOURNAL_SUFFIX}", self.0).into()
    }
}

impl Partials {
    /// Those below the directory at `path`, to look at.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Directory::open(path, Resolution::of_system())?, false, None))
    }

    /// Those below `root`, of which each sender may leave `bytes_max` in all.
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

    /// A file is going to take `bytes`, instead of what it took before, which is returned.
    ///
    /// # Errors
    /// Its sender may not leave as much.
    pub(super) fn claim(&self, owner: &Owner, id: &Id, bytes: u64) -> Result<Option<Claim>, Failure> {
        self.claims.claim(owner, id, bytes)
    }

    /// It does not, after all.
    pub(super) fn disclaim(&self, id: &Id, before: Option<Claim>) {
        self.claims.restore(id, before);
    }

    /// The unfinished files of `owner`, or of all. Journals of these that say nothing, or whose files are gone, and all those which nothing
    /// has changed for [`ABANDONED_AGE`] before `now`, are removed on the way, with their files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn list(&self, owner: Option<&Owner>, now: SystemTime) -> io::Result<Vec<Found>> {
        self.list_beside(BTreeMap::new(), owner, now)
    }

    /// As [`Partials::list`], beside those which sessions of this program are writing to, and which may have no journals yet.
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
                    // Others' are told from the time of their journals alone.
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

    /// Ids of the journals by their names, and those among them that may be abandoned.
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

    /// A journal that was being made when a receiver was killed. One that is being made takes far less time.
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
        // While it is locked some other program is writing to it.
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

    /// Opens and locks an unfinished file, to resume it.
    ///
    /// # Errors
    /// Those of the file system; some other program holds it.
    pub(super) fn open(&self, id: &Id, place: &Place) -> io::Result<Option<Opened>> {
        let Some(journals) = self.journals()? else { return Ok(None) };
        let Some((identity, State { offset, spans })) = self.read(&journals, id)? else { return Ok(None) };
        let Some(shape) = Shape::of(identity.len) else { return Ok(None) };
        let file = place.directory().own_unfinished(&id.file_name())?;
        lock_soon(&file)?;
        // Another session may have deleted its directory before it was locked.
        if place.directory().status(&id.file_name())?.identity != status_of(&file)?.identity {
            return Err(io::Error::other("another file has its name now"));
        }
        let offset = shape.floor(offset.min(status_of(&file)?.len));
        Ok(Some(Opened { file, offset, identity, spans }))
    }

    /// Content of a journal, if it is readable and about this file.
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

    /// Makes sure that a journal has a place. If all are taken, the sender with most files gives up the one that changed longest ago for
    /// another which has left fewer: few senders would fill the directory for a week otherwise. Returns true for a new place.
    ///
    /// # Errors
    /// There is none, or those of the file system.
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

    /// Removes an unfinished file, unless it is in use: then it counts as changed at `now`, and another one is the oldest.
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
        // Its sender may be back just now.
        if file.try_lock().is_err() {
            self.table.touch(id, now);
            return Ok(());
        }
        directory.remove_file(&id.file_name())?;
        self.forget(journals, id);
        Ok(())
    }

    /// Removes a journal.
    fn forget(&self, journals: &Directory, id: &Id) {
        self.claims.release(id);
        match journals.remove_file(&id.journal_name()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "a journal of an unfinished file cannot be removed");
                // It keeps its place, and is not the first to be given up again.
                self.table.touch(id, SystemTime::now());
            }
            _ => self.table.release(id),
        }
        // An output directory with nothing unfinished looks as if there had never been anything. With other journals in it, this fails.
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
    /// Of a file that begins, for which `claimed_bytes` are claimed.
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

    /// The same of a file which goes on at `offset`. Its journal is written anew with the next record.
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

    /// The file is going to have `len` bytes.
    ///
    /// # Errors
    /// It has announced less, and its sender may not leave as much.
    pub(super) fn grow(&mut self, len: u64) -> Result<(), Failure> {
        if len > self.claimed_bytes {
            self.partials.claim(&self.file.owner, &self.id, len)?;
            self.claimed_bytes = len;
        }
        Ok(())
    }

    /// Length that the journal records, bytes, if none is being written. A journal that could not be made records nothing.
    pub(super) fn written_down(&mut self) -> u64 {
        if matches!(&*locked(&self.journal), Recorder::Missing) {
            (self.offset, self.next_span) = (0, 0);
        }
        self.offset
    }

    /// Counts what is on its way to the journal as not written down: another session is about to read the journal.
    pub(super) fn take_back_unwritten(&mut self) {
        let Recorded { offset, next_span } = *locked(&self.recorded);
        (self.offset, self.next_span) = (offset, next_span);
    }

    /// True if content that was written has not reached the disk.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Record to be written down now; none if there is nothing new.
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

    /// Keeps the journal with the file, of `len` bytes, from now on. False if there is no journal.
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
    /// Flushes the content, then writes down how much there is.
    ///
    /// # Errors
    /// Those of the file system, or more files are unfinished than may be. The next one makes the journal anew.
    pub(crate) fn write(self) -> io::Result<()> {
        if self.partials.sync
            && let Err(error) = self.file.sync_data()
        {
            self.has_lost.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let mut recorder = locked(&self.journal);
        // A later one has overtaken it: a record behind that would take it back.
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
            // It may end with half a record, behind which no other would count.
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
        // The file's own name, without which the journal would be about nothing.
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

/// Locks a file which somebody may be looking at, who holds the lock for a moment.
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
