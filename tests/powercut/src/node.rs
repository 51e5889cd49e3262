//! Files, directories and symbolic links, each with a volatile and a durable state.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::SystemTime;

use crate::content::Content;

/// Inode number.
pub(crate) type Ino = u64;

/// One file, directory or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) attributes: Attributes,
    pub(crate) durable_attributes: Attributes,
    /// Time of the last change of content or attributes (`ctime`). Programs cannot set this time.
    pub(crate) changed: SystemTime,
    /// Number of names in the running file system, flushed or not. A node with 0 is kept, because the disk may still have a name that
    /// refers to it after a power cut.
    pub(crate) links: u32,
    /// Directory and name under which the node was last named, for error messages.
    pub(crate) place: Option<(Ino, OsString)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File(File),
    Directory(Directory),
    Link(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: SystemTime,
    pub(crate) modified: SystemTime,
    pub(crate) extended: BTreeMap<OsString, Vec<u8>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) content: Content,
    pub(crate) durable: Content,
    /// Smallest length since the last flush, because a truncation can become durable before later writes.
    pub(crate) shortest: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) entries: BTreeMap<OsString, Ino>,
    pub(crate) durable: BTreeMap<OsString, Ino>,
    /// Changes of names that are not yet durable, oldest first. Applied to `durable`, they give `entries`.
    pub(crate) unflushed: Vec<Change>,
}

/// A change of names in one directory. After a power cut, all or none of its names have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// Sequence number over all directories.
    pub(crate) number: u64,
    /// Changed names, each with its new inode; `None` removes the name.
    pub(crate) names: Vec<(OsString, Option<Ino>)>,
    /// Directory and sequence number of another change that becomes durable before this change. For a move between directories, the
    /// journals of real file systems guarantee that the new name is durable before the old name is removed. So a moved file never vanishes.
    pub(crate) after: Option<(Ino, u64)>,
}

impl Node {
    pub(crate) fn new(kind: Kind, mode: u32, (uid, gid): (u32, u32), now: SystemTime) -> Self {
        let mode = mode & 0o7777;
        let attributes = Attributes { mode, uid, gid, accessed: now, modified: now, extended: BTreeMap::new() };
        let durable_attributes = attributes.clone();
        Self { kind, attributes, durable_attributes, changed: now, links: 0, place: None }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        if let Kind::Directory(directory) = &self.kind { Some(directory) } else { None }
    }

    pub(crate) fn file(&self) -> Option<&File> {
        if let Kind::File(file) = &self.kind { Some(file) } else { None }
    }

    /// Length of a file's content or of a link's target.
    pub(crate) fn len(&self) -> u64 {
        match &self.kind {
            Kind::File(file) => file.content.len(),
            Kind::Link(target) => target.as_os_str().len() as u64,
            Kind::Directory(_) => 0,
        }
    }

    /// Allocated blocks. A removed file has none even while it is open: the kernel reports the last close asynchronously, so counting
    /// descriptors would make a full disk depend on timing.
    pub(crate) fn blocks(&self) -> u64 {
        self.file().filter(|_| self.links > 0).map_or(0, |file| file.content.blocks())
    }

    /// Makes the content durable. If `attributes` is true, also makes the attributes durable.
    pub(crate) fn flush(&mut self, attributes: bool) {
        match &mut self.kind {
            Kind::File(file) => {
                file.durable = file.content.clone();
                file.shortest = file.content.len();
            }
            Kind::Directory(directory) => {
                directory.durable = directory.entries.clone();
                directory.unflushed.clear();
            }
            Kind::Link(_) => {}
        }
        if attributes {
            self.durable_attributes = self.attributes.clone();
        }
    }
}

impl Directory {
    pub(crate) fn get(&self, name: &OsStr) -> Option<Ino> {
        self.entries.get(name).copied()
    }

    pub(crate) fn apply(&mut self, change: Change) {
        change.apply(&mut self.entries);
        self.unflushed.push(change);
    }

    /// Entries of a directory after a power cut, if the first `count` unflushed changes have become durable.
    pub(crate) fn with_changes(&self, count: usize) -> BTreeMap<OsString, Ino> {
        let mut entries = self.durable.clone();
        self.unflushed[..count].iter().for_each(|change| change.apply(&mut entries));
        entries
    }
}

impl Change {
    fn apply(&self, entries: &mut BTreeMap<OsString, Ino>) {
        for (name, leads_to) in &self.names {
            match leads_to {
                Some(ino) => entries.insert(name.clone(), *ino),
                None => entries.remove(name),
            };
        }
    }
}
