//! Rate and RTT of an earlier connection on the same path.

use std::time::Duration;

/// Rate and RTT that an automatic rate has found on a path. If the next connection's handshake has a similar RTT, that
/// connection starts at half of this rate until its first packet train is judged, about one round trip later. From then
/// on it starts as usual.
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
    /// Rate, bits of IP packets per second: at most the rate that the peer has proven to decode over a second.
    pub rate_bps: u64,
    /// Minimum RTT.
    pub rtt: Duration,
}

/// Tolerance for the handshake's RTT, as a share of the remembered RTT.
const RTT_PART: f64 = 0.25;
/// Added to the tolerance, for very short RTTs.
const RTT_SLACK: Duration = Duration::from_millis(1);

impl PathHint {
    /// Returns true if a path with this RTT may be the remembered one.
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
