//! A key which both sides were given beforehand (`--psk-file`).

use std::path::Path;

use dfcp_secure::PreSharedKey;

use super::error::IdentityError;
use super::guard::Guard;
use super::read::read;
use crate::limits::PSK_FILE_BYTES_MAX;

/// The key made from the content of the file at `path`. It may be a pipe.
///
/// # Errors
/// The file is missing, too large or too short, or others can read it, or replace it in its directory.
pub fn load_psk(path: &Path) -> Result<PreSharedKey, IdentityError> {
    let Some(content) = read(path, PSK_FILE_BYTES_MAX, Guard::Private)? else {
        return Err(IdentityError::io("read", path, std::io::ErrorKind::NotFound.into()));
    };
    PreSharedKey::from_file_content(&content).map_err(|error| IdentityError::PreShared { path: path.to_owned(), error })
}
