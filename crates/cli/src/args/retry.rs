//! The time for which a transfer outlives its connection.

use std::time::Duration;

use clap::Args;

use super::any_seconds;
use crate::limits::RETRY_DEFAULT;

/// Arguments about a transfer whose connection is lost.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct RetryArgs {
    /// Connect again to the same peer when an open connection is lost, and go on, for up to this time without progress; 0 ends at once. What
    /// would fail again (a wrong key, a full disk, ..) ends at once in any case, as does a first connection that fails. A side that serves one
    /// peer waits as long for it to come back
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1h", value_parser = any_seconds)]
    pub retry: Option<Duration>,
}

impl RetryArgs {
    /// For how long, where one `can` go on after a connection is lost.
    #[must_use]
    pub fn limit(self, can: bool) -> Duration {
        if can { self.retry.unwrap_or(RETRY_DEFAULT) } else { Duration::ZERO }
    }

    /// Refuses what makes no sense because of `obstacle`.
    pub(super) fn check(self, obstacle: Option<&str>) -> Result<(), String> {
        match obstacle.filter(|_| self.retry.is_some_and(|limit| !limit.is_zero())) {
            Some(obstacle) => Err(format!("{obstacle}: leave --retry out")),
            None => Ok(()),
        }
    }
}
