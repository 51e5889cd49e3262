//! Figures of an outage: a time without a session.

use std::time::Duration;

/// Outage: a time without a session.
#[derive(Debug, Clone, Default)]
pub struct OutageFigures {
    /// Duration so far.
    pub lasted: Duration,
    /// Number of calls so far.
    pub calls: u32,
    /// True if the session has ended, false if it is silent.
    pub is_lost: bool,
    /// Failure of the last completed call.
    pub last_failure: Option<String>,
}
