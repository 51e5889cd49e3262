//! Inputs of the times of a unit.

use std::time::Duration;

use super::window::Window;

/// Properties of the path that a unit must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Time until a symbol's fate is known.
    pub(super) round: Duration,
    /// Time after which a symbol without news counts as lost.
    pub(super) overdue: Duration,
    /// Time of a datagram at the session's rate.
    pub(super) datagram: Duration,
    /// Window of ids: the limit to which they may run ahead.
    pub(super) window: Window,
    /// The session ends when nothing more can be done.
    pub(super) is_ending: bool,
}

/// The time between symbols that are spread; none between those which leave as fast as the session permits.
pub(super) fn spread_gap(gap_s: f64) -> Duration {
    let gap = Duration::from_secs_f64(gap_s.clamp(0.0, 1e3));
    if gap > FINE { gap } else { Duration::ZERO }
}

/// Below this a gap is nothing but the time that a datagram takes.
pub(super) const FINE: Duration = Duration::from_micros(500);
