//! By paths, where the system has no descriptors of directories.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use filetime::FileTime;

use super::{Identity, Kind, Resolution, Status};

#[cfg(not(unix))]
impl Resolution {
    /// The best that this system has.
    pub(crate) fn of_system() -> Self {
        Self::Stepwise
    }
}

/// A directory, by its path. Relative paths are below it; a *name* is a single component.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    /// The directory at `path`, which the user named.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(path: &Path, _resolution: Resolution) -> io::Result<Self> {
        if !path.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { path: path.to_owned() })
    }

    /// The directory at `relative`; an empty path is this one.
    ///
    /// # Errors
    /// Those of the file system; [`is_link`] knows the one for a link.
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

    /// As [`Directory::directory`]. File systems are not told apart here.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn directory_on_mount(&self, relative: &Path) -> io::Result<Self> {
        self.directory(relative)
    }

    /// Nothing: there are no modes.
    ///
    /// # Errors
    /// None.
    pub(crate) fn grant_write(&self) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Nothing: there are no modes.
    ///
    /// # Errors
    /// None.
    pub(crate) fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    /// Opens what is at `relative` for reading.
    ///
    /// # Errors
    /// As [`Directory::directory`].
    pub(crate) fn file(&self, relative: &Path) -> io::Result<File> {
        let directory = self.directory(relative.parent().unwrap_or_else(|| Path::new("")))?;
        let path = directory.path.join(relative.file_name().unwrap_or_default());
        if path.symlink_metadata()?.is_symlink() {
            return Err(io::Error::other(LinkFound));
        }
        File::open(path)
    }

    /// Makes a file and opens it for reading and writing; there are no modes.
    ///
    /// # Errors
    /// Those of the file system; something of that name exists.
    pub(crate) fn create_file(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        File::create_new(self.path.join(name))
    }

    /// Opens the file `name` for reading and writing. Its owner is not known here.
    ///
    /// # Errors
    /// Those of the file system; it is not a file.
    pub(crate) fn own_file(&self, name: &OsStr) -> io::Result<File> {
        let path = self.path.join(name);
        if !path.symlink_metadata()?.is_file() {
            return Err(io::Error::other("it is no file that a receiver made"));
        }
        File::options().read(true).write(true).open(path)
    }

    /// As [`Directory::own_file`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn own_unfinished(&self, name: &OsStr) -> io::Result<File> {
        self.own_file(name)
    }

    /// Nothing: there are no modes.
    ///
    /// # Errors
    /// None.
    pub(crate) fn open_up(&self, _name: &OsStr, _identity: Identity) -> io::Result<Option<u32>> {
        Ok(None)
    }

    /// Makes a directory; there are no modes.
    ///
    /// # Errors
    /// As [`Directory::create_file`].
    pub(crate) fn make_directory(&self, name: &OsStr, _mode: u32) -> io::Result<()> {
        fs::create_dir(self.path.join(name))
    }

    /// Metadata of `name`; of a link, those of the link itself.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn status(&self, name: &OsStr) -> io::Result<Status> {
        Ok(Status::from_metadata(&self.path.join(name).symlink_metadata()?))
    }

    /// Metadata of this directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn own_status(&self) -> io::Result<Status> {
        status_of_named(&self.path)
    }

    /// Gives the file `from` the name `to`, in this directory. With `replace` a file or link of that name is replaced.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> io::Result<()> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        if replace {
            return fs::rename(from, to);
        }
        // A link is made only where there is nothing.
        fs::hard_link(&from, to)?;
        fs::remove_file(from)
    }

    /// Nothing: a path could lead elsewhere by the next call.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn make_link(&self, _target: &OsStr, _name: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The text of the symbolic link `name`.
    ///
    /// # Errors
    /// Those of the file system; it is no such link.
    pub(crate) fn link_target(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(fs::read_link(self.path.join(name))?.into_os_string())
    }

    /// Nothing, as [`Directory::make_link`].
    ///
    /// # Errors
    /// Always.
    pub(crate) fn set_link_mtime(&self, _name: &OsStr, _mtime: FileTime) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing, as [`Directory::make_link`].
    ///
    /// # Errors
    /// Always.
    pub(crate) fn add_name(&self, _from: &OsStr, _other: &Self, _to: &OsStr) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes the file or link `name`.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    /// Removes the directory `name`.
    ///
    /// # Errors
    /// Those of the file system; it is not empty.
    pub(crate) fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir(self.path.join(name))
    }

    /// The names in this directory, in no order.
    ///
    /// # Errors
    /// Those of the file system, here and at each name.
    pub(crate) fn names(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        Ok(fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name())))
    }

    /// Nothing: directories are no files here, and the system flushes names by itself.
    ///
    /// # Errors
    /// None.
    pub(crate) fn flushable(&self) -> io::Result<Option<File>> {
        Ok(None)
    }

    /// Sets the time of this directory's content.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn set_mtime(&self, mtime: FileTime) -> io::Result<()> {
        filetime::set_file_mtime(&self.path, mtime)
    }

    /// Sets the time of this directory's content; there are no modes.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn set_metadata(&self, _mode: u32, mtime: FileTime) -> io::Result<()> {
        filetime::set_file_mtime(&self.path, mtime)
    }

    /// Space that is left, bytes: not known here.
    ///
    /// # Errors
    /// None.
    pub(crate) fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// Stands for the error number that other systems have for a link.
#[derive(Debug, thiserror::Error)]
#[error("a symbolic link is on the way")]
struct LinkFound;

/// True if the error says that something on the way is a symbolic link.
pub(crate) fn is_link(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<LinkFound>())
}

/// True if the error says that links cannot be made.
pub(crate) fn lacks_links(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// No: file systems are not told apart here.
pub(crate) fn is_mount(_error: &io::Error) -> bool {
    false
}

/// Sets the time of an open file's content; there are no modes.
///
/// # Errors
/// Those of the file system.
pub(crate) fn set_metadata(file: &File, _mode: u32, mtime: FileTime) -> io::Result<()> {
    filetime::set_file_handle_times(file, None, Some(mtime))
}

/// Nothing: there are no modes.
///
/// # Errors
/// None.
pub(crate) fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Nothing is written down here.
///
/// # Errors
/// For any sender.
pub(crate) fn set_sender(_file: &File, sender: Option<&str>) -> io::Result<()> {
    if sender.is_none() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// No: it is never written down here.
pub(crate) fn is_sender(_file: &File, _sender: &str) -> bool {
    false
}

/// Not to be had here.
///
/// # Errors
/// Always.
pub(crate) fn flush_file_system(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens what the user named for reading; links are followed.
///
/// # Errors
/// Those of the file system.
pub(crate) fn open_named(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Metadata of an open file.
///
/// # Errors
/// Those of the file system.
pub(crate) fn status_of(file: &File) -> io::Result<Status> {
    Ok(Status::from_metadata(&file.metadata()?))
}

/// Metadata of a path that the user named; links are followed.
///
/// # Errors
/// Those of the file system.
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
        // Only "read-only" is known.
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
