//! Entries of a transfer (files, directories and links) and their outcomes.

use serde::Serialize;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A file.
    #[default]
    File,
    /// A directory.
    Directory,
    /// A symbolic link, or an additional hard link of a file.
    Link,
}

/// Outcome of one file, directory or link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryOutcome {
    /// Name of the entry, escaped for a terminal.
    pub name: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// True if a file with the same content existed and nothing was written.
    pub is_unchanged: bool,
    /// True if the entry was deleted because the sender does not have it. In a dry run, true if it would be deleted.
    pub is_deleted: bool,
    /// True if the entry would be sent; only in a dry run.
    pub is_wanted: bool,
    /// Length of the content, bytes; 0 for a failed entry.
    pub bytes: u64,
    /// Bytes that were already stored by an earlier session.
    pub resumed_bytes: u64,
    /// Bytes copied from the older version that the file replaced.
    pub copied_bytes: u64,
    /// BLAKE3 hash of a file's content; `None` for other entries and failed files.
    pub hash: Option<blake3::Hash>,
    /// Sentence why the entry was not stored; `None` on success.
    pub failure: Option<String>,
}
