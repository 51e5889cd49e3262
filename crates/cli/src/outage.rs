//! Figures of a time without a session.

use std::time::Duration;

/// A time without a session.
#[derive(Debug, Clone, Default)]
pub struct OutageFigures {
    /// Its duration so far.
    pub lasted: Duration,
    /// Calls so far.
    pub calls: u32,
    /// True if the session is over, and not only silent.
    pub is_lost: bool,
    /// Failure of the last call that has ended.
    pub last_failure: Option<String>,
}
