//! The output directory of a receiver: unfinished files under temporary names, finished ones renamed into place.
//!
//! Everything is made, renamed, removed and given its mode and time through descriptors of directories below the output
//! directory, which is opened once ([`super::beneath`]). So neither a peer nor another user of this machine who can rename
//! what is in there leads a write elsewhere: an entry behind a symbolic link is refused, and a file goes to the directory
//! in which it was begun, whatever has that directory's name by then. Nothing that is stored may be written by group or
//! others, unless the user asks for the sender's modes.

mod abandoned;
mod active;
mod batch;
mod changed;
mod conflict;
mod existing;
mod finished;
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
pub(crate) use self::finished::Finished;
use self::flush::Together;
pub(crate) use self::links::LinkDirectory;
use self::open_directories::{OpenDirectories, OpenDirectory};
pub(crate) use self::partial::Checkpoint;
pub use self::partial::{Found, Partials, UnfinishedFile};
#[cfg(test)]
pub(crate) use self::readings::READ_BYTES;
pub(crate) use self::readings::{Over, Readings};
pub(crate) use self::resume::{Beginning, Offered, Resumed};
pub(crate) use self::staged::Staged;
use self::staged::Temporary;
pub(crate) use self::sweep::{Fate, Sweep, SweepRules, Swept};
use super::beneath::{Directory, Kind, Resolution, is_link, set_metadata, set_sender, status_of};
use super::descriptors;
use crate::limits::UNPUBLISHED_DESCRIPTORS_MAX;
use crate::permission::Permission;
use dfcp_framing::human_bytes;

/// Only read, write and execute for owner, group and others travel: set-user-id and its kin are never granted by a peer.
const MODE_MASK: u32 = 0o777;

/// Write bits of group and others: with them, other users decide the content of a file or directory.
pub const OTHERS_WRITE: u32 = 0o022;

/// Options of storing, by the user of a receiver. Without any, nothing is overwritten or deleted.
#[derive(Debug, Clone, Default)]
pub struct StoreOptions {
    /// Files that exist are replaced by those of the same name with another content. Asked about each such name, when it comes and again when it is
    /// complete. Modes and times of directories that exist are set only if it is given for everything.
    pub replace: Permission,
    /// Every file is flushed to the disk before it counts as stored.
    pub sync: bool,
    /// Modes are those of the sender, not narrowed by the umask and not kept from others' writing.
    pub preserve_modes: bool,
    /// The most that one session may store, bytes of content.
    pub session_bytes_max: Option<u64>,
    /// Unfinished files are kept for their senders to resume.
    pub keep_unfinished: bool,
    /// Every sender may learn whether it has a file which is here, not only the one that sent it.
    pub allow_update: bool,
    /// Files that a sender does not have in a directory that it sends may be deleted, if it says so. Asked about each file, link and empty
    /// directory, and not by a sender that only asks what would be deleted.
    pub allow_delete: Permission,
}

/// An output directory.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    root: Arc<Directory>,
    options: StoreOptions,
    mode_mask: u32,
    /// Each file that waits to be durable, and each directory that is open for one, in whatever session, has a clone.
    held: Arc<()>,
    held_max: usize,
    together: Together,
    partials: Arc<Partials>,
    active: ActiveFiles,
    open_directories: Arc<OpenDirectories>,
}

/// A directory that an entry has asked for.
#[derive(Debug)]
pub(crate) struct Made {
    open: OpenDirectory,
    set_metadata: bool,
}

impl Store {
    /// Opens `output`, creating it if it is missing, and tries whether it can be written to.
    ///
    /// # Errors
    /// Those of the file system.
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
        // The umask cannot be read without changing it for a moment, also for other threads; a file that is made tells it,
        // and what an access-control list of the directory makes of it.
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
    /// Those of the file system.
    pub fn directory_mode(&self) -> io::Result<u32> {
        Ok(self.root.own_status()?.mode)
    }

    /// The directory, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the directory `name` unless it is there. Its name is noted in `changed` at once: what is in it is confirmed
    /// before it is finished.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn make_directory(
        &self,
        name: &RelativeName,
        entry: &Entry,
        changed: &mut Changed,
    ) -> Result<Made, Failure> {
        let (place, last) = self.place(name, changed)?;
        let parent = place.directory();
        // Its owner writes to it until it is finished; others never get more than they have then.
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

    /// Sets the metadata of a directory, once nothing more is written to it, if they are ours to set. Its names and its own
    /// are noted in any case.
    ///
    /// # Errors
    /// Why they cannot be set, or it is not there any more.
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
            // Before it has its mode, which may forbid to read it.
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

    /// The most that one session may store, bytes of content.
    pub fn session_bytes_max(&self) -> Option<u64> {
        self.options.session_bytes_max
    }

    /// Starts to receive the file `name`, which takes at least `announced_bytes` of the disk.
    ///
    /// # Errors
    /// Why it could not be stored even if all its bytes came.
    pub(crate) fn begin(
        &self,
        name: &RelativeName,
        announced_bytes: u64,
        changed: &mut Changed,
    ) -> Result<Staged, Failure> {
        let (place, destination) = self.check(name, announced_bytes, changed)?;
        Staged::new(&place, destination).map_err(|error| Failure::from_io("create the file", &error))
    }

    /// Place of the file `name`, if it can be stored as far as is known before it comes.
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
        // Content is counted when it comes: others may need the space by then, or free some.
        match directory.free_bytes() {
            Ok(Some(free)) if announced_bytes > free => return Err(no_room(announced_bytes)),
            Ok(_) => {}
            Err(error) => return Err(Failure::from_io("look up the free space", &error)),
        }
        Ok((place, destination))
    }

    /// Verifies a file, compares it with the one that it may replace, and gives it its metadata. It gets its name by
    /// [`Store::publish`]. No comparison outlives its session, which is `over` then.
    ///
    /// # Errors
    /// Why it is not stored; nothing is left behind then.
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
            // Without it the file is sent again where it would have been known to be unchanged.
            tracing::debug!(%error, "which key has sent a file is not written down");
        }
        let finished = Finished { staged, _counted: Arc::clone(&self.held) };
        Ok(self.complete(finished, name, entry, over))
    }

    /// The directory in which `name` is to be, shared with what else is done there, and its last component.
    fn place<'a>(&self, name: &'a RelativeName, changed: &mut Changed) -> Result<(Arc<Place>, &'a OsStr), Failure> {
        let (directory, last) = self.parent(name)?;
        let path = name.path().parent().unwrap_or_else(|| Path::new(""));
        Ok((self.share(path, directory, changed)?, last))
    }

    /// The directory in which `name` is to be, and its last component.
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

/// `output` and what leads to it, as far as it is not there yet.
fn missing(output: &Path) -> Vec<PathBuf> {
    let all = output.ancestors().filter(|path| !path.as_os_str().is_empty());
    all.take_while(|path| !path.exists()).map(Path::to_owned).collect()
}

/// Makes the names of directories which are `new` durable: what is stored in them is lost with them.
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

/// Without how much room there is, which is not the sender's business.
fn no_room(announced_bytes: u64) -> Failure {
    let sentence = format!(
        "it takes {}, more than the receiver's disk has room for: free some space there and send again",
        human_bytes(announced_bytes),
    );
    Failure::new(FailureCode::DiskFull, sentence)
}

/// More than one sender may store in a session, or leave unfinished in all.
pub(crate) fn too_much(bytes_max: u64) -> Failure {
    let sentence = format!(
        "the receiver takes {} from one sender and this would be more: send less, or ask for a larger --max-bytes there",
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
