//! The output directory of a receiver: unfinished files under temporary names, finished ones renamed into place.
//!
//! Nothing is written through a symbolic link: every directory between the root and a file must be a real one. Peers
//! cannot create links, so checking before use is enough against them; other local users with write access to the
//! output directory are trusted, as they are by `tar` and `rsync`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use filetime::FileTime;
use tempfile::NamedTempFile;

use super::error::{EXISTS, Failure, FailureCode};
use super::frame::{Entry, HASH_BYTES};
use super::names::{RelativeName, TEMPORARY_PREFIX, TEMPORARY_SUFFIX};

/// Only read, write and execute for owner, group and others travel: set-user-id and its kin are never granted by a peer.
const MODE_MASK: u32 = 0o777;

/// An output directory.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    replace: bool,
    sync: bool,
}

/// A file being received. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    file: NamedTempFile,
    destination: PathBuf,
    hasher: blake3::Hasher,
    len: u64,
}

impl Store {
    /// Opens `output`, creating it if it is missing, and tries whether it can be written to. With `replace`, files
    /// that exist are replaced; with `sync`, every file is flushed to the disk before it counts as stored.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(output: &Path, replace: bool, sync: bool) -> io::Result<Self> {
        fs::create_dir_all(output)?;
        let root = output.canonicalize()?;
        temporary_in(&root)?.close()?;
        Ok(Self { root, replace, sync })
    }

    /// The directory, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes the directory `name` unless it is there; returns whether its metadata are ours to set.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn make_directory(&self, name: &RelativeName) -> Result<bool, Failure> {
        let path = self.checked_path(name)?;
        match fs::create_dir(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let metadata = fs::symlink_metadata(&path).map_err(|error| Failure::from_io("look it up", &error))?;
                if metadata.is_symlink() {
                    return Err(through_link(name.as_str()));
                }
                if !metadata.is_dir() {
                    return Err(Failure::new(FailureCode::Exists, "a file of that name is in the directory's place"));
                }
                Ok(self.replace)
            }
            Err(error) => Err(Failure::from_io("create the directory", &error)),
        }
    }

    /// Sets the metadata of a directory, once nothing more is written to it.
    ///
    /// # Errors
    /// Why they cannot be set.
    pub fn finish_directory(&self, name: &RelativeName, entry: &Entry) -> Result<(), Failure> {
        let path = self.checked_path(name)?;
        let apply = || {
            filetime::set_file_mtime(&path, mtime(entry))?;
            set_mode(&path, entry.mode)
        };
        apply().map_err(|error| Failure::from_io("set the directory's time and mode", &error))
    }

    /// Starts to receive the file `name`.
    ///
    /// # Errors
    /// Why it could not be stored even if all its bytes came.
    pub fn begin(&self, name: &RelativeName) -> Result<Staged, Failure> {
        let destination = self.checked_path(name)?;
        match fs::symlink_metadata(&destination) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(Failure::new(FailureCode::Exists, "a directory of that name exists at the receiver"));
            }
            Ok(_) if !self.replace => return Err(Failure::new(FailureCode::Exists, EXISTS)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::from_io("look it up", &error)),
        }
        let directory = destination.parent().unwrap_or(&self.root);
        let file = temporary_in(directory).map_err(|error| Failure::from_io("create the file", &error))?;
        Ok(Staged { file, destination, hasher: blake3::Hasher::new(), len: 0 })
    }

    /// Verifies a file, gives it its metadata and its final name, and returns the directory whose flushing
    /// ([`Store::sync_directory`]) makes the name durable.
    ///
    /// # Errors
    /// Why it is not stored; nothing is left behind then.
    pub fn commit(&self, staged: Staged, entry: &Entry, len: u64, hash: &[u8; HASH_BYTES]) -> Result<PathBuf, Failure> {
        let Staged { file, destination, hasher, len: received } = staged;
        if received != len || hasher.finalize() != *hash {
            let sentence = format!("its BLAKE3 hash differs after {received} of {len} bytes: send it again");
            return Err(Failure::new(FailureCode::Mismatch, sentence));
        }
        let handle = file.as_file();
        let apply = || {
            set_file_mode(handle, entry.mode)?;
            filetime::set_file_handle_times(handle, None, Some(mtime(entry)))?;
            if self.sync { handle.sync_all() } else { Ok(()) }
        };
        apply().map_err(|error| Failure::from_io("finish the file", &error))?;
        let renamed = if self.replace { file.persist(&destination) } else { file.persist_noclobber(&destination) };
        // The error holds the temporary file and removes it when dropped.
        renamed.map_err(|error| Failure::from_io("rename the finished file", &error.error))?;
        Ok(destination.parent().unwrap_or(&self.root).to_path_buf())
    }

    /// Flushes the names in `directory`, unless this store does not flush.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        // Only Unix opens directories as files; elsewhere the rename itself has to do.
        if !self.sync || !cfg!(unix) {
            return Ok(());
        }
        match File::open(directory) {
            Ok(handle) => handle.sync_all(),
            // The mode that the sender gave it may forbid reading; its names are then flushed when the system does so.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The path of `name`, after making sure that no directory on the way is a link or missing.
    fn checked_path(&self, name: &RelativeName) -> Result<PathBuf, Failure> {
        let (parents, path) = name.resolve(&self.root);
        for parent in parents {
            match fs::symlink_metadata(&parent) {
                Ok(metadata) if metadata.is_symlink() => {
                    let shown = parent.strip_prefix(&self.root).unwrap_or(&parent);
                    return Err(through_link(&shown.to_string_lossy()));
                }
                Ok(metadata) if metadata.is_dir() => {}
                Ok(_) => {
                    return Err(Failure::new(FailureCode::Exists, "a file is in the place of one of its directories"));
                }
                Err(error) => return Err(Failure::from_io("find its directory", &error)),
            }
        }
        Ok(path)
    }
}

impl Staged {
    /// Appends `data`.
    ///
    /// # Errors
    /// Why it could not be written.
    pub fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.hasher.update(data);
        self.len += data.len() as u64;
        self.file.write_all(data).map_err(|error| Failure::from_io("write the file", &error))
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing came yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn temporary_in(directory: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(TEMPORARY_PREFIX).suffix(TEMPORARY_SUFFIX).tempfile_in(directory)
}

fn through_link(directory: &str) -> Failure {
    let sentence = format!("{directory} is a symbolic link at the receiver, which does not write through links");
    Failure::new(FailureCode::Name, sentence)
}

fn mtime(entry: &Entry) -> FileTime {
    FileTime::from_unix_time(entry.mtime_s, entry.mtime_ns)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode & MODE_MASK))
}

#[cfg(unix)]
fn set_file_mode(file: &File, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(mode & MODE_MASK))
}

/// Other systems have no such mode; files keep the permissions they get there.
#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// As `set_mode`.
#[cfg(not(unix))]
fn set_file_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
