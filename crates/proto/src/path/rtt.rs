//! RTT estimator of RFC 6298. Its samples come from reports; before the first one, the handshake's duration serves.

use std::time::Duration;

use crate::limits;

/// RTT assumed before the first sample.
const INITIAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    /// True if the estimate is the duration of a handshake or path validation. The first sample replaces it.
    is_guess: bool,
}

impl RttEstimator {
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let Some(smoothed) = self.smoothed.filter(|_| !self.is_guess) else {
            *self = Self { smoothed: Some(rtt), variation: rtt / 2, is_guess: false };
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
        self.smoothed = Some((smoothed * 7 + rtt) / 8);
    }

    /// Uses the duration of a handshake or path validation as RTT until the first sample. The peer may have delayed its
    /// answer, so the guess is limited to 0.6 s ([open-36]).
    pub(crate) fn guess(&mut self, rtt: Duration) {
        self.sample(rtt.min(limits::RTT_GUESS_MAX));
        self.is_guess = true;
    }

    pub(crate) fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }

    /// Returns the smoothed RTT, or a guess before the first sample.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// Returns the time to wait for feedback before a probe: SRTT + max(4·RTTVAR, 2 ms) + `report_interval` × 2.
    pub(crate) fn probe_timeout(&self, report_interval: Duration) -> Duration {
        self.smoothed() + (self.variation * 4).max(Duration::from_millis(2)) + report_interval * 2
    }

    /// Returns the interval of a receiver's reports: a sixteenth of the RTT, between 1 ms and 10 ms (\[report-2\]).
    pub(crate) fn report_interval(&self) -> Duration {
        self.report_interval_of_much().max(Duration::from_millis(1))
    }

    /// Returns the report interval while many datagrams arrive: at least 0.25 ms. Early acknowledgement lets the sender
    /// reuse blocks while they are in its caches.
    pub(crate) fn report_interval_of_much(&self) -> Duration {
        (self.smoothed() / 16).clamp(Duration::from_micros(250), Duration::from_millis(10))
    }
}
