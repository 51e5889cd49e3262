//! Record of the directories sent in a session. Listings must name each at most once, in the order of sending.

use std::io;

use crate::limits::DIRECTORIES_KNOWN_MAX;

/// Directories sent, as hashes of 8 bytes. The hashes are keyed with a secret of this session, so that nobody can
/// construct collisions.
#[derive(Debug)]
pub(super) struct KnownDirectories {
    key: [u8; blake3::KEY_LEN],
    hashes: Vec<u64>,
    /// One past the index of the directory listed last.
    next: usize,
    /// True if more than [`DIRECTORIES_KNOWN_MAX`] directories were sent.
    is_beyond: bool,
}

impl KnownDirectories {
    /// Creates the record without directories.
    ///
    /// # Errors
    /// Fails if the system provides no random numbers.
    pub(super) fn new() -> io::Result<Self> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self { key, hashes: Vec::new(), next: 0, is_beyond: false })
    }

    /// Records that a directory was sent. `which` holds its name, and possibly other bytes that identify it.
    pub(super) fn add(&mut self, which: &[&[u8]]) {
        if self.hashes.len() < DIRECTORIES_KNOWN_MAX {
            self.hashes.push(self.hash(which));
        } else {
            self.is_beyond = true;
        }
    }

    /// Returns true if too many directories were sent to remember them all. Nothing may then be deleted.
    pub(super) fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// Returns true if the directory was sent after the one listed last, and then counts it as listed.
    pub(super) fn list(&mut self, which: &[&[u8]]) -> bool {
        let hash = self.hash(which);
        let found = self.hashes[self.next..].iter().position(|known| *known == hash).filter(|_| !self.is_beyond);
        // If the directory is unknown, a receiver ends the session. A sender ignores such a directory as new, and the
        // next known one stays due.
        if let Some(found) = found {
            self.next += found + 1;
        }
        found.is_some()
    }

    fn hash(&self, which: &[&[u8]]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        for part in which {
            hasher.update(&(part.len() as u64).to_be_bytes()).update(part);
        }
        let mut hash = [0; 8];
        hasher.finalize_xof().fill(&mut hash);
        u64::from_be_bytes(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_listed_in_order_and_once() {
        let mut known = KnownDirectories::new().unwrap();
        for name in ["a", "a/b", "c"] {
            known.add(&[name.as_bytes()]);
        }
        assert!(!known.list(&[b"d"]));
        assert!(known.list(&[b"a/b"]));
        assert!(!known.list(&[b"a/b"]), "twice");
        assert!(!known.list(&[b"a"]), "out of order");
        assert!(known.list(&[b"c"]));
    }

    #[test]
    fn where_too_many_are_sent_none_is_listed() {
        let mut known = KnownDirectories::new().unwrap();
        known.hashes = vec![0; DIRECTORIES_KNOWN_MAX - 1];
        known.add(&[b"a"]);
        assert!(!known.is_beyond());
        known.add(&[b"b"]);
        assert!(known.is_beyond() && !known.list(&[b"a"]));
        assert_eq!(known.hashes.len(), DIRECTORIES_KNOWN_MAX);
    }
}
