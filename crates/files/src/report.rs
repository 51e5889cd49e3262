//! The end of a transfer.

use crate::entry::{EntryKind, EntryOutcome};
use crate::limits::FAILURES_KEPT_MAX;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// The end of a transfer.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Entries stored and verified by the receiver, directories included.
    pub stored: u64,
    /// Directories among these.
    pub directories: u64,
    /// Links among these.
    pub links: u64,
    /// Files which the receiver had already, with the same content.
    pub unchanged: u64,
    /// Names that were deleted, or would have been.
    pub deleted: u64,
    /// Further names that would have been deleted, and are not told: files which this key has not stored.
    pub unnamed: u64,
    /// Why nothing was deleted although that was asked for.
    pub deletion_skipped: Option<&'static str>,
    /// Entries that would have been sent.
    pub wanted: u64,
    /// Links among these.
    pub wanted_links: u64,
    /// Content of these, bytes.
    pub wanted_bytes: u64,
    /// Entries that were to be sent and were not stored.
    pub failed: u64,
    /// Entries left out on purpose (symbolic links, sockets and the like).
    pub skipped: u64,
    /// Of these, and of what was sent in another form, those which nobody has asked to leave out.
    pub left_out: u64,
    /// True if anything left out is a failure.
    pub is_strict: bool,
    /// Content stored, bytes.
    pub bytes: u64,
    /// Stored files of which the receiver had the beginning.
    pub resumed: u64,
    /// Bytes that it had of them.
    pub resumed_bytes: u64,
    /// Stored files of which parts are those of the versions that they replace.
    pub copied: u64,
    /// These parts, bytes.
    pub copied_bytes: u64,
    /// The first failures by name, at most [`FAILURES_KEPT_MAX`].
    pub failures: Vec<(String, String)>,
    /// The last figures.
    pub last: Snapshot,
    /// Sessions that it took; 0 where only one is counted.
    pub sessions: u32,
    /// Content that came in the sessions before the last one, bytes: what that one went on with, most of it.
    pub earlier_bytes: u64,
}

impl Report {
    /// Counts an entry.
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

    /// Something was left out, or sent in another form.
    pub(crate) fn skip(&mut self, what: Skipped) {
        self.skipped += u64::from(!what.is_sent());
        self.left_out += u64::from(what.is_left_out());
    }

    /// True if everything asked for is at the receiver and verified.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.left_out == 0 && self.deletion_skipped.is_none();
        self.failed == 0 && (is_whole || !self.is_strict)
    }
}
