//! Final report of a transfer.

use crate::entry::{EntryKind, EntryOutcome};
use crate::limits::FAILURES_KEPT_MAX;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Final report of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries stored and verified by the receiver, directories included.
    pub stored: u64,
    /// Directories among these.
    pub directories: u64,
    /// Links among these.
    pub links: u64,
    /// Files that the receiver already had with the same content.
    pub unchanged: u64,
    /// Names that were deleted, or would have been in a dry run.
    pub deleted: u64,
    /// Further names that a dry run would delete but does not name: files that this key has not stored.
    pub unnamed: u64,
    /// Reason why a requested deletion was skipped.
    pub deletion_skipped: Option<&'static str>,
    /// Entries that a dry run would send.
    pub wanted: u64,
    /// Links among the entries that a dry run would send.
    pub wanted_links: u64,
    /// Content that a dry run would send, bytes.
    pub wanted_bytes: u64,
    /// Entries that should have been stored and were not.
    pub failed: u64,
    /// Entries left out on purpose (symbolic links, sockets and the like).
    pub skipped: u64,
    /// Entries skipped or sent in another form without the user's request.
    pub left_out: u64,
    /// True if skipped entries count as failures.
    pub is_strict: bool,
    /// Content stored, bytes.
    pub bytes: u64,
    /// Stored files that were resumed.
    pub resumed: u64,
    /// Bytes of the resumed files that the receiver already had.
    pub resumed_bytes: u64,
    /// Stored files with parts copied from their older versions.
    pub copied: u64,
    /// Bytes copied from older versions.
    pub copied_bytes: u64,
    /// The first failures by name, at most [`FAILURES_KEPT_MAX`].
    pub failures: Vec<(String, String)>,
    /// Last snapshot of the transfer.
    pub last: Snapshot,
    /// Number of sessions; 0 if only one is counted.
    pub sessions: u32,
    /// Content received in the sessions before the last one, bytes; the last session resumed most of it.
    pub earlier_bytes: u64,
}

impl Report {
    /// Counts the outcome of an entry.
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

    /// True if everything requested is at the receiver and verified.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.left_out == 0 && self.deletion_skipped.is_none();
        self.failed == 0 && (is_whole || !self.is_strict)
    }
}
