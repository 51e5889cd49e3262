//! Instant type that callers pass to DFCP's clock-free crates.
//!
//! `dfcp-proto`, `dfcp-netem` and the simulator never read a clock: their driver supplies the time. A real program counts from its own
//! start, a simulator counts simulated nanoseconds: an integer suffices for both.

#![no_std]
#![forbid(unsafe_code)]

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Point in time: nanoseconds since an epoch that the caller chose. All arithmetic saturates, so a hostile or absurd duration can move an
/// instant to the end of time (584 years) but never wrap it. `Option<Time>` has the size of `Time`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(NonZeroU64); // one more than the nanoseconds

impl Time {
    /// Epoch of the caller.
    pub const ZERO: Self = Self(NonZeroU64::MIN);
    /// Latest instant: 2⁶⁴ − 2 ns after the epoch.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// The instant `ns` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(ns))
    }

    /// The instant `us` microseconds after the epoch.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self::from_ns(us.saturating_mul(1_000))
    }

    /// The instant `ms` milliseconds after the epoch.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self::from_ns(ms.saturating_mul(1_000_000))
    }

    /// The instant `s` seconds after the epoch.
    #[must_use]
    pub const fn from_s(s: u64) -> Self {
        Self::from_ns(s.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0.get() - 1
    }

    /// Seconds since the epoch, for display and averages.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.as_ns() as f64 / 1e9
    }

    /// Time elapsed since `earlier`; zero if this is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

/// The whole nanoseconds of a duration, saturating at `u64::MAX`.
#[must_use]
pub const fn duration_ns(duration: Duration) -> u64 {
    let ns = duration.as_nanos();
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

impl Default for Time {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_ns(duration)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self::from_ns(self.as_ns().saturating_sub(duration_ns(duration)))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_ns();
        write!(f, "{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::ZERO - Time::MAX, Duration::ZERO);
        assert_eq!(Time::from_ms(2) - Time::from_us(500), Duration::from_micros(1500));
        assert_eq!(Time::ZERO + Duration::MAX, Time::MAX);
        assert_eq!((Time::from_ns(u64::MAX), Time::from_s(u64::MAX)), (Time::MAX, Time::MAX));
    }

    #[test]
    fn nanoseconds_come_back_and_order_times() {
        for ns in [0, 1, 999, u64::MAX / 2, u64::MAX - 2, u64::MAX - 1] {
            assert_eq!(Time::from_ns(ns).as_ns(), ns);
            assert!(ns == 0 || Time::from_ns(ns - 1) < Time::from_ns(ns));
        }
        assert_eq!((Time::default(), Time::ZERO.as_ns(), Time::MAX.as_ns()), (Time::ZERO, 0, u64::MAX - 1));
        assert_eq!(size_of::<Option<Time>>(), size_of::<Time>());
    }
}
