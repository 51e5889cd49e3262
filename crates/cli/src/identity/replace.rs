//! Atomic changes of a list that other programs may read and change at the same time.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::config_dir::ConfigDir;
use super::error::IdentityError;

/// Returns the path of the lock file that is held while the file at `path` changes.
pub fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Waits for exclusive write access to the file at `path`, held until the lock is dropped. Readers need no lock: writers rename a new file
/// into place.
///
/// # Errors
/// Passes on errors of the file system.
pub(super) fn lock(path: &Path) -> Result<File, IdentityError> {
    let path = lock_path(path);
    let failed = |error| IdentityError::io("lock", &path, error);
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Following a link would create a file elsewhere, and a pipe would block.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let file = options.open(&path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// Replaces the file at `path` atomically and durably with this content, mode 0600.
///
/// # Errors
/// Passes on errors of the file system; the old file then stays.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), IdentityError> {
    let failed = |error| IdentityError::io("write", path, error);
    // Follow links: a link at the path stays, and its target is replaced.
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == ErrorKind::NotFound => std::path::absolute(path).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    };
    let directory = real.parent().ok_or_else(|| failed(ErrorKind::IsADirectory.into()))?;
    let mut file = NamedTempFile::new_in(directory).map_err(failed)?;
    file.write_all(content).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(&real).map_err(|error| failed(error.error))?;
    ConfigDir::sync(directory)
}

/// Appends a line to `content`, after a newline if the last line lacks one.
pub(super) fn append_line(content: &mut Vec<u8>, line: &str) {
    if content.last().is_some_and(|&byte| byte != b'\n') {
        content.push(b'\n');
    }
    content.extend_from_slice(line.as_bytes());
    content.push(b'\n');
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_made_for_its_owner_alone_and_never_through_a_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let directory = tempfile::tempdir().unwrap();
        let list = directory.path().join("list");
        drop(lock(&list).unwrap());
        assert_eq!(fs::metadata(lock_path(&list)).unwrap().permissions().mode() & 0o7777, 0o600);
        fs::remove_file(lock_path(&list)).unwrap();
        symlink(directory.path().join("elsewhere"), lock_path(&list)).unwrap();
        assert!(lock(&list).is_err());
        assert!(!directory.path().join("elsewhere").exists());
    }
}
