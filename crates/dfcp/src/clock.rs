//! The clock of an endpoint; no other module of this crate reads the time.

use std::time::Instant;

use dfcp_time::Time;

/// Clock that returns the time since an endpoint was bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: Instant,
    read: fn() -> Instant,
}

impl Clock {
    /// Starts a clock based on the system's monotonic clock.
    pub(crate) fn start() -> Self {
        Self::start_by(Instant::now)
    }

    /// Starts a clock based on `read`, which must be monotonic.
    pub(crate) fn start_by(read: fn() -> Instant) -> Self {
        Self { base: read(), read }
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + (self.read)().saturating_duration_since(self.base)
    }
}
