//! Output directory of a receiver: partial files under temporary names, finished ones renamed into place.
//!
//! Every operation uses directory descriptors below the output directory, which is opened once ([`super::beneath`]). So neither a peer nor
//! a local user who can rename entries there redirects a write: an entry behind a symbolic link is refused, and a file goes to the
//! directory in which it began, whatever that is called now. Stored files are not writable by group or others, unless the user requests the
//! sender's modes.

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

/// Permission bits that a peer may set: read, write and execute. Set-user-id and similar are never granted.
const MODE_MASK: u32 = 0o777;

/// Write bits of group and others, with which other users could change a file or directory.
pub const OTHERS_WRITE: u32 = 0o022;

/// Options of a receiver's store. By default nothing is overwritten or deleted.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Replace existing files by different content of the same name. Asked about each such name, when the file begins and when it is
    /// complete. Modes and times of existing directories are set only if this is given for every name.
    pub replace: Permission,
    /// Flush every file to the disk before it counts as stored.
    pub sync: bool,
    /// Use the sender's modes, without the umask and with others' write bits.
    pub preserve_modes: bool,
    /// Limit on the content that one session may store, bytes.
    pub session_bytes_max: Option<u64>,
    /// Keep partial files for resumption by their senders.
    pub keep_unfinished: bool,
    /// Let every sender learn whether this side has the same file, not only the sender that stored it.
    pub allow_update: bool,
    /// Delete files that a sender lacks in the directories it sends, if it requests that. Asked about each file, link and empty directory,
    /// but not in a dry run.
    pub allow_delete: Permission,
}

/// Output directory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    root: Arc<Directory>,
    options: StoreOptions,
    mode_mask: u32,
    /// Cloned by each file that waits for a flush, and each directory open for one, over all sessions.
    held: Arc<()>,
    held_max: usize,
    together: Together,
    partials: Arc<Partials>,
    active: ActiveFiles,
    open_directories: Arc<OpenDirectories>,
}

/// Directory created for an entry, or found.
#[derive(Debug)]
pub(crate) struct Made {
    open: OpenDirectory,
    set_metadata: bool,
}

impl Store {
    /// Opens `output`, creating it if missing, and checks that it is writable.
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
        // Reading the umask would change it briefly for all threads; the mode of a probe file reveals it, with the effect of a directory's
        // ACL.
        let (probe, _temporary) = Temporary::create(&probed, MODE_MASK)?;
        let granted = status_of(&probe)?.mode & !OTHERS_WRITE;
        let mode_mask = if options.preserve_modes { MODE_MASK } else { granted };
        let held_max = UNPUBLISHED_DESCRIPTORS_MAX.min(descriptors::allowed() / 4);
        let partials = Arc::new(Partials::new(root.directory(Path::new(""))?, options.sync, options.session_bytes_max));
        let (together, open_directories, active) = (Together::default(), Arc::default(), ActiveFiles::default());
        let root = Arc::new(root);
        Ok(Self { path, root, options, mode_mask, held, held_max, together, partials, active, open_directories })
    }

    /// The permission bits of the output directory itself.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub fn directory_mode(&self) -> io::Result<u32> {
        Ok(self.root.own_status()?.mode)
    }

    /// Absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the directory `name` unless it exists. `changed` records it at once: its content is confirmed before it is finished.
    ///
    /// # Errors
    /// Fails if the directory cannot be used.
    pub(crate) fn make_directory(
        &self,
        name: &RelativeName,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Result<Made, Failure> {
        let (place, last) = self.place(name, changed)?;
        let parent = place.directory();
        // The owner writes to it until it is finished; others never get more rights than then.
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

    /// Sets a directory's metadata after the last write to it, if permitted. Records its names and itself for the flush in any case.
    ///
    /// # Errors
    /// Fails if the metadata cannot be set, or the directory has disappeared.
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
            // Open it before setting a mode that may forbid reading.
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

    /// Limit on the content that one session may store, bytes.
    pub fn session_bytes_max(&self) -> Option<u64> {
        self.options.session_bytes_max
    }

    /// Starts the file `name`, which needs at least `announced_bytes` of disk space.
    ///
    /// # Errors
    /// Fails if the file could not be stored even with all its content.
    pub(crate) fn begin(
        &self,
        name: &RelativeName,
        announced_bytes: u64,
        changed: &mut Changed,
    ) -> Result<Staged, Failure> {
        let (place, destination) = self.check(name, announced_bytes, changed)?;
        Staged::new(&place, destination).map_err(|error| Failure::from_io("create the file", &error))
    }

    /// Location of the file `name`, if it may be stored as far as is known beforehand.
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
        // Arriving content is counted later: the free space may change by then.
        match directory.free_bytes() {
            Ok(Some(free)) if announced_bytes > free => return Err(no_room(announced_bytes)),
            Ok(_) => {}
            Err(error) => return Err(Failure::from_io("look up the free space", &error)),
        }
        Ok((place, destination))
    }

    /// Verifies a file, compares it with the one it may replace, and sets its metadata. [`Store::publish`] gives it its name. A comparison
    /// stops when its session is `over`.
    ///
    /// # Errors
    /// Fails if the file is not stored; nothing is left behind.
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
            // Without the attribute, an unchanged file may be sent again.
            tracing::debug!(%error, "which key has sent a file is not written down");
        }
        let finished = Finished { staged, _counted: Arc::clone(&self.held) };
        Ok(self.complete(finished, name, entry, over))
    }

    /// Parent directory of `name`, shared between operations, and the last component.
    fn place<'a>(&self, name: &'a RelativeName, changed: &mut Changed) -> Result<(Arc<Place>, &'a OsStr), Failure> {
        let (directory, last) = self.parent(name)?;
        let path = name.path().parent().unwrap_or_else(|| Path::new(""));
        Ok((self.share(path, directory, changed)?, last))
    }

    /// Parent directory of `name`, and the last component.
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

/// Components of `output` that do not exist yet.
fn missing(output: &Path) -> Vec<PathBuf> {
    let all = output.ancestors().filter(|path| !path.as_os_str().is_empty());
    all.take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Flushes the names of `new` directories, on which everything stored in them depends.
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

/// Failure for content that differs from what was sent.
pub(super) fn mismatch(received: u64, len: u64) -> Failure {
    let sentence = format!("its BLAKE3 hash differs after {received} of {len} bytes: send it again");
    Failure::new(FailureCode::Mismatch, sentence)
}

/// Failure for a full disk, without the free space, which the sender need not know.
fn no_room(announced_bytes: u64) -> Failure {
    let sentence = format!(
        "it takes {}, more than the receiver's disk has room for: free some space there and send again",
        human_bytes(announced_bytes),
    );
    Failure::new(FailureCode::DiskFull, sentence)
}

/// Failure for content above the limit of a session, including its partial files.
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
