//! By descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::time::{Duration, UNIX_EPOCH};

use filetime::FileTime;
use rustix::fs::{Access, AtFlags, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, accessat};
use rustix::io::Errno;

use super::{Identity, Kind, Resolution, Status};

/// To look names up in a directory, which takes permission to search it and not to list it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Elsewhere a directory has to be readable.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SEARCH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Without `NONBLOCK` the opening of a pipe would wait for its writer; for regular files it means nothing.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Bytes of the unit in which `st_blocks` counts, whatever the file system's own blocks are.
const STAT_BLOCK_BYTES: u64 = 512;

impl Resolution {
    /// The best that this system has. (A filter on system calls may know no `openat2` on a kernel that has it.)
    pub(crate) fn of_system() -> Self {
        #[cfg(target_os = "linux")]
        if rustix::fs::openat2(rustix::fs::CWD, ".", SEARCH, Mode::empty(), CONFINED).is_ok() {
            return Self::OneCall;
        }
        Self::Stepwise
    }
}

#[cfg(target_os = "linux")]
const CONFINED: rustix::fs::ResolveFlags = rustix::fs::ResolveFlags::BENEATH
    .union(rustix::fs::ResolveFlags::NO_SYMLINKS)
    .union(rustix::fs::ResolveFlags::NO_MAGICLINKS);

/// The same, without leaving the file system: mount points are refused, those of the same file system (bind mounts) among them.
#[cfg(target_os = "linux")]
const CONFINED_TO_MOUNT: rustix::fs::ResolveFlags = CONFINED.union(rustix::fs::ResolveFlags::NO_XDEV);

/// An open directory. Relative paths are below it; a *name* is a single component.
#[derive(Debug)]
pub(crate) struct Directory {
    descriptor: OwnedFd,
    resolution: Resolution,
}

impl Directory {
    /// Opens the directory at `path`, which the user named: links on the way are followed.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(path: &Path, resolution: Resolution) -> io::Result<Self> {
        let descriptor = rustix::fs::open(path, SEARCH, Mode::empty())?;
        Ok(Self { descriptor, resolution })
    }

    /// The directory at `relative`; an empty path is this one.
    ///
    /// # Errors
    /// Those of the file system; [`is_link`] knows the one for a link.
    pub(crate) fn directory(&self, relative: &Path) -> io::Result<Self> {
        let descriptor = if relative.as_os_str().is_empty() {
            self.descriptor.try_clone()?
        } else {
            self.resolve(relative, SEARCH)?
        };
        Ok(Self { descriptor, resolution: self.resolution })
    }

    /// As [`Directory::directory`], if it is on the same file system. Without `openat2` a mount point is known by its device
    /// number, so one of the same file system is not.
    ///
    /// # Errors
    /// Those of the file system; [`is_mount`] knows the one for a mount point, [`is_link`] the one for a link.
    pub(crate) fn directory_on_mount(&self, relative: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if self.resolution == Resolution::OneCall && !relative.as_os_str().is_empty() {
            let opened = rustix::fs::openat2(&self.descriptor, relative, SEARCH, Mode::empty(), CONFINED_TO_MOUNT)?;
            return Ok(Self { descriptor: opened, resolution: self.resolution });
        }
        let opened = self.directory(relative)?;
        if opened.own_status()?.identity.device() == self.own_status()?.identity.device() {
            return Ok(opened);
        }
        Err(Errno::XDEV.into())
    }

    /// Lets its owner write to this directory and search it, if this user is the owner. Returns the mode that it had, if that changed.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn grant_write(&self) -> io::Result<Option<u32>> {
        let stat = rustix::fs::fstat(&self.descriptor)?;
        let mode = wide::<_, u32>(stat.st_mode) & 0o7777;
        if stat.st_uid != rustix::process::geteuid().as_raw() || mode & 0o300 == 0o300 {
            return Ok(None);
        }
        self.set_mode(mode | 0o300)?;
        Ok(Some(mode))
    }

    /// Sets the mode of this directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.readable()?, permissions(mode))?)
    }

    /// Opens what is at `relative` for reading, without waiting. Only [`status_of`] tells whether it is a regular file.
    ///
    /// # Errors
    /// As [`Directory::directory`].
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        Ok(File::from(self.resolve(relative, READ)?))
    }

    /// Makes a file and opens it for reading and writing. Its mode is `mode` without what the umask takes away.
    ///
    /// # Errors
    /// Those of the file system; something of that name exists.
    pub(crate) fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.descriptor, name, flags, permissions(mode))?))
    }

    /// Opens the file `name` for reading and writing, if this user made it: a link, a pipe, or a file of somebody else that was put
    /// there under this name would be written to otherwise.
    ///
    /// # Errors
    /// Those of the file system; it is not such a file.
    pub(crate) fn own_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?);
        check_own(&file)?;
        Ok(file)
    }

    /// As [`Directory::own_file`], also if the mode of the file forbids that: a receiver was killed after the file had got its own.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn own_unfinished(&self, name: &OsStr) -> io::Result<File> {
        match self.own_file(name) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let file = self.file(Path::new(name))?;
                check_own(&file)?;
                set_mode(&file, 0o600)?;
                self.own_file(name)
            }
            opened => opened,
        }
    }

    /// Gives the owner of the directory `name`, which is the one with this identity, all rights on it, if that is this user and may not write to
    /// it yet. Returns the mode that it had; none if nothing was done.
    ///
    /// # Errors
    /// Those of the file system; another directory has its name now.
    pub(crate) fn open_up(&self, name: &OsStr, identity: Identity) -> io::Result<Option<u32>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let permitted = rustix::fs::openat(&self.descriptor, name, SEARCH | OFlags::NOFOLLOW, Mode::empty())
            .and_then(|directory| accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS));
        match permitted {
            Err(Errno::ACCESS) => {}
            // A read-only file system, for one, is told where it is written to.
            _ => return Ok(None),
        }
        // One that cannot be read either stays as it is.
        let Ok(directory) = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) else { return Ok(None) };
        let stat = rustix::fs::fstat(&directory)?;
        let status = Status::from_stat(&stat);
        if status.identity != identity {
            return Err(io::Error::other("another directory has its name now"));
        }
        if stat.st_uid != rustix::process::geteuid().as_raw() || status.mode & 0o700 == 0o700 {
            return Ok(None);
        }
        rustix::fs::fchmod(&directory, permissions(status.mode | 0o700))?;
        Ok(Some(status.mode))
    }

    /// Makes a directory. Its mode is `mode` without what the umask takes away.
    ///
    /// # Errors
    /// As [`Directory::create_file`].
    pub(crate) fn make_directory(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.descriptor, name, permissions(mode))?)
    }

    /// Metadata of `name`; of a link, those of the link itself.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn status(&self, name: &OsStr) -> io::Result<Status> {
        Ok(Status::from_stat(&rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Metadata of this directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn own_status(&self) -> io::Result<Status> {
        Ok(Status::from_stat(&rustix::fs::fstat(&self.descriptor)?))
    }

    /// Gives the file `from` the name `to`, in this directory. With `replace` a file or link of that name is replaced,
    /// else that is an error of the renaming itself.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        if replace {
            return Ok(rustix::fs::renameat(&self.descriptor, from, &self.descriptor, to)?);
        }
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            match renameat_with(&self.descriptor, from, &self.descriptor, to, RenameFlags::NOREPLACE) {
                // Not every file system knows the flag.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                other => return Ok(other?),
            }
        }
        rustix::fs::linkat(&self.descriptor, from, &self.descriptor, to, AtFlags::empty())?;
        self.remove_file(from)
    }

    /// Makes a symbolic link with this text.
    ///
    /// # Errors
    /// Those of the file system; something of that name exists.
    pub(crate) fn make_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
    }

    /// The text of the symbolic link `name`.
    ///
    /// # Errors
    /// Those of the file system; it is no such link.
    pub(crate) fn link_target(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.descriptor, name, Vec::new())?;
        Ok(OsStr::from_bytes(target.to_bytes()).to_owned())
    }

    /// Sets the time of the symbolic link `name`, and not of what it leads to.
    ///
    /// # Errors
    /// Those of the file system, which may have no such times.
    pub(crate) fn set_link_mtime(&self, name: &OsStr, mtime: FileTime) -> io::Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: mtime.unix_seconds(), tv_nsec: mtime.nanoseconds().into() },
        };
        Ok(rustix::fs::utimensat(&self.descriptor, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives the file `from` of this directory a further name, `to` in the directory `other`. A symbolic link gets it itself.
    ///
    /// # Errors
    /// Those of the file system; something of that name exists.
    pub(crate) fn add_name(&self, from: &OsStr, other: &Self, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.descriptor, from, &other.descriptor, to, AtFlags::empty())?)
    }

    /// Removes the file or link `name`.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    /// Removes the directory `name`.
    ///
    /// # Errors
    /// Those of the file system; it is not empty.
    pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }

    /// The names in this directory, in no order.
    ///
    /// # Errors
    /// Those of the file system, here and at each name.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        let entries = Dir::new(self.readable()?)?;
        Ok(entries.filter_map(|entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                (name != b"." && name != b"..").then(|| Ok(OsStr::from_bytes(name).to_owned()))
            }
            Err(error) => Some(Err(error.into())),
        }))
    }

    /// This directory as what can be flushed; none if its mode forbids to read it, which leaves flushing to the system.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn flushable(&self) -> io::Result<Option<File>> {
        match self.readable() {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the time of the content of this directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        filetime::set_file_handle_times(&self.readable()?, None, Some(mtime))
    }

    /// Sets the mode of this directory and the time of its content.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn set_metadata(&self, mode: u32, mtime: FileTime) -> io::Result<()> {
        set_metadata(&self.readable()?, mode, mtime)
    }

    fn readable(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?))
    }

    /// Space that this user may still fill on the file system of this directory, bytes. None if it does not tell: a file
    /// system of no blocks at all is one without figures (FUSE without `statfs`, for one), not a full one.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn free_bytes(&self) -> io::Result<Option<u64>> {
        let figures = rustix::fs::fstatvfs(&self.descriptor)?;
        Ok((figures.f_blocks > 0).then(|| figures.f_bavail.saturating_mul(figures.f_frsize)))
    }

    /// (`openat2` refuses links by itself, and with `NOFOLLOW` it would name another error for the last one.)
    fn resolve(&self, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        Ok(match self.resolution {
            #[cfg(target_os = "linux")]
            Resolution::OneCall => rustix::fs::openat2(&self.descriptor, relative, flags, Mode::empty(), CONFINED)?,
            #[cfg(not(target_os = "linux"))]
            Resolution::OneCall => self.resolve_stepwise(relative, flags)?,
            Resolution::Stepwise => self.resolve_stepwise(relative, flags)?,
        })
    }

    fn resolve_stepwise(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut components = relative.components().peekable();
        let mut reached: Option<OwnedFd> = None;
        while let Some(component) = components.next() {
            let Component::Normal(name) = component else { return Err(Errno::XDEV) };
            let here = reached.as_ref().unwrap_or(&self.descriptor);
            let wanted = if components.peek().is_some() { SEARCH } else { flags };
            let next = rustix::fs::openat(here, name, wanted | OFlags::NOFOLLOW, Mode::empty());
            reached = Some(next.map_err(|error| link_or(error, here, name))?);
        }
        reached.ok_or(Errno::INVAL)
    }
}

fn check_own(file: &File) -> io::Result<()> {
    let stat = rustix::fs::fstat(file)?;
    let is_own = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        // A second name may be that of a file which is worth something.
        && stat.st_nlink == 1;
    if is_own { Ok(()) } else { Err(io::Error::other("it is no file that a receiver of this user made")) }
}

/// A link where a directory was wanted is told as "no directory", which is what `openat2` says of other files only.
fn link_or(error: Errno, directory: impl AsFd, name: &OsStr) -> Errno {
    let is_link = || {
        let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode).is_symlink())
    };
    if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
}

/// True if the error says that something on the way is a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// True if the error says that the file system takes no such link.
pub(crate) fn lacks_links(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::XDEV | Errno::MLINK))
}

/// True if the error says that another file system is mounted on the way.
pub(crate) fn is_mount(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::XDEV.raw_os_error())
}

/// Sets the mode of an open file and the time of its content.
///
/// # Errors
/// Those of the file system.
pub(crate) fn set_metadata(file: &File, mode: u32, mtime: FileTime) -> io::Result<()> {
    filetime::set_file_handle_times(file, None, Some(mtime))?;
    Ok(rustix::fs::fchmod(file, permissions(mode))?)
}

/// Sets the mode of an open file or directory.
///
/// # Errors
/// Those of the file system.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, permissions(mode))?)
}

/// The extended attribute that says which key sent a file.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
const SENDER_ATTRIBUTE: &str = "user.dfcp.sender";

/// Writes down which key sent a file, or that none is known to have.
///
/// # Errors
/// Those of the file system, which may have no such attributes.
pub(crate) fn set_sender(file: &File, sender: Option<&str>) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        let Some(sender) = sender else {
            // The error for one that is not there has not the same name on all systems.
            let is_there = rustix::fs::fgetxattr(file, SENDER_ATTRIBUTE, &mut [0_u8; 0]).is_ok();
            return if is_there { Ok(rustix::fs::fremovexattr(file, SENDER_ATTRIBUTE)?) } else { Ok(()) };
        };
        Ok(rustix::fs::fsetxattr(file, SENDER_ATTRIBUTE, sender.as_bytes(), rustix::fs::XattrFlags::empty())?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    if sender.is_none() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// True if [`set_sender`] has written down this key.
pub(crate) fn is_sender(file: &File, sender: &str) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        // One byte more than it may have, so that a longer one is not taken for it.
        let mut value = vec![0; sender.len() + 1];
        let read = rustix::fs::fgetxattr(file, SENDER_ATTRIBUTE, &mut value);
        read.is_ok_and(|bytes| value.get(..bytes) == Some(sender.as_bytes()))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    false
}

/// Flushes the whole file system on which `file` is. Tells of what could not be written since `file` was opened.
///
/// # Errors
/// Those of the file system, or this system or file system cannot do it so that it reaches the disk and errors are told.
pub(crate) fn flush_file_system(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if tells_of_errors(&rustix::system::uname().release().to_string_lossy())
        && reaches_the_disk(rustix::fs::fstatfs(file)?.f_type)
    {
        return Ok(rustix::fs::syncfs(file)?);
    }
    let _ = file;
    Err(io::ErrorKind::Unsupported.into())
}

/// True if `syncfs` tells of errors: before Linux 5.8 it did not, and before 5.17 it ignored what the file system itself said.
#[cfg(target_os = "linux")]
pub(super) fn tells_of_errors(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 17)
}

/// True if `syncfs` on a file system of this kind leaves nothing in caches. Many succeed without having done anything: FUSE
/// and file systems of other machines do not pass it on. Overlayfs passes it on, and not the errors of what is below it.
#[cfg(target_os = "linux")]
pub(super) fn reaches_the_disk(kind: impl TryInto<u64>) -> bool {
    /// ext2 to ext4, XFS, Btrfs, F2FS, and tmpfs, which has no disk (`linux/magic.h`).
    const KINDS: [u64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];
    // A number with a sign, of 32 bits on some machines: those above 2³¹ are then none of these, which only costs time.
    kind.try_into().is_ok_and(|kind| KINDS.contains(&kind))
}

/// Opens what the user named for reading, without waiting; links are followed.
///
/// # Errors
/// Those of the file system.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    Ok(File::from(rustix::fs::open(path, READ, Mode::empty())?))
}

/// Metadata of an open file.
///
/// # Errors
/// Those of the file system.
pub(crate) fn status_of(file: &File) -> io::Result<Status> {
    Ok(Status::from_stat(&rustix::fs::fstat(file)?))
}

/// Metadata of a path that the user named; links are followed.
///
/// # Errors
/// Those of the file system.
pub(crate) fn status_of_named(path: &Path) -> io::Result<Status> {
    Ok(Status::from_stat(&rustix::fs::stat(path)?))
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(narrow(mode))
}

/// A mode in the type that this system has for it.
fn narrow<T: TryFrom<u32> + Default>(mode: u32) -> T {
    T::try_from(mode & 0o7777).unwrap_or_default()
}

/// A number whose type differs between systems.
fn wide<T: TryInto<U>, U: Default>(number: T) -> U {
    number.try_into().unwrap_or_default()
}

impl Status {
    fn from_stat(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        let changed = Duration::new(wide(stat.st_ctime), wide(stat.st_ctime_nsec));
        Self {
            kind,
            identity: Identity { device: wide(stat.st_dev), inode: wide(stat.st_ino) },
            mode: wide::<_, u32>(stat.st_mode) & 0o7777,
            names: wide(stat.st_nlink),
            len: wide(stat.st_size),
            allocated_bytes: wide::<_, u64>(stat.st_blocks).saturating_mul(STAT_BLOCK_BYTES),
            mtime_s: wide(stat.st_mtime),
            mtime_ns: wide(stat.st_mtime_nsec),
            changed: UNIX_EPOCH + changed,
        }
    }
}
