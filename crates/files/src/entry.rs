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
    /// Its name, fit for a terminal.
    pub name: String,
    /// Its kind.
    pub kind: EntryKind,
    /// True if a file with the same content was there already, so that nothing was written.
    pub is_unchanged: bool,
    /// True if it was deleted, because the sender does not have it; or would have been.
    pub is_deleted: bool,
    /// True if it would have been sent, if the sender had not only asked.
    pub is_wanted: bool,
    /// Bytes of content, 0 if it failed.
    pub bytes: u64,
    /// Bytes of these that the receiver had already.
    pub resumed_bytes: u64,
    /// Bytes of these that were taken from the version that it replaces.
    pub copied_bytes: u64,
    /// BLAKE3 of the content of a file, unless it failed.
    pub hash: Option<blake3::Hash>,
    /// The reason why it was not stored.
    pub failure: Option<String>,
}
