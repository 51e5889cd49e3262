//! Files of a session that may get hard links, because the session stored them or confirmed that its sender owns them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::beneath::Identity;
use crate::limits::HARD_LINKED_FILES_MAX;

const HASH_BYTES: usize = 16;

/// Hashes of path and inode together. Neither another file under the same path nor another path of the same file
/// matches.
#[derive(Debug, Default)]
pub(super) struct Linkable(BTreeSet<[u8; HASH_BYTES]>);

impl Linkable {
    /// Adds a stored file. Beyond [`HARD_LINKED_FILES_MAX`] files, it is ignored and gets no hard links.
    pub(super) fn insert(&mut self, path: &Path, identity: Identity) {
        if self.0.len() < HARD_LINKED_FILES_MAX {
            self.0.insert(hash(path, identity));
        }
    }

    /// Returns true if this file was stored in this session under this path.
    pub(super) fn has(&self, path: &Path, identity: Identity) -> bool {
        self.0.contains(&hash(path, identity))
    }
}

fn hash(path: &Path, identity: Identity) -> [u8; HASH_BYTES] {
    let mut hash = [0; HASH_BYTES];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&identity.to_bytes()).update(path.as_os_str().as_encoded_bytes()).finalize_xof().fill(&mut hash);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beneath::status_of;

    #[cfg(unix)]
    #[test]
    fn a_file_is_known_by_its_name_and_its_number_and_only_so_many_are() {
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        let [one, other] = files.each_ref().map(|file| status_of(file).unwrap().identity);
        let mut linkable = Linkable::default();
        linkable.insert(Path::new("d/a"), one);
        assert!(linkable.has(Path::new("d/a"), one));
        assert!(!linkable.has(Path::new("d/a"), other));
        assert!(!linkable.has(Path::new("d/b"), one));
        for number in 0..HARD_LINKED_FILES_MAX {
            linkable.insert(Path::new(&number.to_string()), one);
        }
        assert_eq!(linkable.0.len(), HARD_LINKED_FILES_MAX);
        assert!(!linkable.has(Path::new(&(HARD_LINKED_FILES_MAX - 1).to_string()), one));
    }
}
