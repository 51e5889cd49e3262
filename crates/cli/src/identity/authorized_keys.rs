//! Authorized keys: one public key or fingerprint per line, followed by a comment.

use std::collections::BTreeSet;
use std::path::Path;

use dfcp_secure::{Fingerprint, PublicKey};

use super::error::IdentityError;
use super::guard::Guard;
use super::read::{lines, read, wrong_line};
use crate::limits::AUTHORIZED_KEYS_BYTES_MAX;

/// Set of keys, some known by fingerprint only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizedKeys {
    keys: BTreeSet<PublicKey>,
    fingerprints: BTreeSet<Fingerprint>,
}

impl AuthorizedKeys {
    /// Reads the keys in the file at `path`.
    ///
    /// # Errors
    /// Fails if the file is missing or too large, if other users can change it or replace it in its directory, or if a line does not parse.
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let Some(content) = read(path, AUTHORIZED_KEYS_BYTES_MAX, Guard::Trusted)? else {
            return Err(IdentityError::io("read", path, std::io::ErrorKind::NotFound.into()));
        };
        Self::parse(path, &content)
    }

    /// Parses the content of a file; `path` appears in errors.
    pub(super) fn parse(path: &Path, content: &[u8]) -> Result<Self, IdentityError> {
        let mut set = Self::default();
        for line in lines(path, content) {
            let (number, line) = line?;
            let word = line.split_whitespace().next().unwrap_or_default();
            if let Ok(key) = word.parse() {
                set.keys.insert(key);
            } else if let Ok(fingerprint) = word.parse() {
                set.fingerprints.insert(fingerprint);
            } else {
                return Err(wrong_line(path, number, "it begins with neither a public key nor a fingerprint"));
            }
        }
        Ok(set)
    }

    /// Returns true if the owner of `key` may connect.
    #[must_use]
    pub fn permits(&self, key: &PublicKey) -> bool {
        self.keys.contains(key) || self.fingerprints.contains(&key.fingerprint())
    }

    /// Returns true if the list admits nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.fingerprints.is_empty()
    }
}
