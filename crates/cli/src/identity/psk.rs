//! Pre-shared keys (`--psk-file`).

use std::path::Path;

use dfcp_secure::PreSharedKey;

use super::error::IdentityError;
use super::guard::Guard;
use super::read::read;
use crate::limits::PSK_FILE_BYTES_MAX;

/// Reads the pre-shared key from the file or pipe at `path`.
///
/// # Errors
/// Fails if the file is missing, too large or too short, or if other users can read it or replace it in its directory.
pub fn load_psk(path: &Path) -> Result<PreSharedKey, IdentityError> {
    let Some(content) = read(path, PSK_FILE_BYTES_MAX, Guard::Private)? else {
        return Err(IdentityError::io("read", path, std::io::ErrorKind::NotFound.into()));
    };
    PreSharedKey::from_file_content(&content).map_err(|error| IdentityError::PreShared { path: path.to_owned(), error })
}
