//! A file of 32 secret bytes: a header comment and one line of base64.

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

/// A secret, and whether this call has made it.
pub(super) struct Secret {
    pub(super) bytes: Zeroizing<[u8; 32]>,
    pub(super) created: bool,
}

/// A kind of such files.
pub(super) struct SecretFile {
    /// One comment line.
    pub(super) header: &'static str,
    /// A secret of this kind, from 32 random bytes.
    pub(super) make: fn(&[u8; 32]) -> Zeroizing<[u8; 32]>,
    /// Error for a file that does not hold one.
    pub(super) damaged: fn(PathBuf, &'static str) -> IdentityError,
}

impl SecretFile {
    /// The secret at `path` in `directory`, made if there is none. Of several programs which do this at once, one makes it and all
    /// return it.
    ///
    /// # Errors
    /// The file is damaged, can be read by others, or cannot be read or made. It is never overwritten.
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
        // Another program was faster, and its secret is the one.
        let bytes = self.load(path)?;
        let bytes = bytes.ok_or_else(|| (self.damaged)(path.to_owned(), "it has just been made and removed again"))?;
        Ok(Secret { bytes, created: false })
    }

    /// The secret at `path`; `None` if there is no such file.
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

    /// Puts `bytes` at `path` unless something is there; `false` if so. The file appears with all its content or not at all.
    fn store(&self, bytes: &[u8; 32], directory: &ConfigDir, path: &Path) -> Result<bool, IdentityError> {
        let failed = |error| IdentityError::io("write", path, error);
        let text = Zeroizing::new(Base64Unpadded::encode_string(bytes));
        // `tempfile` makes files which nobody else can read.
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
