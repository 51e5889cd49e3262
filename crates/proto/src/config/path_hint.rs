//! Rate and round trip of an earlier connection on the same path.

use std::time::Duration;

/// Result of an automatic rate on a path. The next connection there starts at half of it for one round trip, if its
/// handshake takes as long, and at its usual start as soon as its own first train shows less.
///
/// ```
/// # use dfcp_proto as dfcp;
/// use std::time::Duration;
///
/// use dfcp::{Config, PathHint};
///
/// let hint = PathHint { rate_bps: 80_000_000, rtt: Duration::from_millis(40) };
/// assert!(Config::modern().with_path_hint(Some(hint)).validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHint {
    /// Bits of IP packets per second: no more than was proven to be decoded in a second.
    pub rate_bps: u64,
    /// The least round trip.
    pub rtt: Duration,
}

/// Permitted difference of the handshake's round trip from the remembered one, as a share of the latter.
const RTT_PART: f64 = 0.25;
/// Addition to that difference, for very short round trips.
const RTT_SLACK: Duration = Duration::from_millis(1);

impl PathHint {
    /// True if a path with this round trip may be the same.
    pub(crate) fn matches(&self, rtt: Duration) -> bool {
        rtt.abs_diff(self.rtt) <= self.rtt.mul_f64(RTT_PART) + RTT_SLACK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_round_trip_is_another_path() {
        let hint = PathHint { rate_bps: 1_000_000, rtt: Duration::from_millis(40) };
        for (ms, expected) in [(20, false), (31, true), (40, true), (50, true), (60, false), (400, false)] {
            assert_eq!(hint.matches(Duration::from_millis(ms)), expected, "{ms}");
        }
    }
}
