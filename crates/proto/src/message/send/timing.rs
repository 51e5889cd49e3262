//! Time constants that units (groups of messages planned together) need for their decisions.

use std::time::Duration;

use super::window::Window;

/// Path and session properties that determine a unit's timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Time from sending a symbol until its fate is known.
    pub(super) round: Duration,
    /// Time after which a symbol without a report counts as lost.
    pub(super) overdue: Duration,
    /// Transmission time of a datagram at the session's rate.
    pub(super) datagram: Duration,
    /// Id window, which limits the sending time of a message's symbols by the number of younger messages.
    pub(super) window: Window,
    /// True if the session ends as soon as no message can be helped any more.
    pub(super) is_ending: bool,
}

/// Returns the gap between symbols that are spread over time; zero if they leave back to back at the session's rate.
pub(super) fn spread_gap(gap_s: f64) -> Duration {
    let gap = Duration::from_secs_f64(gap_s.clamp(0.0, 1e3));
    if gap > FINE { gap } else { Duration::ZERO }
}

/// A shorter gap between symbols is treated as zero: it is no more than a datagram's transmission time.
pub(super) const FINE: Duration = Duration::from_micros(500);
