//! Key for stateless resets: a restarted listener proves to its peers that their sessions are gone.

use dfcp::ResetKey;
use zeroize::Zeroizing;

use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::secret_file::SecretFile;

const FILE: SecretFile = SecretFile {
    header: "# DFCP reset key of this machine: do not copy it to others. It tells peers that a restarted listener has lost their sessions.\n",
    make: |seed| Zeroizing::new(*seed),
    damaged: |path, reason| IdentityError::DamagedResetKey { path, reason },
};

/// Reads the reset key in `directory`, or creates it.
///
/// # Errors
/// Fails as [`load_or_create`](super::load_or_create) does.
pub fn load_or_create_reset_key(directory: &ConfigDir) -> Result<ResetKey, IdentityError> {
    let secret = FILE.load_or_create(directory, &directory.reset_key_file())?;
    Ok(ResetKey::from_bytes(&secret.bytes))
}
