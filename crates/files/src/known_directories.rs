//! The directories of a session in the order in which they were sent, so that only these are listed, in the same order and once.

use std::io;

use crate::limits::DIRECTORIES_KNOWN_MAX;

/// Directories that were sent. Of each there are 8 bytes: a hash by a key of this session, for which nobody can find a second name.
#[derive(Debug)]
pub(super) struct KnownDirectories {
    key: [u8; blake3::KEY_LEN],
    hashes: Vec<u64>,
    /// Behind the last one that was listed.
    next: usize,
    /// True once there were more than [`DIRECTORIES_KNOWN_MAX`].
    is_beyond: bool,
}

impl KnownDirectories {
    /// None yet.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub(super) fn new() -> io::Result<Self> {
        let mut key = [0; blake3::KEY_LEN];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self { key, hashes: Vec::new(), next: 0, is_beyond: false })
    }

    /// A directory was sent; `which` are its name and what else tells it from others.
    pub(super) fn add(&mut self, which: &[&[u8]]) {
        if self.hashes.len() < DIRECTORIES_KNOWN_MAX {
            self.hashes.push(self.hash(which));
        } else {
            self.is_beyond = true;
        }
    }

    /// True if there were too many to know of all, so that nothing may be deleted.
    pub(super) fn is_beyond(&self) -> bool {
        self.is_beyond
    }

    /// True if a directory that is listed was sent, behind the last one which was listed.
    pub(super) fn list(&mut self, which: &[&[u8]]) -> bool {
        let hash = self.hash(which);
        let found = self.hashes[self.next..].iter().position(|known| *known == hash).filter(|_| !self.is_beyond);
        // One that is not found ends the session at a receiver; at a sender it is new, and the next one is still to be found.
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
