//! Key files: this user's private key, the reset key, and pre-shared keys (`--psk-file`).

use std::path::{Path, PathBuf};

use dfcp::ResetKey;
use dfcp_secure::{PreSharedKey, StaticKey};
use zeroize::Zeroizing;

use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::guard::Guard;
use super::read::read;
use super::secret_file::{Secret, SecretFile};
use crate::limits::PSK_FILE_BYTES_MAX;

/// File of the private key.
const PRIVATE_KEY: SecretFile = SecretFile {
    header: "# DFCP private key. Anyone with it can pose as you. Its public half: dfcp id\n",
    make: |seed| StaticKey::from_seed(seed).to_bytes(),
    damaged: |path, reason| IdentityError::DamagedKey { path, reason },
};

/// File of the key for stateless resets: a restarted listener proves to its peers that their sessions are lost.
const RESET_KEY: SecretFile = SecretFile {
    header: "# DFCP reset key of this machine: do not copy it to others. It tells peers that a restarted listener has lost their sessions.\n",
    make: |seed| Zeroizing::new(*seed),
    damaged: |path, reason| IdentityError::DamagedResetKey { path, reason },
};

/// Private key of this user, with its path.
#[derive(Clone, Debug)]
pub struct OwnKey {
    /// The key.
    pub key: StaticKey,
    /// The file.
    pub path: PathBuf,
    /// True if this call created the key.
    pub created: bool,
}

/// Reads the key in `directory`, or creates it. Of several concurrent programs, one creates the key and all return it.
///
/// # Errors
/// Fails if the file is damaged, readable by others, or cannot be read or created. An existing file is never overwritten.
pub fn load_or_create(directory: &ConfigDir) -> Result<OwnKey, IdentityError> {
    let path = directory.key_file();
    let Secret { bytes, created } = PRIVATE_KEY.load_or_create(directory, &path)?;
    Ok(OwnKey { key: StaticKey::from_bytes(&bytes), path, created })
}

/// Reads the reset key in `directory`, or creates it.
///
/// # Errors
/// Fails as [`load_or_create`] does.
pub fn load_or_create_reset_key(directory: &ConfigDir) -> Result<ResetKey, IdentityError> {
    let secret = RESET_KEY.load_or_create(directory, &directory.reset_key_file())?;
    Ok(ResetKey::from_bytes(&secret.bytes))
}

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
