//! The one place where time is read.

use std::time::{Duration, Instant};

use dfcp_time::Time;

/// Time since an endpoint was bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { base: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.base.elapsed()
    }

    /// The runtime's name for `time`; something far away if it cannot be expressed.
    pub(crate) fn instant(self, time: Time) -> tokio::time::Instant {
        let far = Duration::from_secs(86_400);
        let at = self.base.checked_add(time.since(Time::ZERO)).unwrap_or_else(|| Instant::now() + far);
        tokio::time::Instant::from_std(at)
    }
}
