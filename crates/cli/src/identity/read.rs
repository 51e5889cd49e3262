//! Reader of a small file with restricted access.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use super::error::IdentityError;
use super::guard::{Guard, check_directories};

/// Returns the content of the file at `path`, wiped when dropped; `None` if the file is missing.
///
/// # Errors
/// Fails if the file cannot be read, exceeds `bytes_max`, or violates `guard`.
pub(super) fn read(path: &Path, bytes_max: u64, guard: Guard) -> Result<Option<Zeroizing<Vec<u8>>>, IdentityError> {
    let Some((file, _)) = open(path, guard)? else { return Ok(None) };
    content(path, file, bytes_max).map(Some)
}

/// Opens the file at `path` and checks its permissions; `None` if the file is missing.
///
/// # Errors
/// Fails as [`read`] does, before anything is read.
pub(super) fn open(path: &Path, guard: Guard) -> Result<Option<(File, Metadata)>, IdentityError> {
    let failed = |error| IdentityError::io("read", path, error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    guard.check(path, &metadata)?;
    check_directories(path)?;
    Ok(Some((file, metadata)))
}

/// Reads the rest of the file opened at `path`; the bytes are wiped when dropped.
///
/// # Errors
/// Fails if the file cannot be read or exceeds `bytes_max`.
pub(super) fn content(path: &Path, file: File, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let failed = |error| IdentityError::io("read", path, error);
    // Allocate once: a growing vector leaves copies of a secret behind.
    let mut content = Zeroizing::new(Vec::with_capacity(bytes_max as usize + 1));
    file.take(bytes_max + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > bytes_max {
        return Err(IdentityError::TooLarge { path: path.to_owned(), bytes_max });
    }
    Ok(content)
}

/// Returns the trimmed lines of `content` with their numbers from 1, without empty lines and comments.
///
/// # Errors
/// Fails at a line that is not UTF-8.
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

/// Builds the error for line `line` of `path`.
pub(super) fn wrong_line(path: &Path, line: usize, reason: impl Into<String>) -> IdentityError {
    IdentityError::Line { path: path.to_owned(), line, reason: reason.into() }
}
