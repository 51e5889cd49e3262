//! The private key of this user.

use std::path::PathBuf;

use dfcp_secure::StaticKey;

use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::secret_file::{Secret, SecretFile};

const FILE: SecretFile = SecretFile {
    header: "# DFCP private key. Anyone with it can pose as you. Its public half: dfcp id\n",
    make: |seed| StaticKey::from_seed(seed).to_bytes(),
    damaged: |path, reason| IdentityError::DamagedKey { path, reason },
};

/// The key of this user, and where it is kept.
#[derive(Clone, Debug)]
pub struct OwnKey {
    /// The key.
    pub key: StaticKey,
    /// The file.
    pub path: PathBuf,
    /// True if this call has made it.
    pub created: bool,
}

/// The key in `directory`, made if there is none. Of several programs which do this at once, one makes the key and all
/// return it.
///
/// # Errors
/// The file is damaged, can be read by others, or cannot be read or made. It is never overwritten.
pub fn load_or_create(directory: &ConfigDir) -> Result<OwnKey, IdentityError> {
    let path = directory.key_file();
    let Secret { bytes, created } = FILE.load_or_create(directory, &path)?;
    Ok(OwnKey { key: StaticKey::from_bytes(&bytes), path, created })
}
