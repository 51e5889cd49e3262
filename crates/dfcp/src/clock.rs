//! The one place where time is read.

use std::time::Instant;

use dfcp_time::Time;

/// Time since an endpoint was bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: Instant,
    read: fn() -> Instant,
}

impl Clock {
    /// Goes by the system's clock.
    pub(crate) fn start() -> Self {
        Self::start_by(Instant::now)
    }

    /// Goes by what `read` returns, which must not go back.
    pub(crate) fn start_by(read: fn() -> Instant) -> Self {
        Self { base: read(), read }
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + (self.read)().saturating_duration_since(self.base)
    }
}
