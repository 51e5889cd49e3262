//! Files of one session whose names a file system folds together, such as `a` and `A`: the second would silently replace the first.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use dfcp_framing::folding::folded;

use crate::beneath::{Directory, Identity};
use crate::limits::SPELLINGS_MAX;

/// Files that a session has stored or confirmed in directories that fold names.
#[derive(Debug, Default)]
pub(super) struct Spellings(BTreeSet<u64>);

/// File by its folded name and by its inode: some file systems also fold encodings, and others have no stable inodes.
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
        // The identity is zero on systems without inode numbers.
        let number = Some(identity.to_bytes()).filter(|number| *number != [0; 16]);
        let by_number = number.map(|number| short(blake3::Hasher::new().update(&number)));
        Self { by_name: short(&by_name), by_number }
    }

    fn both(self) -> impl Iterator<Item = u64> {
        std::iter::once(self.by_name).chain(self.by_number)
    }
}

impl Spellings {
    /// True if the file of this spelling may belong to the session: it does, or the table is full.
    pub(super) fn may_have(&self, there: Spelling) -> bool {
        self.0.len() >= SPELLINGS_MAX || there.both().any(|one| self.0.contains(&one))
    }

    pub(super) fn insert(&mut self, stored: Spelling) {
        if self.0.len() < SPELLINGS_MAX {
            self.0.extend(stored.both());
        }
    }
}

/// True if `directory` folds case, tested with `name` of the file `identity`.
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
        // Both exist at the same time, so they have different inodes.
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
