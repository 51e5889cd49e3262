//! The one place where time is read.

use std::time::Instant;

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
}
