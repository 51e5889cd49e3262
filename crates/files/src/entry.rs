//! Entries of a transfer, and their outcomes.

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
    /// A symbolic link, or a further name of a file.
    Link,
}

/// Outcome of one file, directory or link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryOutcome {
    /// Name of the entry, escaped for a terminal.
    pub name: String,
    /// Its kind.
    pub kind: EntryKind,
    /// True if a file of the same content existed, so that nothing was written.
    pub is_unchanged: bool,
    /// True if the entry was deleted (in a dry run: would be), because the sender does not have it.
    pub is_deleted: bool,
    /// True in a dry run, if the entry would be sent.
    pub is_wanted: bool,
    /// Bytes of content; 0 for a failed entry.
    pub bytes: u64,
    /// Bytes that an earlier session had stored.
    pub resumed_bytes: u64,
    /// Bytes copied from the replaced version.
    pub copied_bytes: u64,
    /// BLAKE3 of the content of a file, unless it failed.
    pub hash: Option<blake3::Hash>,
    /// Reason why the entry was not stored.
    pub failure: Option<String>,
}
