//! Observers of a session.

use crate::entry::EntryOutcome;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Receiver of a session's events. Called from several threads; must return quickly.
pub trait Observer: Send + Sync {
    /// An entry was answered.
    fn entry(&self, outcome: &EntryOutcome);
    /// True if all reported outcomes are recorded as required. Otherwise the session ends, and a receiver confirms none of them.
    fn is_recorded(&self) -> bool {
        true
    }
    /// An entry was skipped on purpose.
    fn skipped(&self, name: &str, what: Skipped);
    /// The session ended before the verdict on a completely sent file.
    fn unanswered(&self, _name: &str) {}
    /// Statistics, every [`crate::limits::REPORT_INTERVAL`].
    fn progress(&self, snapshot: &Snapshot);
}
