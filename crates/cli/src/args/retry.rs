//! Option `--retry`: time limit for reconnecting after a lost connection.

use std::time::Duration;

use clap::Args;

use super::any_seconds;
use crate::limits::RETRY_DEFAULT;

/// Options for a transfer whose connection is lost.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct RetryArgs {
    /// Reconnect to the same peer after an open connection is lost, and resume, for up to this time without progress; 0 disables it.
    /// Permanent errors (a wrong key, a full disk, ..) and a failed first connection always end the transfer. A listener that serves one
    /// peer waits as long for its return
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1h", value_parser = any_seconds)]
    pub retry: Option<Duration>,
}

impl RetryArgs {
    /// Returns the time limit for reconnecting; zero if this side cannot resume (`can` is false).
    #[must_use]
    pub fn limit(self, can: bool) -> Duration {
        if can { self.retry.unwrap_or(RETRY_DEFAULT) } else { Duration::ZERO }
    }

    /// Refuses `--retry` if `obstacle` makes resuming impossible.
    pub(super) fn check(self, obstacle: Option<&str>) -> Result<(), String> {
        match obstacle.filter(|_| self.retry.is_some_and(|limit| !limit.is_zero())) {
            Some(obstacle) => Err(format!("{obstacle}: leave --retry out")),
            None => Ok(()),
        }
    }
}
