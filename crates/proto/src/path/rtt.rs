//! Round-trip time (RFC 6298's estimator, fed by reports; until the first, what the handshake took).

use std::time::Duration;

use crate::limits;

/// The RTT assumed before the first sample.
const INITIAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    /// Both are what a handshake took; the first sample takes their place.
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

    /// Takes the time between two handshake messages for the RTT until there is a sample. The peer may have waited in
    /// between for as long as it liked, so at most 0.6 s of it are believed ([open-36]).
    pub(crate) fn guess(&mut self, rtt: Duration) {
        self.sample(rtt.min(limits::RTT_GUESS_MAX));
        self.is_guess = true;
    }

    pub(crate) fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }

    /// The smoothed RTT, or a guess before the first sample.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// Wait for feedback before a probe: SRTT + max(4·RTTVAR, 2 ms) + `report_interval` × 2.
    pub(crate) fn probe_timeout(&self, report_interval: Duration) -> Duration {
        self.smoothed() + (self.variation * 4).max(Duration::from_millis(2)) + report_interval * 2
    }

    /// Interval of a receiver's reports: a sixteenth of the RTT, at least 1 ms, at most 10 ms (\[report-2\]).
    pub(crate) fn report_interval(&self) -> Duration {
        self.report_interval_of_much().max(Duration::from_millis(1))
    }

    /// The same while much arrives: at most four times per millisecond. What is acknowledged sooner is still in the
    /// sender's caches, and the memory of its blocks serves again.
    pub(crate) fn report_interval_of_much(&self) -> Duration {
        (self.smoothed() / 16).clamp(Duration::from_micros(250), Duration::from_millis(10))
    }
}
