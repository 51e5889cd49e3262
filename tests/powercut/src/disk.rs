//! The model: a file system in memory with a volatile and a durable view.

mod direct;
mod files;
mod names;
mod power;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::io::Errno;

use crate::content::BLOCK_BYTES;
use crate::node::{Directory, Ino, Kind, Node};

pub(crate) use self::files::Settings;
pub use self::power::Loss;

/// Inode number of the root directory, as FUSE defines it.
pub(crate) const ROOT: Ino = 1;

/// Default capacity, above the use of any test. Sums of such capacities do not overflow.
const CAPACITY_BYTES: u64 = 1 << 40;

/// Longest file name, bytes (`NAME_MAX` of Linux).
const NAME_BYTES_MAX: usize = 255;

/// An unmounted file system, with the state seen by programs and the durable state. Clones share file contents, so they
/// are cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// Every node ever made, in order of creation. Removed nodes stay, because durable names may still lead to them.
    nodes: BTreeMap<Ino, Node>,
    next: Ino,
    /// Number of the next change of a directory.
    next_change: u64,
    capacity_bytes: u64,
    /// True if names that differ only in ways ignored by FAT are the same.
    folds: bool,
    /// Source of new timestamps.
    now: SystemTime,
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk {
    /// An empty file system.
    pub fn new() -> Self {
        let now = SystemTime::UNIX_EPOCH;
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut root = Node::new(Kind::Directory(Directory::default()), 0o755, owner, now);
        root.links = 1;
        let nodes = BTreeMap::from([(ROOT, root)]);
        Self { nodes, next: ROOT + 1, next_change: 0, capacity_bytes: CAPACITY_BYTES, folds: false, now }
    }

    /// Makes an empty file system that treats names as equal if they differ only in case, in dots and spaces at the
    /// end, or in U+200C (zero width non-joiner), and keeps each name as it was created. FAT, NTFS, APFS and HFS+ each
    /// do a part of this.
    pub fn folding() -> Self {
        Self { folds: true, ..Self::new() }
    }

    pub(crate) fn folds(&self) -> bool {
        self.folds
    }

    /// Bytes that can still be written before the disk is full.
    pub fn free_bytes(&self) -> u64 {
        self.free_blocks() * BLOCK_BYTES
    }

    /// Sets the free space, rounded down to blocks of 4096 bytes.
    pub fn set_free_bytes(&mut self, free_bytes: u64) {
        self.capacity_bytes = self.used_blocks() * BLOCK_BYTES + free_bytes;
    }

    pub(crate) fn used_blocks(&self) -> u64 {
        self.nodes.values().map(Node::blocks).sum()
    }

    pub(crate) fn capacity_blocks(&self) -> u64 {
        self.capacity_bytes / BLOCK_BYTES
    }

    pub(crate) fn free_blocks(&self) -> u64 {
        self.capacity_blocks().saturating_sub(self.used_blocks())
    }

    /// Sets the source of new timestamps.
    pub(crate) fn set_time(&mut self, now: SystemTime) {
        self.now = now;
    }

    pub(crate) fn node(&self, ino: Ino) -> Result<&Node, Errno> {
        self.nodes.get(&ino).ok_or(Errno::STALE)
    }

    /// Node for a modification, with updated time of change.
    fn changed_node(&mut self, ino: Ino) -> Result<&mut Node, Errno> {
        let node = self.nodes.get_mut(&ino).ok_or(Errno::STALE)?;
        node.changed = self.now;
        Ok(node)
    }

    fn entries(&self, ino: Ino) -> Result<&Directory, Errno> {
        self.node(ino)?.directory().ok_or(Errno::NOTDIR)
    }

    /// Looks `name` up in the directory `parent`.
    pub(crate) fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Ino, Errno> {
        self.entries(parent)?.get(&self.spelled(parent, name)?).ok_or(Errno::NOENT)
    }

    /// Spelling of the name in the directory `parent`, or the name itself if it does not exist.
    fn spelled(&self, parent: Ino, name: &OsStr) -> Result<OsString, Errno> {
        let entries = self.entries(parent)?;
        let same = |other: &&OsString| folded(other) == folded(name);
        let known = if self.folds { entries.entries.keys().find(same) } else { None };
        Ok(known.map_or(name, OsString::as_os_str).to_owned())
    }

    /// The entries of a directory.
    pub(crate) fn list(&self, ino: Ino) -> Result<impl Iterator<Item = (&OsStr, Ino)>, Errno> {
        Ok(self.entries(ino)?.entries.iter().map(|(name, ino)| (name.as_os_str(), *ino)))
    }

    /// Path of a node for messages. A removed node keeps its last path.
    pub(crate) fn path(&self, ino: Ino) -> PathBuf {
        let mut names = Vec::new();
        let mut at = ino;
        while let Some((parent, name)) = self.nodes.get(&at).and_then(|node| node.place.as_ref()) {
            names.push(name);
            at = *parent;
        }
        names.into_iter().rev().collect()
    }
}

/// Name without the differences that a folding file system ignores.
fn folded(name: &OsStr) -> String {
    let seen = name.to_string_lossy().to_lowercase().replace('\u{200c}', "");
    seen.trim_end_matches(['.', ' ']).to_owned()
}

#[cfg(test)]
mod tests;
