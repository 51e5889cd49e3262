//! Reading a small file which only certain people may read or write.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use super::error::IdentityError;

/// What others may not do with a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Guard {
    /// Neither group nor others may do anything: a private key.
    Private,
    /// Others may do nothing, the group may read: a secret that a group of people or a service shares.
    Shared,
    /// Neither group nor others may write: a list of whom to trust.
    Trusted,
}

impl Guard {
    /// What is wrong with `metadata`, of the opened file, so that it cannot be exchanged after the check.
    #[cfg(unix)]
    pub(super) fn check(self, path: &Path, metadata: &Metadata) -> Result<(), IdentityError> {
        use std::os::unix::fs::PermissionsExt;
        let mode = metadata.permissions().mode() & 0o7777;
        let exposed = |hint| Err(IdentityError::Exposed { path: path.to_owned(), mode, hint });
        match self {
            Self::Private if mode & 0o077 != 0 => exposed("600"),
            Self::Shared if mode & 0o027 != 0 => exposed("g-w,o="),
            Self::Trusted if mode & 0o022 != 0 => Err(IdentityError::Writable { path: path.to_owned(), mode }),
            _ => Ok(()),
        }
    }

    /// There are no such modes on this system.
    #[cfg(not(unix))]
    pub(super) fn check(self, _path: &Path, _metadata: &Metadata) -> Result<(), IdentityError> {
        Ok(())
    }
}

/// The content of the file at `path`, wiped when dropped; `None` if there is no such file.
///
/// # Errors
/// It cannot be read, is larger than `bytes_max`, or its mode is not what `guard` asks for.
pub(super) fn read(path: &Path, bytes_max: u64, guard: Guard) -> Result<Option<Zeroizing<Vec<u8>>>, IdentityError> {
    let failed = |error| IdentityError::io("read", path, error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    guard.check(path, &file.metadata().map_err(failed)?)?;
    // All at once: a vector which grows leaves copies of a secret behind.
    let mut content = Zeroizing::new(Vec::with_capacity(bytes_max as usize + 1));
    file.take(bytes_max + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > bytes_max {
        return Err(IdentityError::TooLarge { path: path.to_owned(), bytes_max });
    }
    Ok(Some(content))
}

/// The lines of `content` with their numbers from 1, which carry something: trimmed, not empty, no comment.
///
/// # Errors
/// A line which is not UTF-8.
pub(super) fn lines<'a>(
    path: &'a Path,
    content: &'a [u8],
) -> impl Iterator<Item = Result<(usize, &'a str), IdentityError>> {
    content.split(|&byte| byte == b'\n').enumerate().filter_map(|(index, line)| match std::str::from_utf8(line) {
        Ok(line) => {
            let line = line.trim();
            (!line.is_empty() && !line.starts_with('#')).then_some(Ok((index + 1, line)))
        }
        Err(_) => Some(Err(wrong_line(path, index + 1, "it is not UTF-8 text"))),
    })
}

/// The error for line `line` of `path`.
pub(super) fn wrong_line(path: &Path, line: usize, reason: impl Into<String>) -> IdentityError {
    IdentityError::Line { path: path.to_owned(), line, reason: reason.into() }
}
