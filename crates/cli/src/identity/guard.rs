//! Owner and permission checks of identity files, like `StrictModes` of `sshd`.
//!
//! Three objects are checked: the opened file, the directory of its name, and, if that name is a link, the directory of the target. Each
//! must belong to this user or root, and must not be writable by group or others; a secret must not be readable by them either. Parent
//! directories are not checked.

use std::fs::Metadata;
use std::path::Path;

use super::error::IdentityError;

/// Access that group and others must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Group and others have no access: a secret.
    Private,
    /// Group and others cannot write: a list of trusted keys, or a directory.
    Trusted,
}

impl Guard {
    /// Checks the `metadata` of the opened file, so that the file cannot be swapped after the check.
    #[cfg(unix)]
    pub(super) fn check(self, path: &Path, metadata: &Metadata) -> Result<(), IdentityError> {
        use std::os::unix::fs::MetadataExt;
        self.judge(path, metadata.uid(), metadata.mode() & 0o7777, rustix::process::geteuid().as_raw())
    }

    /// Accepts every file: this system has no Unix owners and modes.
    #[cfg(not(unix))]
    pub(super) fn check(self, _path: &Path, _metadata: &Metadata) -> Result<(), IdentityError> {
        Ok(())
    }

    /// Core of [`Guard::check`]: `owner` and `mode` of the file, judged for `user`.
    #[cfg(unix)]
    pub(super) fn judge(self, path: &Path, owner: u32, mode: u32, user: u32) -> Result<(), IdentityError> {
        const ROOT: u32 = 0;
        let path = || path.to_owned();
        match self {
            _ if owner != user && owner != ROOT => Err(IdentityError::Foreign { path: path(), owner, user }),
            Self::Private if mode & 0o077 != 0 => Err(IdentityError::Exposed { path: path(), mode }),
            Self::Trusted if mode & 0o022 != 0 => Err(IdentityError::Writable { path: path(), mode }),
            _ => Ok(()),
        }
    }
}

/// Checks that other users cannot replace the file at `path`: its directory must be safe and, if `path` is a link, the
/// directory of the target, too.
///
/// # Errors
/// Fails if other users can replace the file, or if the metadata of a directory cannot be read.
#[cfg(unix)]
pub(super) fn check_directories(path: &Path) -> Result<(), IdentityError> {
    use std::fs;
    use std::io::ErrorKind;

    let check = |directory: &Path| {
        let metadata = fs::metadata(directory).map_err(|error| IdentityError::io("look at", directory, error))?;
        Guard::Trusted.check(directory, &metadata)
    };
    let named = std::path::absolute(path).map_err(|error| IdentityError::io("find", path, error))?;
    named.parent().map_or(Ok(()), check)?;
    match fs::canonicalize(path) {
        Ok(real) if real.parent() != named.parent() => real.parent().map_or(Ok(()), check),
        Ok(_) => Ok(()),
        // A shell's pipe (`/dev/fd/63`) has no directory.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(IdentityError::io("find", path, error)),
    }
}

/// Accepts every path: this system has no Unix owners and modes.
#[cfg(not(unix))]
pub(super) fn check_directories(_path: &Path) -> Result<(), IdentityError> {
    Ok(())
}
