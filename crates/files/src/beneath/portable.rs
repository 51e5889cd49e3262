//! Path-based fallback for systems without directory descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use filetime::FileTime;

use super::{Identity, Kind, Resolution, Status};

#[cfg(not(unix))]
impl Resolution {
    /// Returns the best method of this system.
    pub(crate) fn of_system() -> Self {
        Self::Stepwise
    }
}

/// Directory, identified by its path. Relative paths start here; a *name* is a single component.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens the directory at `path`, which the user named.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn open(path: &Path, _resolution: Resolution) -> io::Result<Self> {
        if !path.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Opens the directory at `relative`, or this directory again if the path is empty.
    ///
    /// # Errors
    /// Passes on errors of the file system; [`is_link`] recognises the error for a symbolic link.
    pub(crate) fn directory(&self, relative: &Path) -> io::Result<Self> {
        let mut path = self.path.clone();
        for component in relative.components() {
            path.push(component);
            match path.symlink_metadata()? {
                metadata if metadata.is_symlink() => return Err(io::Error::other(LinkFound)),
                metadata if !metadata.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
                _ => {}
            }
        }
        Ok(Self { path })
    }

    /// Opens a directory as [`Directory::directory`] does; mount points are not detected on this system.
    ///
    /// # Errors
    /// Fails as [`Directory::directory`] does.
    pub(crate) fn directory_on_mount(&self, relative: &Path) -> io::Result<Self> {
        self.directory(relative)
    }

    /// Does nothing: this system has no modes.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn grant_write(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Does nothing: this system has no modes.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    /// Opens the file at `relative` for reading.
    ///
    /// # Errors
    /// Fails as [`Directory::directory`] does.
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        let directory = self.directory(relative.parent().unwrap_or_else(|| Path::new("")))?;
        let path = directory.path.join(relative.file_name().unwrap_or_default());
        if path.symlink_metadata()?.is_symlink() {
            return Err(io::Error::other(LinkFound));
        }
        File::open(path)
    }

    /// Creates a file and opens it for reading and writing; the mode is ignored.
    ///
    /// # Errors
    /// Fails if the name exists, or if the file system fails.
    pub(crate) fn create_file(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        File::create_new(self.path.join(name))
    }

    /// Opens the file `name` for reading and writing. This system cannot check the file's owner.
    ///
    /// # Errors
    /// Fails if `name` is not a regular file, or if the file system fails.
    pub(crate) fn own_file(&self, name: &OsStr) -> io::Result<File> {
        let path = self.path.join(name);
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("it is no file that a receiver made"));
        }
        File::options().read(true).write(true).open(path)
    }

    /// Opens a file as [`Directory::own_file`] does.
    ///
    /// # Errors
    /// Fails as [`Directory::own_file`] does.
    pub(crate) fn own_unfinished(&self, name: &OsStr) -> io::Result<File> {
        self.own_file(name)
    }

    /// Does nothing: this system has no modes.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn open_up(&self, _name: &OsStr, _identity: Identity) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Creates a directory; the mode is ignored.
    ///
    /// # Errors
    /// Fails as [`Directory::create_file`] does.
    pub(crate) fn make_directory(&self, name: &OsStr, _mode: u32) -> io::Result<()> {
        fs::create_dir(self.path.join(name))
    }

    /// Returns the metadata of `name`. Symbolic links are not followed.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn status(&self, name: &OsStr) -> io::Result<Status> {
        Ok(Status::from_metadata(&self.path.join(name).symlink_metadata()?))
    }

    /// Returns the metadata of this directory.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn own_status(&self) -> io::Result<Status> {
        status_of_named(&self.path)
    }

    /// Renames `from` to `to` within this directory. With `replace`, an existing file or link is replaced.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        if replace {
            return fs::rename(from, to);
        }
        // Creating a hard link fails if the name exists; a rename would replace it.
        fs::hard_link(&from, to)?;
        fs::remove_file(from)
    }

    /// Unsupported: without descriptors, the directory's path could lead elsewhere by now.
    ///
    /// # Errors
    /// Always fails.
    pub(crate) fn make_link(&self, _target: &OsStr, _name: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the target of the symbolic link `name`.
    ///
    /// # Errors
    /// Fails if `name` is not a symbolic link, or if the file system fails.
    pub(crate) fn link_target(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(fs::read_link(self.path.join(name))?.into_os_string())
    }

    /// Unsupported, for the reason given at [`Directory::make_link`].
    ///
    /// # Errors
    /// Always fails.
    pub(crate) fn set_link_mtime(&self, _name: &OsStr, _mtime: FileTime) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Unsupported, for the reason given at [`Directory::make_link`].
    ///
    /// # Errors
    /// Always fails.
    pub(crate) fn add_name(&self, _from: &OsStr, _other: &Self, _to: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes the file or symbolic link `name`.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    /// Removes the empty directory `name`.
    ///
    /// # Errors
    /// Fails if the directory is not empty, or if the file system fails.
    pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.path.join(name))
    }

    /// Returns the names in this directory, unordered.
    ///
    /// # Errors
    /// The call fails if the directory cannot be opened; an item is an error if reading a name fails.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        Ok(fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())))
    }

    /// Returns `None`: this system cannot open directories as files, and flushes names itself.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn flushable(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Sets the modification time of this directory.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        filetime::set_file_mtime(&self.path, mtime)
    }

    /// Sets the modification time of this directory; this system has no modes.
    ///
    /// # Errors
    /// Passes on errors of the file system.
    pub(crate) fn set_metadata(&self, _mode: u32, mtime: FileTime) -> io::Result<()> {
        filetime::set_file_mtime(&self.path, mtime)
    }

    /// Returns `None`: this system does not report its free space.
    ///
    /// # Errors
    /// Never fails.
    pub(crate) fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// Error for a symbolic link on the path, which Unix reports as `ELOOP`.
#[derive(Debug, thiserror::Error)]
#[error("a symbolic link is on the way")]
struct LinkFound;

/// Returns true if the error means that the path contains a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<LinkFound>())
}

/// Returns true if the error means that this system cannot create links.
pub(crate) fn lacks_links(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// Returns false: this system does not distinguish file systems.
pub(crate) fn is_mount(_error: &io::Error) -> bool {
    false
}

/// Sets the modification time of an open file; this system has no modes.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn set_metadata(file: &File, _mode: u32, mtime: FileTime) -> io::Result<()> {
    filetime::set_file_handle_times(file, None, Some(mtime))
}

/// Does nothing: this system has no modes.
///
/// # Errors
/// Never fails.
pub(crate) fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Fails if a sender is given: this system stores no extended attributes.
///
/// # Errors
/// Fails if a sender is given.
pub(crate) fn set_sender(_file: &File, sender: Option<&str>) -> io::Result<()> {
    if sender.is_none() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Returns false: this system cannot store the name of a sender with a file.
pub(crate) fn is_sender(_file: &File, _sender: &str) -> bool {
    false
}

/// Unsupported on this system.
///
/// # Errors
/// Always fails.
pub(crate) fn flush_file_system(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens for reading the path that the user named; symbolic links are followed.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the metadata of an open file.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn status_of(file: &File) -> io::Result<Status> {
    Ok(Status::from_metadata(&file.metadata()?))
}

/// Returns the metadata of the path that the user named; symbolic links are followed.
///
/// # Errors
/// Passes on errors of the file system.
pub(crate) fn status_of_named(path: &Path) -> io::Result<Status> {
    Ok(Status::from_metadata(&path.metadata()?))
}

impl Status {
    fn from_metadata(metadata: &Metadata) -> Self {
        let kind = match metadata.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        // The system distinguishes only read-only and writable files.
        let execute = if metadata.is_dir() { 0o111 } else { 0 };
        let mode = execute | if metadata.permissions().readonly() { 0o444 } else { 0o644 };
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH);
        let (mtime_s, mtime_ns) = match modified.duration_since(UNIX_EPOCH) {
            Ok(after) => (i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => (-seconds, 0),
                    nanos => (-seconds - 1, 1_000_000_000 - nanos),
                }
            }
        };
        let identity = Identity { device: 0, inode: 0 };
        let len = metadata.len();
        Self { kind, identity, mode, names: 1, len, allocated_bytes: len, mtime_s, mtime_ns, changed: modified }
    }
}
