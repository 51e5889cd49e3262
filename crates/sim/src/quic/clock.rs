//! Conversion between simulated time and the [`Instant`]s that quinn uses.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use dfcp_time::Time;

/// Instant that stands for simulated time zero. Any instant will do, because only differences matter. This is the only
/// place where the crate reads a clock, as an `Instant` cannot be created otherwise.
static ZERO: LazyLock<Instant> = LazyLock::new(read_clock);

#[expect(clippy::disallowed_methods, reason = "only differences to this instant are ever used")]
fn read_clock() -> Instant {
    Instant::now()
}

/// Returns the instant of a simulated time.
pub(super) fn instant(time: Time) -> Instant {
    *ZERO + Duration::from_nanos(time.as_ns())
}

/// Returns the simulated time of an instant.
pub(super) fn time(instant: Instant) -> Time {
    Time::ZERO + instant.saturating_duration_since(*ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_survive_both_ways() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, 3_600_000_000_007] {
            assert_eq!(time(instant(Time::from_ns(ns))), Time::from_ns(ns));
        }
        assert_eq!(instant(Time::from_us(3)) - instant(Time::from_us(1)), Duration::from_micros(2));
    }
}
