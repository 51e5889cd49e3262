//! Links of the sender's trees: names of hard-linked files, and links to be sent after all files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use dfcp_framing::files::LinkKind;
use dfcp_framing::limits::{LINK_TARGET_BYTES_MAX, LINKS_MAX};
use dfcp_framing::names::RelativeName;

use crate::beneath::{Identity, Status};
use crate::limits::{HARD_LINKED_FILES_MAX, LINK_BYTES_MAX};

/// First name found for each file with several hard links, by inode.
#[derive(Debug, Default)]
pub(super) struct FirstNames {
    names: BTreeMap<Identity, RelativeName>,
    bytes: usize,
}

/// Role of a name found in the search among the hard links of its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// The file has no other hard links.
    Only,
    /// The file has other hard links, and this name was found first.
    First,
    /// The file was already found under the contained name.
    Further(RelativeName),
    /// The role is unknown, because the table is full.
    Unknown,
}

impl FirstNames {
    /// Records a name of a file and returns its role.
    pub(super) fn add(&mut self, name: &RelativeName, status: &Status) -> Named {
        if status.names < 2 {
            return Named::Only;
        }
        if let Some(first) = self.names.get(&status.identity) {
            return Named::Further(first.clone());
        }
        let bytes = self.bytes.saturating_add(name.as_bytes().len());
        let is_too_much = self.names.len() >= HARD_LINKED_FILES_MAX || bytes > LINK_BYTES_MAX;
        // A frame cannot hold two long names, so later names could not refer to this one.
        if is_too_much || name.as_bytes().len() > LINK_TARGET_BYTES_MAX {
            return Named::Unknown;
        }
        self.bytes = bytes;
        self.names.insert(status.identity, name.clone());
        Named::First
    }
}

/// Link to be sent after all files.
#[derive(Debug)]
pub(super) struct FoundLink {
    /// Path of the link, for messages.
    pub(super) path: PathBuf,
    pub(super) name: RelativeName,
    pub(super) kind: LinkKind,
    /// Target, encoded as in the frame.
    pub(super) target: Vec<u8>,
    pub(super) mtime: (i64, u32),
}

/// Links to be sent after all files.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    links: Vec<FoundLink>,
    bytes: usize,
}

impl Waiting {
    /// Adds a link. Returns false if the limit is reached.
    pub(super) fn push(&mut self, link: FoundLink) -> bool {
        let bytes = self.bytes.saturating_add(link.name.as_bytes().len() + link.target.len());
        let has_room = self.links.len() < LINKS_MAX as usize && bytes <= LINK_BYTES_MAX;
        if has_room {
            self.bytes = bytes;
            self.links.push(link);
        }
        has_room
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn into_links(self) -> Vec<FoundLink> {
        self.links
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::beneath::{status_of, status_of_named};

    fn name(text: &str) -> RelativeName {
        RelativeName::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_with_several_names_is_known_by_the_first() {
        let here = tempfile::tempdir().unwrap();
        let [one, two, alone] = ["one", "two", "alone"].map(|name| here.path().join(name));
        fs::write(&one, "x").unwrap();
        fs::hard_link(&one, &two).unwrap();
        fs::write(&alone, "x").unwrap();
        let mut names = FirstNames::default();
        let status = |path: &std::path::Path| status_of_named(path).unwrap();
        assert_eq!(names.add(&name("t/alone"), &status(&alone)), Named::Only);
        assert_eq!(names.add(&name("t/one"), &status(&one)), Named::First);
        assert_eq!(names.add(&name("t/two"), &status(&two)), Named::Further(name("t/one")));
    }

    #[test]
    fn only_so_many_files_with_several_names_are_remembered() {
        let status = status_of(&tempfile::tempfile().unwrap()).unwrap();
        let mut names = FirstNames::default();
        let number = |number: usize| Status { names: 2, identity: Identity::numbered(number as u64), ..status };
        for one in 0..HARD_LINKED_FILES_MAX {
            assert_eq!(names.add(&name("f"), &number(one)), Named::First);
        }
        assert_eq!(names.add(&name("f"), &number(HARD_LINKED_FILES_MAX)), Named::Unknown);
        assert_eq!(names.add(&name("g"), &number(0)), Named::Further(name("f")));
        let mut names = FirstNames::default();
        let long = name(&vec!["x".repeat(200); 20].join("/"));
        assert!(long.as_bytes().len() > LINK_TARGET_BYTES_MAX);
        assert_eq!(names.add(&long, &number(0)), Named::Unknown);
    }

    #[test]
    fn links_which_wait_are_bounded_in_bytes_and_number() {
        let link = |target_bytes| FoundLink {
            path: PathBuf::new(),
            name: name("l"),
            kind: LinkKind::Symbolic,
            target: vec![b'x'; target_bytes],
            mtime: (0, 0),
        };
        let mut waiting = Waiting::default();
        assert!(waiting.push(link(LINK_BYTES_MAX - 2)) && waiting.push(link(0)));
        assert!(!waiting.push(link(0)), "one byte too many");
        let mut waiting = Waiting::default();
        for _ in 0..LINKS_MAX {
            assert!(waiting.push(link(1)));
        }
        assert!(!waiting.push(link(1)));
    }
}
