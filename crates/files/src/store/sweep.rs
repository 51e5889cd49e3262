//! Deletion, in a listed directory, of entries that the sender does not have.
//!
//! Neither side's names are held in full. The sender's names arrive sorted and are processed in pieces; the directory
//! is read once per piece. All deletions use descriptors, follow no links and stay within the file system.

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

/// Deletion in progress in one listed directory.
#[derive(Debug)]
pub(crate) struct Sweep {
    name: RelativeName,
    directory: Directory,
    /// Metadata of the directory before any deletion.
    before: Status,
    /// Sender's names in the current piece.
    listed: ListedNames,
    /// Last name of the previous piece; names up to it are settled.
    above: Option<Vec<u8>>,
    /// True if the current piece is the last one.
    is_last: bool,
    /// Files that exist under a sender's name in another spelling, on a file system that folds names.
    same: BTreeSet<Identity>,
    /// Stack of directories being read, the listed one first. Empty between pieces.
    levels: Vec<Level>,
    has_deleted: bool,
}

struct Level {
    directory: Directory,
    /// Last component of the directory's name.
    last: OsString,
    /// Name below the output directory.
    name: OsString,
    names: Box<dyn Iterator<Item = io::Result<OsString>> + Send>,
    /// True if some of the directory's content stays.
    stays: bool,
    /// True if the directory contains a file whose name a dry run may report.
    is_named: bool,
    /// True if an exclude pattern protects the directory with its content. A discreet dry run then only counts the
    /// content.
    is_excluded: bool,
    /// Mode to restore, if the directory was made writable.
    mode: Option<u32>,
}

/// Rules for entries that the sender does not have.
#[derive(Debug)]
pub(crate) struct SweepRules<'a> {
    /// True in a dry run: entries are reported, not deleted.
    pub asks_only: bool,
    /// Exclude patterns, which protect matching files.
    pub exclude: &'a Exclude,
    /// Sender of this session, if a dry run may name only files that the sender stored; `None` if all may be named.
    pub owner: Option<&'a Owner>,
    /// Flag that is set when the session ends, which stops the deletion.
    pub over: &'a Over,
}

impl SweepRules<'_> {
    /// Returns true if names of other senders' files must not be revealed. Exclude patterns matching them and obstacles
    /// to their deletion are then hidden as well.
    fn is_discreet(&self) -> bool {
        self.asks_only && self.owner.is_some()
    }
}

/// Result for one entry that the sender does not have.
#[derive(Debug)]
pub(crate) struct Swept {
    /// Name below the output directory.
    pub name: Vec<u8>,
    /// Outcome.
    pub fate: Fate,
}

/// Outcome for an entry that the sender does not have.
#[derive(Debug)]
pub(crate) enum Fate {
    /// Deleted, or would be deleted outside a dry run.
    Deleted,
    /// Would be deleted outside a dry run, but its name must not be revealed.
    Unnamed,
    /// Kept on purpose, or could not be deleted.
    Stays(Failure),
}

impl Store {
    /// Returns true if the options permit any deletion.
    pub(crate) fn deletes(&self) -> bool {
        self.options.allow_delete.is_possible()
    }

    /// Opens the directory `name` for deletion by listing. `None` if it does not exist, or lies below a mount point.
    ///
    /// # Errors
    /// Returns the reason why nothing in the directory is deleted.
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
                // A mount point is reported once, for the mounted directory itself.
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

    /// Schedules the flush of a swept directory, and restores its modification time if permitted.
    ///
    /// # Errors
    /// Fails if mode or time cannot be set, or the directory cannot be opened.
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
    /// Adds sorted names of the sender; `is_last` marks the end of the listing. Once a piece is full, [`Sweep::step`]
    /// must process it.
    ///
    /// # Errors
    /// Returns the reason why nothing more in the directory is deleted.
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

    /// Returns true if [`Sweep::step`] must be called before further names are added.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.levels.is_empty()
    }

    fn begin(&mut self, store: &Store) -> Result<(), Failure> {
        let failed = |error| Failure::from_io("list the directory", &error);
        // The descriptor still refers to the same directory after a rename, so check that the name refers to it too.
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
        // If a listed name can be looked up but was not read from the directory, the directory has it in another
        // spelling.
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

    /// Returns true if the sender's last names have been added.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Processes entries until one has a result. `None` once the current piece is done, or the session has ended.
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

    /// Processes one name of the innermost directory.
    fn one(&mut self, store: &Store, rules: &SweepRules<'_>, last: &OsStr) -> Option<Swept> {
        let is_inside = self.levels.len() > 1;
        // Partial files in the listed directory are kept: they belong to no sender's tree.
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

    /// Returns true if the sender has listed the name, or if the name belongs to another piece.
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

    /// Leaves a directory, and deletes it if all its content was deleted.
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
            // Another session has stored an entry in the directory meanwhile.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Some(level.keep(&name, not_empty())),
            Err(error) => Some(level.keep(&name, Failure::from_io("delete it", &error))),
        }
    }
}

impl Level {
    /// Returns the result for an entry that stays. Its directory then stays too.
    fn keep(&mut self, name: &OsStr, failure: Failure) -> Swept {
        self.stays = true;
        stays(name, failure)
    }

    /// Returns the result in a dry run. A file protected by an exclude pattern is omitted if the sender stored it, and
    /// counted otherwise: patterns must not reveal names.
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

    /// Deletes a file, or a symbolic link itself.
    fn file(&mut self, (last, name): (&OsStr, &OsStr), status: &Status, may_grant: bool) -> Option<Swept> {
        // A partial file inside an unlisted directory is deleted with the directory. Its lock keeps other sessions from
        // resuming it meanwhile.
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

    /// Locks a partial file. Returns `None` for other files, which need no lock.
    fn lock_temporary(&self, last: &OsStr, status: &Status) -> io::Result<Option<File>> {
        if !is_temporary(last) || status.kind != Kind::File {
            return Ok(None);
        }
        let file = self.directory.file(Path::new(last))?;
        if status_of(&file)?.identity != status.identity {
            return Err(io::Error::other("another file has its name now"));
        }
        // On a file system without locks, the file may be in use: the attempt fails, and the file stays.
        file.try_lock()?;
        Ok(Some(file))
    }

    /// Deletes an entry. If its directory forbids that, the directory is first made writable, since its mode may come
    /// from a sender.
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

/// Restores the mode of a directory that stays, even if the session breaks off.
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
