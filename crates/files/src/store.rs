//! Output directory of a receiver. Files are received under temporary names and renamed once complete.
//!
//! Every operation uses directory descriptors below the output directory, which is opened once ([`super::beneath`]).
//! Thus neither a peer nor a local user who can rename entries there can redirect a write. An entry behind a symbolic
//! link is refused. A file is stored in the directory in which it was started, even if that directory has been renamed.
//! Stored files are not writable by group or others unless the user requests the sender's modes.

mod abandoned;
mod active;
mod batch;
mod changed;
mod conflict;
mod existing;
mod flush;
mod linkable;
mod links;
mod listed_names;
mod open_directories;
mod opened_up;
mod partial;
mod readings;
mod resume;
mod spellings;
mod staged;
mod sweep;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dfcp_framing::error::{EXISTS, Failure, FailureCode};
use dfcp_framing::files::{Entry, HASH_BYTES};
use dfcp_framing::names::RelativeName;
use filetime::FileTime;

use self::active::ActiveFiles;
pub(crate) use self::active::Slot;
pub(crate) use self::batch::Unpublished;
pub(crate) use self::changed::{Changed, Place};
pub(crate) use self::existing::{Completed, Existing};
use self::flush::Together;
pub(crate) use self::links::LinkDirectory;
use self::open_directories::{OpenDirectories, OpenDirectory};
pub(crate) use self::partial::Checkpoint;
pub use self::partial::{Found, Partials, UnfinishedFile};
#[cfg(test)]
pub(crate) use self::readings::READ_BYTES;
pub(crate) use self::readings::{Over, Readings};
pub(crate) use self::resume::{Beginning, Offered, Resumed};
pub(crate) use self::staged::Finished;
pub(crate) use self::staged::Staged;
use self::staged::Temporary;
pub(crate) use self::sweep::{Fate, Sweep, SweepRules, Swept};
use super::beneath::{Directory, Kind, Resolution, is_link, set_metadata, set_sender, status_of};
use super::descriptors;
use crate::limits::UNPUBLISHED_DESCRIPTORS_MAX;
use crate::permission::Permission;
use dfcp_framing::human_bytes;

/// Permission bits that a peer may set: read, write and execute. Bits such as set-user-id are never set.
const MODE_MASK: u32 = 0o777;

/// Write bits of group and others, which let other users change a file or directory.
pub const OTHERS_WRITE: u32 = 0o022;

/// Options of a receiver's store. By default nothing is overwritten or deleted.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Replace existing files by different content of the same name. The permission is checked for each such name, when
    /// the file begins and again when it is complete. Modes and times of existing directories are set only if all names
    /// are permitted.
    pub replace: Permission,
    /// Flush every file to the disk before it is confirmed as stored.
    pub sync: bool,
    /// Use the sender's modes without applying the umask, even if they let others write.
    pub preserve_modes: bool,
    /// Limit on the content that one session may store, bytes.
    pub session_bytes_max: Option<u64>,
    /// Keep partial files, so that their senders can resume them.
    pub keep_unfinished: bool,
    /// Let every sender learn whether this side has the same file. If false, only the sender that stored the file
    /// learns it.
    pub allow_update: bool,
    /// Delete files that a sender lacks in the directories that it sends, if the sender requests it. The permission is
    /// checked for each file, link and empty directory, except in a dry run.
    pub allow_delete: Permission,
}

/// Output directory of a receiver, shared by all its sessions.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    root: Arc<Directory>,
    options: StoreOptions,
    mode_mask: u32,
    /// Reference counter of open descriptors over all sessions: cloned by each file that waits for a flush and by each
    /// directory held open.
    held: Arc<()>,
    held_max: usize,
    together: Together,
    partials: Arc<Partials>,
    active: ActiveFiles,
    open_directories: Arc<OpenDirectories>,
}

/// Directory that was created for an entry, or that existed already.
#[derive(Debug)]
pub(crate) struct Made {
    open: OpenDirectory,
    set_metadata: bool,
}

impl Store {
    /// Opens the directory `output` and checks that it is writable. Creates the directory if it does not exist.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub fn open(output: &Path, options: StoreOptions) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, MODE_MASK & !OTHERS_WRITE);
        let resolution = Resolution::of_system();
        let new = missing(output);
        builder.create(output)?;
        if options.sync {
            flush_parents(&new, resolution)?;
        }
        let path = output.canonicalize()?;
        let held = Arc::default();
        let found = Directory::open(&path, resolution)?;
        let root = found.directory(Path::new(""))?;
        let probed = Changed::default().share(Path::new(""), found, &held)?;
        // Reading the umask would change it briefly for all threads. Instead, a probe file is created with all
        // permissions, and its mode shows the effect of the umask or of the directory's ACL.
        let (probe, _temporary) = Temporary::create(&probed, MODE_MASK)?;
        let granted = status_of(&probe)?.mode & !OTHERS_WRITE;
        let mode_mask = if options.preserve_modes { MODE_MASK } else { granted };
        let held_max = UNPUBLISHED_DESCRIPTORS_MAX.min(descriptors::allowed() / 4);
        let partials = Arc::new(Partials::new(root.directory(Path::new(""))?, options.sync, options.session_bytes_max));
        let (together, open_directories, active) = (Together::default(), Arc::default(), ActiveFiles::default());
        let root = Arc::new(root);
        Ok(Self { path, root, options, mode_mask, held, held_max, together, partials, active, open_directories })
    }

    /// Returns the permission bits of the output directory itself.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub fn directory_mode(&self) -> io::Result<u32> {
        Ok(self.root.own_status()?.mode)
    }

    /// Returns the absolute path of the output directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory `name` unless it exists. It is recorded in `changed` immediately, because entries in it
    /// are confirmed before the directory is finished.
    ///
    /// # Errors
    /// Fails if the directory can be neither created nor opened.
    pub(crate) fn make_directory(
        &self,
        name: &RelativeName,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Result<Made, Failure> {
        let (place, last) = self.place(name, changed)?;
        let parent = place.directory();
        // The owner may write until the directory is finished. Other users get no more rights than they have
        // afterwards.
        let made = parent.make_directory(last, self.mode(entry) | 0o700);
        let is_new = match made {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(Failure::from_io("create the directory", &error)),
        };
        let opened = parent.directory(Path::new(last)).map_err(|error| match error.kind() {
            _ if is_link(&error) => through_link(),
            io::ErrorKind::NotADirectory => {
                Failure::new(FailureCode::Exists, "a file of that name is in the directory's place")
            }
            _ => Failure::from_io("open the directory", &error),
        })?;
        let status = opened.own_status().map_err(|error| Failure::from_io("look it up", &error))?;
        self.note(changed, &place);
        let open = self.open_directories.open(status.identity);
        if !is_new && let Some(opened_up) = self.open_up(name, parent, last, &status)? {
            open.keep(opened_up);
        }
        Ok(Made { open, set_metadata: is_new || self.options.replace.is_always() })
    }

    /// Sets a directory's mode and time after the last write to it, if permitted. In any case, schedules the flush of
    /// the directory and of its parent.
    ///
    /// # Errors
    /// Fails if the metadata cannot be set, or if the directory has disappeared.
    fn finish_directory(
        &self,
        name: &RelativeName,
        made: Made,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Result<(), Failure> {
        if !made.set_metadata && !self.options.sync {
            return Ok(());
        }
        let (parent, last) = self.place(name, changed)?;
        let finish = |changed: &mut Changed| {
            let place = changed.share(name.path(), parent.directory().directory(Path::new(last))?, &self.held)?;
            if place.identity() != made.open.identity {
                return Err(io::Error::other("another directory has its name now"));
            }
            // Open the directory for reading before its final mode is set, which may forbid reading.
            let readable = if self.options.sync { place.directory().flushable()? } else { None };
            if made.set_metadata {
                place.directory().set_metadata(self.mode(entry), mtime(entry))?;
                made.open.forget_mode();
            }
            if self.options.sync {
                changed.note(&place, readable);
            }
            self.note(changed, &parent);
            Ok(())
        };
        finish(changed).map_err(|error| Failure::from_io("set the directory's time and mode", &error))
    }

    /// Returns the limit on the content that one session may store, bytes.
    pub fn session_bytes_max(&self) -> Option<u64> {
        self.options.session_bytes_max
    }

    /// Starts storing the file `name`, which needs at least `announced_bytes` of disk space.
    ///
    /// # Errors
    /// Fails if the file could not be stored even if all its content arrived.
    pub(crate) fn begin(
        &self,
        name: &RelativeName,
        announced_bytes: u64,
        changed: &mut Changed,
    ) -> Result<Staged, Failure> {
        let (place, destination) = self.check(name, announced_bytes, changed)?;
        Staged::new(&place, destination).map_err(|error| Failure::from_io("create the file", &error))
    }

    /// Returns parent directory and last component of `name`, if present knowledge permits storing the file.
    fn check<'a>(
        &self,
        name: &'a RelativeName,
        announced_bytes: u64,
        changed: &mut Changed,
    ) -> Result<(Arc<Place>, &'a OsStr), Failure> {
        let (place, destination) = self.place(name, changed)?;
        let directory = place.directory();
        match directory.status(destination).map(|status| status.kind) {
            Ok(Kind::Directory) => {
                return Err(Failure::new(FailureCode::Exists, "a directory of that name exists at the receiver"));
            }
            Ok(_) if !self.options.replace.permits(name.path()) => {
                return Err(Failure::new(FailureCode::Exists, EXISTS));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::from_io("look it up", &error)),
        }
        // The free space is checked only here. Content is charged as it arrives, and the free space may change until
        // then.
        match directory.free_bytes() {
            Ok(Some(free)) if announced_bytes > free => return Err(no_room(announced_bytes)),
            Ok(_) => {}
            Err(error) => return Err(Failure::from_io("look up the free space", &error)),
        }
        Ok((place, destination))
    }

    /// Verifies a file, compares it with the file that it may replace, and sets its metadata. [`Store::publish`] then
    /// gives it its name. The comparison stops when the session ends (`over`).
    ///
    /// # Errors
    /// Fails if the file is not stored. It is then removed, unless a later session can resume it.
    pub(crate) fn finish(
        &self,
        mut staged: Staged,
        (name, entry): (&RelativeName, &Entry),
        (len, hash): (u64, &[u8; HASH_BYTES]),
        over: &Over,
    ) -> Result<Completed, Failure> {
        if staged.has_lost() {
            staged.leave_as_written_down();
            let sentence =
                "the receiver's disk has lost what was written of it: see the messages there, and send again";
            return Err(Failure::new(FailureCode::FileSystem, sentence));
        }
        let received = staged.len();
        let verified =
            staged.finish_length().and_then(|()| Ok(received == len && staged.hash()? == Some((*hash).into())));
        if !verified.map_err(|error| Failure::from_io("finish the file", &error))? {
            return Err(mismatch(received, len));
        }
        staged.verified = Some((*hash).into());
        staged.is_linkable = entry.has_more_names();
        set_metadata(&staged.file, self.mode(entry), mtime(entry))
            .map_err(|error| Failure::from_io("finish the file", &error))?;
        if let Some(sender) = &staged.sender
            && let Err(error) = set_sender(&staged.file, Some(sender.as_str()))
        {
            // Without the attribute, the sender may have to send an unchanged file again.
            tracing::debug!(%error, "which key has sent a file is not written down");
        }
        let finished = Finished { staged, _counted: Arc::clone(&self.held) };
        Ok(self.complete(finished, name, entry, over))
    }

    /// Returns the parent directory of `name`, shared with other operations of the session, and the last component.
    fn place<'a>(&self, name: &'a RelativeName, changed: &mut Changed) -> Result<(Arc<Place>, &'a OsStr), Failure> {
        let (directory, last) = self.parent(name)?;
        let path = name.path().parent().unwrap_or_else(|| Path::new(""));
        Ok((self.share(path, directory, changed)?, last))
    }

    /// Returns the parent directory of `name`, and the last component.
    fn parent<'a>(&self, name: &'a RelativeName) -> Result<(Directory, &'a OsStr), Failure> {
        let path = name.path();
        let parent =
            self.root.directory(path.parent().unwrap_or_else(|| Path::new(""))).map_err(|error| {
                match error.kind() {
                    _ if is_link(&error) => through_link(),
                    io::ErrorKind::NotADirectory => {
                        Failure::new(FailureCode::Exists, "a file is in the place of one of its directories")
                    }
                    _ => Failure::from_io("find its directory", &error),
                }
            })?;
        Ok((parent, path.file_name().unwrap_or_default()))
    }

    fn mode(&self, entry: &Entry) -> u32 {
        entry.mode & MODE_MASK & self.mode_mask
    }
}

/// Returns the paths of `output` and its ancestors that do not exist yet.
fn missing(output: &Path) -> Vec<PathBuf> {
    let all = output.ancestors().filter(|path| !path.as_os_str().is_empty());
    all.take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Flushes the names of the directories in `new`. Everything stored below them depends on their names.
fn flush_parents(new: &[PathBuf], resolution: Resolution) -> io::Result<()> {
    for directory in new {
        let parent =
            directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
        if let Some(opened) = Directory::open(parent, resolution)?.flushable()? {
            opened.sync_all()?;
        }
        #[cfg(test)]
        changed::FLUSHED.with_borrow_mut(|log| log.push(vec![parent.to_owned()]));
    }
    Ok(())
}

/// Failure for content that differs from the sent content.
pub(super) fn mismatch(received: u64, len: u64) -> Failure {
    let sentence = format!("its BLAKE3 hash differs after {received} of {len} bytes: send it again");
    Failure::new(FailureCode::Mismatch, sentence)
}

/// Failure for a full disk. It does not state the free space, which the sender need not know.
fn no_room(announced_bytes: u64) -> Failure {
    let sentence = format!(
        "it takes {}, more than the receiver's disk has room for: free some space there and send again",
        human_bytes(announced_bytes),
    );
    Failure::new(FailureCode::DiskFull, sentence)
}

/// Failure for content above the limit of a session. The sender's partial files count towards the limit.
pub(crate) fn too_much(bytes_max: u64) -> Failure {
    let sentence = format!(
        "the receiver accepts at most {} from one sender: send less, or ask for a larger --max-bytes there",
        human_bytes(bytes_max)
    );
    Failure::new(FailureCode::DiskFull, sentence)
}

fn through_link() -> Failure {
    let sentence =
        "it, or a directory that it is in, is a symbolic link at the receiver, which does not write through links";
    Failure::new(FailureCode::Name, sentence)
}

fn mtime(entry: &Entry) -> FileTime {
    FileTime::from_unix_time(entry.mtime_s, entry.mtime_ns)
}

#[cfg(test)]
mod tests;
