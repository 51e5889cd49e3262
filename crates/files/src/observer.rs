//! Observers of a session.

use crate::entry::EntryOutcome;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Hears what happens. Called from several threads, briefly.
pub trait Observer: Send + Sync {
    /// One entry was answered.
    fn entry(&self, outcome: &EntryOutcome);
    /// True if the reported outcomes of entries are recorded wherever they must be. If not, the session ends, and a
    /// receiver confirms none of them.
    fn is_recorded(&self) -> bool {
        true
    }
    /// Something was left out on purpose.
    fn skipped(&self, name: &str, what: Skipped);
    /// The session has ended before it was heard what became of a file that was sent as a whole.
    fn unanswered(&self, _name: &str) {}
    /// Called every [`crate::limits::REPORT_INTERVAL`].
    fn progress(&self, snapshot: &Snapshot);
}
