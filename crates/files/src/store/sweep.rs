//! Deletion of entries that the sender does not have, one name after the other.
//!
//! Neither side's names are held in full: the sender's arrive sorted, and the directory is read once per piece of them. All deletions use
//! descriptors, follow no links and stay within the file system.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::limits::DEPTH_MAX;
use dfcp_framing::names::{RelativeName, is_temporary};
use filetime::FileTime;

use super::Store;
use super::changed::Changed;
use super::listed_names::ListedNames;
use super::readings::Over;
use crate::beneath::{Directory, Identity, Kind, Status, is_mount, is_sender, status_of};
use crate::exclude::Exclude;
use crate::owner::Owner;

/// Directory being listed.
#[derive(Debug)]
pub(crate) struct Sweep {
    name: RelativeName,
    directory: Directory,
    /// Status before any deletion.
    before: Status,
    /// Sender's names of the current piece.
    listed: ListedNames,
    /// Last name of the previous piece.
    above: Option<Vec<u8>>,
    /// True if the current piece is the last one.
    is_last: bool,
    /// Files with a sender's name in another spelling, on a file system that folds names.
    same: BTreeSet<Identity>,
    /// Stack of directories being read. Empty between pieces.
    levels: Vec<Level>,
    has_deleted: bool,
}

struct Level {
    directory: Directory,
    /// Last component.
    last: OsString,
    /// Name as in an entry.
    name: OsString,
    names: Box<dyn Iterator<Item = io::Result<OsString>> + Send>,
    /// True if some of its content stays.
    stays: bool,
    /// True if it contains a file of a sender in a dry run, which knows these names.
    is_named: bool,
    /// True if a pattern protects it with its content, which is only counted.
    is_excluded: bool,
    /// Previous mode, if it was made writable.
    mode: Option<u32>,
}

/// Rules for found entries.
#[derive(Debug)]
pub(crate) struct SweepRules<'a> {
    /// Dry run: report instead of deleting.
    pub asks_only: bool,
    /// Patterns that protect files.
    pub exclude: &'a Exclude,
    /// Sender. In a dry run, only files it stored itself are named.
    pub owner: Option<&'a Owner>,
    /// End of the session, which stops the deletion.
    pub over: &'a Over,
}

impl SweepRules<'_> {
    /// True if foreign names must not be revealed, nor patterns that match them or obstacles to deleting them.
    fn is_discreet(&self) -> bool {
        self.asks_only && self.owner.is_some()
    }
}

/// Result for one name.
#[derive(Debug)]
pub(crate) struct Swept {
    /// Name as in an entry.
    pub name: Vec<u8>,
    /// Result of the deletion.
    pub fate: Fate,
}

/// Result for an entry that the sender does not have.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Deleted, or would be in a dry run.
    Deleted,
    /// Would be deleted; its name must not be revealed.
    Unnamed,
    /// Kept, or could not be deleted.
    Stays(Failure),
}

impl Store {
    /// True if deletion may be permitted.
    pub(crate) fn deletes(&self) -> bool {
        self.options.allow_delete.is_possible()
    }

    /// Opens the directory `name` for a listing. `None` if there is nothing to delete.
    ///
    /// # Errors
    /// Returns the reason why nothing is deleted in it.
    pub(crate) fn sweep(&self, name: &RelativeName) -> Result<Option<Sweep>, Swept> {
        let path = name.path();
        let opened = self.root.directory_on_mount(path).and_then(|directory| Ok((directory.own_status()?, directory)));
        let (before, directory) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if is_mount(&error) => {
                let is_below = path
                    .parent()
                    .is_some_and(|parent| self.root.directory_on_mount(parent).is_err_and(|error| is_mount(&error)));
                // Report a mount point once, at the mount point itself.
                return if is_below { Ok(None) } else { Err(stays(name.path().as_os_str(), mounted())) };
            }
            Err(error) => return Err(stays(name.path().as_os_str(), Failure::from_io("open the directory", &error))),
        };
        Ok(Some(Sweep {
            name: name.clone(),
            directory,
            before,
            listed: ListedNames::default(),
            above: None,
            is_last: false,
            same: BTreeSet::new(),
            levels: Vec::new(),
            has_deleted: false,
        }))
    }

    /// Schedules the flush of a swept directory, and restores its time if permitted.
    ///
    /// # Errors
    /// Fails if the time cannot be set.
    pub(crate) fn end_sweep(&self, sweep: &Sweep, changed: &mut Changed) -> Result<(), Swept> {
        if !sweep.has_deleted {
            return Ok(());
        }
        let failed = |error| stays(sweep.name.path().as_os_str(), Failure::from_io("set the directory's time", &error));
        if self.options.replace.is_always() {
            let mtime = FileTime::from_unix_time(sweep.before.mtime_s, sweep.before.mtime_ns);
            sweep.directory.set_metadata(sweep.before.mode, mtime).map_err(failed)?;
        }
        let place =
            changed.share(sweep.name.path(), sweep.directory.directory(Path::new("")).map_err(failed)?, &self.held);
        self.note(changed, &place.map_err(failed)?);
        Ok(())
    }
}

impl Sweep {
    /// Adds sorted names of the sender; `is_last` ends them. After a full piece, [`Sweep::step`] reads the directory.
    ///
    /// # Errors
    /// Returns the reason why nothing is deleted in the directory.
    pub(crate) fn list(&mut self, store: &Store, names: &[Vec<u8>], is_last: bool) -> Result<(), Swept> {
        for name in names {
            self.listed.push(name);
        }
        if !is_last && !self.listed.is_full() {
            return Ok(());
        }
        self.is_last = is_last;
        self.begin(store).map_err(|failure| stays(self.name.path().as_os_str(), failure))
    }

    /// True if steps are due before further names.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.levels.is_empty()
    }

    fn begin(&mut self, store: &Store) -> Result<(), Failure> {
        let failed = |error| Failure::from_io("list the directory", &error);
        // The descriptor would follow the directory if it were moved meanwhile.
        let found =
            store.root.directory_on_mount(self.name.path()).and_then(|found| found.own_status()).map_err(failed)?;
        if found.identity != self.before.identity {
            return Err(Failure::new(FailureCode::FileSystem, "another directory has its name now: send it again"));
        }
        let mut has = vec![false; self.listed.len()];
        for name in self.directory.names().map_err(failed)? {
            if let Some(place) = self.listed.find(name.map_err(failed)?.as_encoded_bytes()) {
                has[place] = true;
            }
        }
        // An existing name absent from the directory's listing exists in another spelling.
        self.same.clear();
        for (place, _) in has.iter().enumerate().filter(|(_, has)| !**has) {
            if let Ok(name) = RelativeName::parse(self.listed.get(place))
                && let Ok(status) = self.directory.status(name.path().as_os_str())
            {
                self.same.insert(status.identity);
            }
        }
        self.levels.push(Level {
            directory: self.directory.directory(Path::new("")).map_err(failed)?,
            last: OsString::new(),
            name: self.name.path().as_os_str().to_owned(),
            names: Box::new(self.directory.names().map_err(failed)?),
            stays: true,
            is_named: false,
            is_excluded: false,
            mode: None,
        });
        Ok(())
    }

    /// True if all names have been added.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Deletes the next entry; `None` if the names so far decide nothing more, or the session is over.
    pub(crate) fn step(&mut self, store: &Store, rules: &SweepRules<'_>) -> Option<Swept> {
        while !rules.over.is_set() {
            let is_known = self.levels.len() == 1;
            let level = self.levels.last_mut()?;
            let swept = match level.names.next() {
                Some(Ok(name)) => {
                    let swept = self.one(store, rules, &name);
                    swept.filter(|swept| !rules.is_discreet() || !matches!(swept.fate, Fate::Stays(_)))
                }
                Some(Err(error)) => {
                    (level.stays, level.names) = (true, Box::new(std::iter::empty()));
                    let swept = stays(&level.name, Failure::from_io("list the directory", &error));
                    Some(swept).filter(|_| is_known || !rules.is_discreet())
                }
                None => {
                    let level = self.levels.pop()?;
                    if self.levels.is_empty() {
                        self.end_piece();
                        return None;
                    }
                    self.leave(store, rules, level)
                }
            };
            if swept.is_some() {
                return swept;
            }
        }
        None
    }

    fn end_piece(&mut self) {
        self.above = self.listed.last().map(<[u8]>::to_vec).or_else(|| self.above.take());
        self.listed.clear();
    }

    /// Handles one name of the innermost directory.
    fn one(&mut self, store: &Store, rules: &SweepRules<'_>, last: &OsStr) -> Option<Swept> {
        let is_inside = self.levels.len() > 1;
        // Partial files belong to no sender's tree.
        if !is_inside && (self.is_listed(last.as_encoded_bytes()) || is_temporary(last)) {
            return None;
        }
        let level = self.levels.last_mut()?;
        let mut name = level.name.clone();
        name.push("/");
        name.push(last);
        let status = match level.directory.status(last) {
            Ok(status) if !is_inside && self.same.contains(&status.identity) => return None,
            Ok(status) => status,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => return Some(level.keep(&name, Failure::from_io("look it up", &error))),
        };
        let is_excluded = rules.exclude.matches(Path::new(&name), status.kind == Kind::Directory);
        if is_excluded && !rules.is_discreet() {
            level.stays = true;
            return None;
        }
        let is_excluded = is_excluded || level.is_excluded;
        if status.kind == Kind::Directory {
            return self.enter(store, last, name, is_excluded);
        }
        let may_grant = is_inside || store.options.replace.is_always();
        let level = self.levels.last_mut()?;
        let fate = if rules.asks_only {
            level.ask(rules, (last, &name), &status, is_excluded)?
        } else if !store.options.allow_delete.permits(Path::new(&name)) {
            level.keep(&name, not_permitted())
        } else {
            level.file((last, &name), &status, may_grant)?
        };
        self.has_deleted |= matches!(fate.fate, Fate::Deleted) && !rules.asks_only;
        Some(fate)
    }

    /// True if the name is the sender's, or belongs to another piece.
    fn is_listed(&self, name: &[u8]) -> bool {
        let is_before = self.above.as_ref().is_some_and(|above| name <= &above[..]);
        let is_behind = !self.is_last && self.listed.last().is_none_or(|last| name > last);
        is_before || is_behind || self.listed.find(name).is_some()
    }

    fn enter(&mut self, store: &Store, last: &OsStr, name: OsString, is_excluded: bool) -> Option<Swept> {
        let depth = self.levels.len();
        let level = self.levels.last_mut()?;
        if depth > DEPTH_MAX {
            return Some(level.keep(&name, Failure::new(FailureCode::FileSystem, "it is too deep: delete it there")));
        }
        let opened = level.directory.directory_on_mount(Path::new(last)).and_then(|directory| {
            let identity = directory.own_status()?.identity;
            let names: Box<dyn Iterator<Item = _> + Send> = Box::new(directory.names()?);
            Ok((directory, identity, names))
        });
        match opened {
            Ok((_, identity, _)) if store.open_directories.has(identity) => Some(level.keep(&name, under_way())),
            Ok((directory, _, names)) => {
                let last = last.to_owned();
                let (stays, is_named, mode) = (false, false, None);
                self.levels.push(Level { directory, last, name, names, stays, is_named, is_excluded, mode });
                None
            }
            Err(error) if is_mount(&error) => Some(level.keep(&name, mounted())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(level.keep(&name, Failure::from_io("open the directory", &error))),
        }
    }

    /// Leaves a directory, and deletes it if nothing in it stays.
    fn leave(&mut self, store: &Store, rules: &SweepRules<'_>, mut inside: Level) -> Option<Swept> {
        let may_grant = self.levels.len() > 1 || store.options.replace.is_always();
        let level = self.levels.last_mut()?;
        level.is_named |= inside.is_named;
        let name = std::mem::take(&mut inside.name);
        if inside.stays {
            let swept = level.keep(&name, not_empty());
            let is_told = !rules.is_discreet() || (inside.is_named && !inside.is_excluded);
            return Some(swept).filter(|_| is_told);
        }
        if rules.asks_only {
            let fate = if rules.owner.is_none() || inside.is_named { Fate::Deleted } else { Fate::Unnamed };
            return Some(Swept { name: name.into_encoded_bytes(), fate });
        }
        if !store.options.allow_delete.permits(Path::new(&name)) {
            return Some(level.keep(&name, not_permitted()));
        }
        match level.remove(may_grant, |directory| directory.remove_directory(&inside.last)) {
            Ok(()) => {
                (self.has_deleted, inside.mode) = (true, None);
                Some(Swept { name: name.into_encoded_bytes(), fate: Fate::Deleted })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // An entry was stored in it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Some(level.keep(&name, not_empty())),
            Err(error) => Some(level.keep(&name, Failure::from_io("delete it", &error))),
        }
    }
}

impl Level {
    /// Result for an entry that stays, which keeps its directory.
    fn keep(&mut self, name: &OsStr, failure: Failure) -> Swept {
        self.stays = true;
        stays(name, failure)
    }

    /// Result in a dry run. A file protected by a pattern is omitted if it is the sender's own, and counted otherwise: patterns must not
    /// reveal names.
    fn ask(
        &mut self,
        rules: &SweepRules<'_>,
        (last, name): (&OsStr, &OsStr),
        status: &Status,
        is_excluded: bool,
    ) -> Option<Swept> {
        if let Err(error) = self.lock_temporary(last, status) {
            tracing::debug!(%error, "an unfinished file would not be deleted");
            return Some(self.keep(name, under_way()));
        }
        let is_own = |owner: &Owner| {
            let file = self.directory.file(Path::new(last)).ok().filter(|_| status.kind == Kind::File);
            file.is_some_and(|file| is_sender(&file, owner.as_str()))
        };
        let is_named = rules.owner.is_none_or(is_own);
        self.is_named |= is_named;
        if is_named && is_excluded {
            self.stays = true;
            return None;
        }
        let fate = if is_named { Fate::Deleted } else { Fate::Unnamed };
        Some(Swept { name: name.as_encoded_bytes().to_vec(), fate })
    }

    /// Deletes a file, or a link without its target.
    fn file(&mut self, (last, name): (&OsStr, &OsStr), status: &Status, may_grant: bool) -> Option<Swept> {
        // A partial file of an earlier session is deleted with its directory. The lock keeps other sessions from resuming it.
        let _locked = match self.lock_temporary(last, status) {
            Ok(locked) => locked,
            Err(error) => {
                tracing::debug!(%error, "an unfinished file is not deleted");
                return Some(self.keep(name, under_way()));
            }
        };
        match self.remove(may_grant, |directory| directory.remove_file(last)) {
            Ok(()) => Some(Swept { name: name.as_encoded_bytes().to_vec(), fate: Fate::Deleted }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(self.keep(name, Failure::from_io("delete it", &error))),
        }
    }

    /// Locks a partial file; other files need no lock.
    fn lock_temporary(&self, last: &OsStr, status: &Status) -> io::Result<Option<File>> {
        if !is_temporary(last) || status.kind != Kind::File {
            return Ok(None);
        }
        let file = self.directory.file(Path::new(last))?;
        if status_of(&file)?.identity != status.identity {
            return Err(io::Error::other("another file has its name now"));
        }
        // Without locks, use by others is unknown: this fails, and the file stays.
        file.try_lock()?;
        Ok(Some(file))
    }

    /// Deletes an entry, after making the directory writable if needed, as its mode may come from a sender.
    fn remove(&mut self, may_grant: bool, remove: impl Fn(&Directory) -> io::Result<()>) -> io::Result<()> {
        match remove(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && may_grant && self.mode.is_none() => {
                let Some(mode) = self.directory.grant_write()? else { return Err(error) };
                self.mode = Some(mode);
                remove(&self.directory)
            }
            done => done,
        }
    }
}

/// Restores the mode of a directory that stays, also when a session breaks.
impl Drop for Level {
    fn drop(&mut self) {
        if let Some(mode) = self.mode
            && let Err(error) = self.directory.set_mode(mode)
        {
            tracing::warn!(%error, "a directory which was made writable stays so");
        }
    }
}

fn stays(name: &OsStr, failure: Failure) -> Swept {
    Swept { name: name.as_encoded_bytes().to_vec(), fate: Fate::Stays(failure) }
}

fn mounted() -> Failure {
    Failure::new(FailureCode::Mounted, "another file system is mounted there")
}

fn under_way() -> Failure {
    Failure::new(FailureCode::Busy, "a transfer is under way there")
}

fn not_permitted() -> Failure {
    Failure::new(FailureCode::Permission, "the receiver keeps it")
}

fn not_empty() -> Failure {
    Failure::new(FailureCode::NotEmpty, "something in it stays")
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Level").field("name", &self.name).field("stays", &self.stays).finish_non_exhaustive()
    }
}
