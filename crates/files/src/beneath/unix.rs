//! File access below a directory through open descriptors (Unix).

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

/// Flags to open a directory for lookups, which needs search permission but not read permission.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SEARCH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Flags on systems where opening a directory needs read permission.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SEARCH: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Flags to open a file for reading. Without `NONBLOCK`, opening a FIFO would wait for a writer; regular files ignore
/// the flag.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Unit of `st_blocks`, independent of the file system's block size.
const STAT_BLOCK_BYTES: u64 = 512;

impl Resolution {
    /// Returns the best method of this system. It is probed, because a seccomp filter may block `openat2` on a kernel
    /// that has it.
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

/// Resolution within one file system. All mount points are refused, including bind mounts of the same file system.
#[cfg(target_os = "linux")]
const CONFINED_TO_MOUNT: rustix::fs::ResolveFlags = CONFINED.union(rustix::fs::ResolveFlags::NO_XDEV);

/// Open directory. Relative paths start here; a *name* is a single component.
#[derive(Debug)]
pub(crate) struct Directory {
    descriptor: OwnedFd,
    resolution: Resolution,
}

impl Directory {
    /// Opens the directory at `path`, which the user named; symbolic links are followed.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn open(path: &Path, resolution: Resolution) -> io::Result<Self> {
        let descriptor = rustix::fs::open(path, SEARCH, Mode::empty())?;
        Ok(Self { descriptor, resolution })
    }

    /// Opens the directory at `relative`, or this directory again if the path is empty.
    ///
    /// # Errors
    /// Passes on errors of the file system; [`is_link`] recognises the error for a symbolic link.
    pub(crate) fn directory(&self, relative: &Path) -> io::Result<Self> {
        let descriptor = if relative.as_os_str().is_empty() {
            self.descriptor.try_clone()?
        } else {
            self.resolve(relative, SEARCH)?
        };
        Ok(Self { descriptor, resolution: self.resolution })
    }

    /// Opens a directory as [`Directory::directory`] does, if it is on the same file system as this one. Without
    /// `openat2`, mount points are detected by device number, so bind mounts of the same file system are missed.
    ///
    /// # Errors
    /// Passes on errors of the file system; [`is_mount`] recognises the error for a mount point, [`is_link`] for a
    /// symbolic link.
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

    /// Gives the owner write and search permission on this directory, if the owner is this process's user. Returns the
    /// previous mode if it changed.
    ///
    /// # Errors
    /// Passes on errors of the file system.
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
    /// Passes on errors of the file system.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.readable()?, permissions(mode))?)
    }

    /// Opens the file at `relative` for reading, without blocking. The caller must check by [`status_of`] that it is a
    /// regular file.
    ///
    /// # Errors
    /// Fails as [`Directory::directory`] does.
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        Ok(File::from(self.resolve(relative, READ)?))
    }

    /// Creates a file with `mode` minus the umask and opens it for reading and writing.
    ///
    /// # Errors
    /// Fails if the name exists, or if the file system fails.
    pub(crate) fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.descriptor, name, flags, permissions(mode))?))
    }

    /// Opens the regular file `name` for reading and writing, if it belongs to this process's user. Otherwise, data
    /// could be written to a link, a FIFO or another user's file of this name.
    ///
    /// # Errors
    /// Fails if the file is not regular, belongs to another user or has a second hard link, or if the file system
    /// fails.
    pub(crate) fn own_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?);
        check_own(&file)?;
        Ok(file)
    }

    /// Opens a file as [`Directory::own_file`] does. If its mode forbids writing, the mode is reset first: a receiver
    /// may have been killed after it set the final mode.
    ///
    /// # Errors
    /// Fails as [`Directory::own_file`] does.
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

    /// Gives the owner all rights on the directory `name` with this identity, if its owner is this process's user and
    /// lacks write permission. Returns the previous mode if it changed.
    ///
    /// # Errors
    /// Fails if another directory now has this name, or if the file system fails.
    pub(crate) fn open_up(&self, name: &OsStr, identity: Identity) -> io::Result<Option<u32>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let permitted = rustix::fs::openat(&self.descriptor, name, SEARCH | OFlags::NOFOLLOW, Mode::empty())
            .and_then(|directory| accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS));
        match permitted {
            Err(Errno::ACCESS) => {}
            // Other obstacles, such as a read-only file system, are reported by the later write.
            _ => return Ok(None),
        }
        // A directory that cannot be read keeps its mode too.
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

    /// Creates a directory with `mode` minus the umask.
    ///
    /// # Errors
    /// Fails as [`Directory::create_file`] does.
    pub(crate) fn make_directory(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.descriptor, name, permissions(mode))?)
    }

    /// Returns the metadata of `name`. Symbolic links are not followed.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn status(&self, name: &OsStr) -> io::Result<Status> {
        Ok(Status::from_stat(&rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the metadata of this directory.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn own_status(&self) -> io::Result<Status> {
        Ok(Status::from_stat(&rustix::fs::fstat(&self.descriptor)?))
    }

    /// Renames `from` to `to` within this directory. With `replace`, an existing file or link is replaced. Without it,
    /// the rename fails atomically if `to` exists.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        if replace {
            return Ok(rustix::fs::renameat(&self.descriptor, from, &self.descriptor, to)?);
        }
        #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            match renameat_with(&self.descriptor, from, &self.descriptor, to, RenameFlags::NOREPLACE) {
                // Some file systems lack `NOREPLACE`.
                Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                other => return Ok(other?),
            }
        }
        rustix::fs::linkat(&self.descriptor, from, &self.descriptor, to, AtFlags::empty())?;
        self.remove_file(from)
    }

    /// Creates the symbolic link `name` to `target`.
    ///
    /// # Errors
    /// Fails if the name exists, or if the file system fails.
    pub(crate) fn make_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.descriptor, name)?)
    }

    /// Returns the target of the symbolic link `name`.
    ///
    /// # Errors
    /// Fails if `name` is not a symbolic link, or if the file system fails.
    pub(crate) fn link_target(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.descriptor, name, Vec::new())?;
        Ok(OsStr::from_bytes(target.to_bytes()).to_owned())
    }

    /// Sets the modification time of the symbolic link `name`, not of its target.
    ///
    /// # Errors
    /// Passes on errors of the file system, which may not support times of links.
    pub(crate) fn set_link_mtime(&self, name: &OsStr, mtime: FileTime) -> io::Result<()> {
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: mtime.unix_seconds(), tv_nsec: mtime.nanoseconds().into() },
        };
        Ok(rustix::fs::utimensat(&self.descriptor, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Creates the hard link `to` in the directory `other` to the file `from`. If `from` is a symbolic link, the hard
    /// link refers to the link itself.
    ///
    /// # Errors
    /// Fails if the name exists, or if the file system fails.
    pub(crate) fn add_name(&self, from: &OsStr, other: &Self, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(&self.descriptor, from, &other.descriptor, to, AtFlags::empty())?)
    }

    /// Removes the file or symbolic link `name`.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }

    /// Removes the empty directory `name`.
    ///
    /// # Errors
    /// Fails if the directory is not empty, or if the file system fails.
    pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR)?)
    }

    /// Returns the names in this directory, unordered.
    ///
    /// # Errors
    /// The call fails if the directory cannot be opened; an item is an error if reading a name fails.
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

    /// Returns a handle for flushing this directory. `None` if its mode forbids reading; flushing is then left to the
    /// system.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn flushable(&self) -> io::Result<Option<File>> {
        match self.readable() {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the modification time of this directory.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        filetime::set_file_handle_times(&self.readable()?, None, Some(mtime))
    }

    /// Sets mode and modification time of this directory.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn set_metadata(&self, mode: u32, mtime: FileTime) -> io::Result<()> {
        set_metadata(&self.readable()?, mode, mtime)
    }

    fn readable(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::openat(&self.descriptor, ".", flags, Mode::empty())?))
    }

    /// Returns the space available to this user on the directory's file system, bytes. `None` if the system reports
    /// zero blocks in total: FUSE file systems without `statfs` do so, and their disk is not full.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn free_bytes(&self) -> io::Result<Option<u64>> {
        let figures = rustix::fs::fstatvfs(&self.descriptor)?;
        Ok((figures.f_blocks > 0).then(|| figures.f_bavail.saturating_mul(figures.f_frsize)))
    }

    /// Opens `relative` without following links. `openat2` refuses links itself; adding `NOFOLLOW` would change the
    /// error for the last component.
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
        // A file with a second hard link may be some other, valuable file.
        && stat.st_nlink == 1;
    if is_own { Ok(()) } else { Err(io::Error::other("it is no file that a receiver of this user made")) }
}

/// Returns the error for a symbolic link instead of "not a directory" if `name` is a link. `openat2` makes the same
/// distinction itself.
fn link_or(error: Errno, directory: impl AsFd, name: &OsStr) -> Errno {
    let is_link = || {
        let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode).is_symlink())
    };
    if error == Errno::NOTDIR && is_link() { Errno::LOOP } else { error }
}

/// Returns true if the error means that the path contains a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Returns true if the error means that the file system does not support symbolic or hard links.
pub(crate) fn lacks_links(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::XDEV | Errno::MLINK))
}

/// Returns true if the error means that the path contains a mount point.
pub(crate) fn is_mount(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::XDEV.raw_os_error())
}

/// Sets mode and modification time of an open file.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn set_metadata(file: &File, mode: u32, mtime: FileTime) -> io::Result<()> {
    filetime::set_file_handle_times(file, None, Some(mtime))?;
    Ok(rustix::fs::fchmod(file, permissions(mode))?)
}

/// Sets the mode of an open file or directory.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::fchmod(file, permissions(mode))?)
}

/// Extended attribute with the key of a file's sender.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
const SENDER_ATTRIBUTE: &str = "user.dfcp.sender";

/// Stores the key that sent a file; `None` removes it.
///
/// # Errors
/// Passes on errors of the file system, which may lack extended attributes.
pub(crate) fn set_sender(file: &File, sender: Option<&str>) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        let Some(sender) = sender else {
            // The error of a missing attribute differs between systems.
            let is_there = rustix::fs::fgetxattr(file, SENDER_ATTRIBUTE, &mut [0_u8; 0]).is_ok();
            return if is_there { Ok(rustix::fs::fremovexattr(file, SENDER_ATTRIBUTE)?) } else { Ok(()) };
        };
        Ok(rustix::fs::fsetxattr(file, SENDER_ATTRIBUTE, sender.as_bytes(), rustix::fs::XattrFlags::empty())?)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    if sender.is_none() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Returns true if [`set_sender`] stored this key.
pub(crate) fn is_sender(file: &File, sender: &str) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        // The buffer is one byte longer than expected, so that a longer value does not match.
        let mut value = vec![0; sender.len() + 1];
        let read = rustix::fs::fgetxattr(file, SENDER_ATTRIBUTE, &mut value);
        read.is_ok_and(|bytes| value.get(..bytes) == Some(sender.as_bytes()))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    false
}

/// Flushes the whole file system of `file`. Reports all write errors since `file` was opened.
///
/// # Errors
/// Passes on errors of the file system. Also fails if such a flush would not reach the disk or not report errors on
/// this system.
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

/// Returns true if `syncfs` reports all errors. Before Linux 5.8 it reported none, and before 5.17 it dropped errors of
/// the file system itself.
#[cfg(target_os = "linux")]
pub(super) fn tells_of_errors(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 17)
}

/// Returns true if `syncfs` flushes all caches on this kind of file system. FUSE and network file systems return
/// success without a flush. Overlayfs flushes, but drops the errors of the layer below.
#[cfg(target_os = "linux")]
pub(super) fn reaches_the_disk(kind: impl TryInto<u64>) -> bool {
    /// Magic numbers (`linux/magic.h`) of ext2 to ext4, XFS, Btrfs, F2FS, and tmpfs, which has no disk.
    const KINDS: [u64; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];
    // `f_type` is signed and 32 bits wide on some machines. Magic numbers above 2³¹ never match there: files are then
    // flushed one by one.
    kind.try_into().is_ok_and(|kind| KINDS.contains(&kind))
}

/// Opens for reading the path that the user named, without blocking; symbolic links are followed.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    Ok(File::from(rustix::fs::open(path, READ, Mode::empty())?))
}

/// Returns the metadata of an open file.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn status_of(file: &File) -> io::Result<Status> {
    Ok(Status::from_stat(&rustix::fs::fstat(file)?))
}

/// Returns the metadata of the path that the user named; symbolic links are followed.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn status_of_named(path: &Path) -> io::Result<Status> {
    Ok(Status::from_stat(&rustix::fs::stat(path)?))
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(narrow(mode))
}

/// Converts a mode to the system's type, which is 16 bits wide on some systems.
fn narrow<T: TryFrom<u32> + Default>(mode: u32) -> T {
    T::try_from(mode & 0o7777).unwrap_or_default()
}

/// Converts a number whose integer type differs between systems; 0 if it does not fit.
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
