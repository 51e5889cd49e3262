//! Callback interface for the events of a session.

use crate::entry::EntryOutcome;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Callbacks for the events of a session. They are called from several threads and must return quickly.
pub trait Observer: Send + Sync {
    /// Called when an entry has its outcome.
    fn entry(&self, outcome: &EntryOutcome);
    /// Returns true if all reported outcomes are recorded as required. If false, the session ends, and a receiver
    /// confirms none of the unrecorded entries.
    fn is_recorded(&self) -> bool {
        true
    }
    /// Called when an entry was skipped on purpose.
    fn skipped(&self, name: &str, what: Skipped);
    /// Called when the session ends before the verdict on a completely sent file.
    fn unanswered(&self, _name: &str) {}
    /// Called with current statistics every [`crate::limits::REPORT_INTERVAL`].
    fn progress(&self, snapshot: &Snapshot);
}
