//! Files of one session whose names the file system does not distinguish, such as `a` and `A`. The second would
//! silently replace the first.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use dfcp_framing::folding::folded;

use crate::beneath::{Directory, Identity};
use crate::limits::SPELLINGS_MAX;

/// Files that a session has stored or confirmed in directories that fold names.
#[derive(Debug, Default)]
pub(super) struct Spellings(BTreeSet<u64>);

/// Hashes of a file's folded name and of its inode. Both are needed: some file systems fold more than case, and others
/// have no stable inode numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spelling {
    by_name: u64,
    by_number: Option<u64>,
}

impl Spelling {
    pub(super) fn of(path: &Path, identity: Identity) -> Self {
        let mut by_name = blake3::Hasher::new();
        for component in path {
            by_name.update(&folded(component.as_encoded_bytes())).update(b"/");
        }
        let short = |hasher: &blake3::Hasher| {
            let mut first = [0; 8];
            hasher.finalize_xof().fill(&mut first);
            u64::from_be_bytes(first)
        };
        // Device and inode are zero on systems without inode numbers.
        let number = Some(identity.to_bytes()).filter(|number| *number != [0; 16]);
        let by_number = number.map(|number| short(blake3::Hasher::new().update(&number)));
        Self { by_name: short(&by_name), by_number }
    }

    fn both(self) -> impl Iterator<Item = u64> {
        std::iter::once(self.by_name).chain(self.by_number)
    }
}

impl Spellings {
    /// Returns true if the file with this spelling may belong to the session. This is also true for all files once the
    /// table is full.
    pub(super) fn may_have(&self, there: Spelling) -> bool {
        self.0.len() >= SPELLINGS_MAX || there.both().any(|one| self.0.contains(&one))
    }

    pub(super) fn insert(&mut self, stored: Spelling) {
        if self.0.len() < SPELLINGS_MAX {
            self.0.extend(stored.both());
        }
    }
}

/// Returns true if `directory` folds case: it also has `name`, which belongs to the file `identity`, in upper case.
pub(super) fn folds(directory: &Directory, name: &OsStr, identity: Identity) -> bool {
    let Some(other) = name.to_str().map(|name| OsString::from(name.to_ascii_uppercase())) else { return false };
    other != *name && directory.status(&other).is_ok_and(|status| status.identity == identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beneath::status_of;

    #[test]
    fn a_file_is_known_by_its_name_or_by_its_number_and_beyond_the_limit_any_may_be() {
        // Both files exist at the same time, so their inode numbers differ.
        let files = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        let [one, other] = files.each_ref().map(|file| status_of(file).unwrap().identity);
        let name = |name: &'static str| Path::new(name);
        let mut spellings = Spellings::default();
        spellings.insert(Spelling::of(name("D/\u{c4}."), one));
        assert!(spellings.may_have(Spelling::of(name("d/\u{e4}"), other)));
        assert_eq!(spellings.may_have(Spelling::of(name("x"), one)), cfg!(unix));
        assert!(!spellings.may_have(Spelling::of(name("d/a"), other)));
        for number in 0..SPELLINGS_MAX {
            spellings.insert(Spelling { by_name: number as u64, by_number: None });
        }
        assert_eq!(spellings.0.len(), SPELLINGS_MAX);
        assert!(spellings.may_have(Spelling::of(name("d/a"), other)));
    }
}
