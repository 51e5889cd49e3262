//! Reading a small file which only certain people may read or write.

use std::fs::{File, Metadata};
use std::io::Read;
use std::path::Path;

use zeroize::Zeroizing;

use super::error::IdentityError;
use super::guard::{Guard, check_directories};

/// The content of the file at `path`, wiped when dropped; `None` if there is no such file.
///
/// # Errors
/// It cannot be read, is larger than `bytes_max`, or it or its directory can be used by others in a way that `guard`
/// forbids.
pub(super) fn read(path: &Path, bytes_max: u64, guard: Guard) -> Result<Option<Zeroizing<Vec<u8>>>, IdentityError> {
    let Some((file, _)) = open(path, guard)? else { return Ok(None) };
    content(path, file, bytes_max).map(Some)
}

/// The file at `path`, opened and found to be in order; `None` if there is no such file.
///
/// # Errors
/// As [`read`], except that nothing is read yet.
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

/// Rest of a file which was opened at `path`, wiped when dropped.
///
/// # Errors
/// It cannot be read, or is larger than `bytes_max`.
pub(super) fn content(path: &Path, file: File, bytes_max: u64) -> Result<Zeroizing<Vec<u8>>, IdentityError> {
    let failed = |error| IdentityError::io("read", path, error);
    // All at once: a vector which grows leaves copies of a secret behind.
    let mut content = Zeroizing::new(Vec::with_capacity(bytes_max as usize + 1));
    file.take(bytes_max + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > bytes_max {
        return Err(IdentityError::TooLarge { path: path.to_owned(), bytes_max });
    }
    Ok(content)
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
