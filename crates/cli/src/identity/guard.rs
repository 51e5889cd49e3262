//! Owner and permissions of a file of an identity, in the manner of `sshd`'s `StrictModes`.
//!
//! Checked are three things: the file as it was opened, the directory in which it is named, and, where that name is a link,
//! the directory in which it really is. Each must belong to this user or to root, and neither group nor others may write to
//! it; secrets, they may not read either. The directories above these are not checked.

use std::fs::Metadata;
use std::path::Path;

use super::error::IdentityError;

/// Access to a file that others must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Neither group nor others may do anything: a secret.
    Private,
    /// Neither group nor others may write: a list of trusted keys, or a directory.
    Trusted,
}

impl Guard {
    /// Checks `metadata`, of the opened file, so that it cannot be exchanged after the check.
    #[cfg(unix)]
    pub(super) fn check(self, path: &Path, metadata: &Metadata) -> Result<(), IdentityError> {
        use std::os::unix::fs::MetadataExt;
        self.judge(path, metadata.uid(), metadata.mode() & 0o7777, rustix::process::geteuid().as_raw())
    }

    /// There are no such owners and modes on this system.
    #[cfg(not(unix))]
    pub(super) fn check(self, _path: &Path, _metadata: &Metadata) -> Result<(), IdentityError> {
        Ok(())
    }

    /// As [`Guard::check`], of a file which belongs to `owner` and has `mode`, for `user`.
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

/// Checks that others cannot put something else in the place of the file at `path`, by the directories that it is in.
///
/// # Errors
/// They can, or the metadata of a directory cannot be read.
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
        // A pipe of a shell (`/dev/fd/63`) is in no directory.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(IdentityError::io("find", path, error)),
    }
}

/// There are no such owners and modes on this system.
#[cfg(not(unix))]
pub(super) fn check_directories(_path: &Path) -> Result<(), IdentityError> {
    Ok(())
}
