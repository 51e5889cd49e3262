//! Private key of this user.

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
    let Secret { bytes, created } = FILE.load_or_create(directory, &path)?;
    Ok(OwnKey { key: StaticKey::from_bytes(&bytes), path, created })
}
