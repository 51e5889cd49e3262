//! Final report of a transfer.

use crate::entry::{EntryKind, EntryOutcome};
use crate::limits::FAILURES_KEPT_MAX;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Final report of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries stored and verified at the receiver, including directories and links.
    pub stored: u64,
    /// Directories included in `stored`.
    pub directories: u64,
    /// Links included in `stored`.
    pub links: u64,
    /// Files that the receiver already had with the same content.
    pub unchanged: u64,
    /// Entries that were deleted, or would be deleted in a dry run.
    pub deleted: u64,
    /// Further entries that a dry run would delete without naming them, because this key has not stored them.
    pub unnamed: u64,
    /// Reason why a requested deletion was skipped; `None` otherwise.
    pub deletion_skipped: Option<&'static str>,
    /// Entries that a dry run would send.
    pub wanted: u64,
    /// Links among the entries that a dry run would send.
    pub wanted_links: u64,
    /// Content that a dry run would send, bytes.
    pub wanted_bytes: u64,
    /// Entries that were not stored because of a failure.
    pub failed: u64,
    /// Entries not sent on purpose, such as symbolic links and sockets.
    pub skipped: u64,
    /// Entries skipped or sent in another form although the user had not excluded them.
    pub left_out: u64,
    /// True if entries that were left out count as failures.
    pub is_strict: bool,
    /// Content of the stored files, bytes.
    pub bytes: u64,
    /// Files included in `stored` whose transfer was resumed.
    pub resumed: u64,
    /// Bytes of the resumed files that the receiver already had.
    pub resumed_bytes: u64,
    /// Files included in `stored` with parts copied from an older version.
    pub copied: u64,
    /// Bytes copied from older versions.
    pub copied_bytes: u64,
    /// Name and sentence of the first failures, at most [`FAILURES_KEPT_MAX`].
    pub failures: Vec<(String, String)>,
    /// Last statistics of the transfer.
    pub last: Snapshot,
    /// Number of sessions of the transfer; 0 if sessions are not counted.
    pub sessions: u32,
    /// Content received in all sessions before the last one, bytes. Most of it was resumed by the last session.
    pub earlier_bytes: u64,
}

impl Report {
    /// Adds the outcome of an entry.
    pub fn add(&mut self, outcome: &EntryOutcome) {
        match &outcome.failure {
            None if outcome.is_unchanged => self.unchanged += 1,
            None if outcome.is_deleted => self.deleted += 1,
            None if outcome.is_wanted => {
                self.wanted += 1;
                self.wanted_links += u64::from(outcome.kind == EntryKind::Link);
                self.wanted_bytes += outcome.bytes;
            }
            None => {
                self.stored += 1;
                self.directories += u64::from(outcome.kind == EntryKind::Directory);
                self.links += u64::from(outcome.kind == EntryKind::Link);
                self.bytes += outcome.bytes;
                self.resumed += u64::from(outcome.resumed_bytes > 0);
                self.resumed_bytes += outcome.resumed_bytes;
                self.copied += u64::from(outcome.copied_bytes > 0);
                self.copied_bytes += outcome.copied_bytes;
            }
            Some(sentence) => {
                self.failed += 1;
                if self.failures.len() < FAILURES_KEPT_MAX {
                    self.failures.push((outcome.name.clone(), sentence.clone()));
                }
            }
        }
    }

    /// Counts an entry that was skipped or sent in another form.
    pub(crate) fn skip(&mut self, what: Skipped) {
        self.skipped += u64::from(!what.is_sent());
        self.left_out += u64::from(what.is_left_out());
    }

    /// Returns true if everything requested is at the receiver and verified. With `is_strict`, also nothing may have
    /// been left out.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.left_out == 0 && self.deletion_skipped.is_none();
        self.failed == 0 && (is_whole || !self.is_strict)
    }
}
