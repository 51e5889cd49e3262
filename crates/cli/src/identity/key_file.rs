//! The private key of this user: a header comment and one line of base64.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use base64ct::{Base64Unpadded, Encoding};
use dfcp_secure::StaticKey;
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::guard::Guard;
use super::read::{lines, read};
use crate::limits::KEY_FILE_BYTES_MAX;

const HEADER: &str = "# DFCP private key. Anyone with it can pose as you. Its public half: dfcp id\n";

/// The key of this user, and where it is kept.
#[derive(Clone, Debug)]
pub struct OwnKey {
    /// The key.
    pub key: StaticKey,
    /// The file.
    pub path: PathBuf,
    /// Whether this call has made it.
    pub created: bool,
}

/// The key in `directory`, made if there is none. Of several programs which do this at once, one makes the key and all
/// return it.
///
/// # Errors
/// The file is damaged, can be read by others, or cannot be read or made. It is never overwritten.
pub fn load_or_create(directory: &ConfigDir) -> Result<OwnKey, IdentityError> {
    let path = directory.key_file();
    directory.check()?;
    if let Some(key) = load(&path)? {
        return Ok(OwnKey { key, path, created: false });
    }
    directory.create()?;
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(IdentityError::Random)?;
    let key = StaticKey::from_seed(&seed);
    if store(&key, directory, &path)? {
        return Ok(OwnKey { key, path, created: true });
    }
    // Another program was faster, and its key is the one.
    let Some(key) = load(&path)? else {
        return Err(IdentityError::DamagedKey { path, reason: "it has just been made and removed again" });
    };
    Ok(OwnKey { key, path, created: false })
}

/// The key at `path`; `None` if there is no such file.
fn load(path: &Path) -> Result<Option<StaticKey>, IdentityError> {
    let Some(content) = read(path, KEY_FILE_BYTES_MAX, Guard::Private)? else { return Ok(None) };
    let damaged = |reason| IdentityError::DamagedKey { path: path.to_owned(), reason };
    let mut lines = lines(path, &content);
    let (_, line) = lines.next().ok_or_else(|| damaged("it is empty"))??;
    if lines.next().is_some() {
        return Err(damaged("it has more than one line"));
    }
    let mut private = Zeroizing::new([0; 32]);
    let decoded = Base64Unpadded::decode(line.strip_suffix('=').unwrap_or(line), private.as_mut_slice());
    if decoded.is_ok_and(|bytes| bytes.len() == 32) {
        return Ok(Some(StaticKey::from_bytes(&private)));
    }
    Err(damaged("its line is not the base64 of 32 bytes"))
}

/// Puts `key` at `path` unless something is there; `false` if so. The file appears with all its content or not at all.
fn store(key: &StaticKey, directory: &ConfigDir, path: &Path) -> Result<bool, IdentityError> {
    let failed = |error| IdentityError::io("write", path, error);
    let text = Zeroizing::new(Base64Unpadded::encode_string(key.to_bytes().as_slice()));
    // `tempfile` makes files which nobody else can read.
    let mut file = NamedTempFile::new_in(directory.path()).map_err(failed)?;
    for part in [HEADER, text.as_str(), "\n"] {
        file.write_all(part.as_bytes()).map_err(failed)?;
    }
    file.as_file().sync_all().map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => ConfigDir::sync(directory.path()).map(|()| true),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error.error)),
    }
}
