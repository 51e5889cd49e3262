//! File format of a 32-byte secret: a header comment and one line of base64.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use base64ct::{Base64Unpadded, Encoding};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use super::config_dir::ConfigDir;
use super::error::IdentityError;
use super::guard::Guard;
use super::read::{lines, read};
use crate::limits::KEY_FILE_BYTES_MAX;

/// Secret, with a flag that is true if this call created it.
pub(super) struct Secret {
    pub(super) bytes: Zeroizing<[u8; 32]>,
    pub(super) created: bool,
}

/// Kind of secret file.
pub(super) struct SecretFile {
    /// Comment line at the start of the file.
    pub(super) header: &'static str,
    /// Constructor of the secret from 32 random bytes.
    pub(super) make: fn(&[u8; 32]) -> Zeroizing<[u8; 32]>,
    /// Constructor of the error for a damaged file.
    pub(super) damaged: fn(PathBuf, &'static str) -> IdentityError,
}

impl SecretFile {
    /// Reads the secret at `path` in `directory`, or creates it. Of several concurrent programs, one creates it and all return it.
    ///
    /// # Errors
    /// Fails if the file is damaged, readable by others, or cannot be read or created. An existing file is never overwritten.
    pub(super) fn load_or_create(&self, directory: &ConfigDir, path: &Path) -> Result<Secret, IdentityError> {
        directory.check()?;
        if let Some(bytes) = self.load(path)? {
            return Ok(Secret { bytes, created: false });
        }
        directory.create()?;
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut_slice()).map_err(IdentityError::Random)?;
        let bytes = (self.make)(&seed);
        if self.store(&bytes, directory, path)? {
            return Ok(Secret { bytes, created: true });
        }
        // Another program created the file first; its secret counts.
        let bytes = self.load(path)?;
        let bytes = bytes.ok_or_else(|| (self.damaged)(path.to_owned(), "it has just been made and removed again"))?;
        Ok(Secret { bytes, created: false })
    }

    /// Reads the secret at `path`; `None` if the file is missing.
    fn load(&self, path: &Path) -> Result<Option<Zeroizing<[u8; 32]>>, IdentityError> {
        let Some(content) = read(path, KEY_FILE_BYTES_MAX, Guard::Private)? else { return Ok(None) };
        let damaged = |reason| (self.damaged)(path.to_owned(), reason);
        let mut lines = lines(path, &content);
        let (_, line) = lines.next().ok_or_else(|| damaged("it is empty"))??;
        if lines.next().is_some() {
            return Err(damaged("it has more than one line"));
        }
        let mut bytes = Zeroizing::new([0; 32]);
        let decoded = Base64Unpadded::decode(line.strip_suffix('=').unwrap_or(line), bytes.as_mut_slice());
        if decoded.is_ok_and(|decoded| decoded.len() == 32) {
            return Ok(Some(bytes));
        }
        Err(damaged("its line is not the base64 of 32 bytes"))
    }

    /// Stores `bytes` at `path` atomically; returns false if the path exists.
    fn store(&self, bytes: &[u8; 32], directory: &ConfigDir, path: &Path) -> Result<bool, IdentityError> {
        let failed = |error| IdentityError::io("write", path, error);
        let text = Zeroizing::new(Base64Unpadded::encode_string(bytes));
        // `tempfile` creates files with mode 0600.
        let mut file = NamedTempFile::new_in(directory.path()).map_err(failed)?;
        for part in [self.header, text.as_str(), "\n"] {
            file.write_all(part.as_bytes()).map_err(failed)?;
        }
        file.as_file().sync_all().map_err(failed)?;
        match file.persist_noclobber(path) {
            Ok(_) => ConfigDir::sync(directory.path()).map(|()| true),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(failed(error.error)),
        }
    }
}
