//! Timing errors of a real-time platform.

use serde::{Deserialize, Serialize};

/// Greatest 99th percentile of the lateness, ms. Above it, a run counts as late: the network did not follow the plan.
pub const LATE_P99_MS: f64 = 0.5;

/// Share of a run above which endpoints count as busy. Both running and waiting for a processor count.
pub const ENDS_BUSY: f64 = 0.9;

/// Share of a run above which busy endpoints waited too long for a processor.
pub const ENDS_WAITED: f64 = 0.1;

/// Timing errors of a run on a real-time platform. Lateness is the delay of packets in the emulated network in excess
/// of the configured delay, in the worse of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median lateness, ms.
    pub p50_ms: f64,
    /// 99th percentile of the lateness, ms.
    pub p99_ms: f64,
    /// Maximum lateness, ms.
    pub max_ms: f64,
    /// Packets that hosts sent but the emulator did not read in time. They were lost before the emulated network.
    pub unread_packets: u64,
    /// Share of the run during which the endpoints' thread ran.
    pub ends_ran: f64,
    /// Share of the run during which the endpoints' thread waited for a processor; 0 if the kernel does not report it.
    pub ends_waited: f64,
    /// True for a late run, whose results are not valid. `p99_ms` exceeds [`LATE_P99_MS`], packets were lost before the
    /// emulated network, or busy endpoints have `ends_waited` above [`ENDS_WAITED`].
    pub is_late: bool,
    /// True if `ends_ran` plus `ends_waited` exceeds [`ENDS_BUSY`]: the processor limits the endpoints, not the
    /// network.
    pub is_busy: bool,
}

impl Lateness {
    /// Returns the same lateness with `is_late` and `is_busy` computed.
    #[must_use]
    pub fn judged(self) -> Self {
        let is_busy = self.ends_ran + self.ends_waited > ENDS_BUSY;
        let lacks_processor = is_busy && self.ends_waited > ENDS_WAITED;
        Self { is_late: self.p99_ms > LATE_P99_MS || self.unread_packets > 0 || lacks_processor, is_busy, ..self }
    }
}

/// Words warnings about a series: one on late runs, one on runs with busy endpoints.
pub(crate) fn sentences(series: &str, runs: impl Iterator<Item = Lateness>) -> Vec<String> {
    let all: Vec<Lateness> = runs.collect();
    late(series, &all).into_iter().chain(busy(series, &all)).collect()
}

fn late(series: &str, all: &[Lateness]) -> Option<String> {
    let late: Vec<_> = all.iter().filter(|lateness| lateness.is_late).collect();
    if late.is_empty() {
        return None;
    }
    let p99_ms = late.iter().map(|lateness| lateness.p99_ms).fold(0.0, f64::max);
    let waited = late.iter().map(|lateness| lateness.ends_waited).fold(0.0, f64::max);
    let unread: u64 = late.iter().map(|lateness| lateness.unread_packets).sum();
    let lost = if unread > 0 { format!(", {unread} packets were lost before it") } else { String::new() };
    Some(format!(
        "{series}: LATE in {} of {} runs: 1 of 100 packets left the emulated network up to {p99_ms:.2} ms late{lost}, and the ends waited \
         for a processor for up to {:.0} % of the time; the machine was too busy, so make these runs again on an idle one",
        late.len(),
        all.len(),
        100.0 * waited
    ))
}

fn busy(series: &str, all: &[Lateness]) -> Option<String> {
    let busy = all.iter().filter(|lateness| lateness.is_busy).count();
    (busy > 0).then(|| {
        format!(
            "{series}: BUSY in {busy} of {} runs: the ends needed a processor for more than {:.0} % of the time, so these runs show what it \
             can code, and not what the network carries",
            all.len(),
            100.0 * ENDS_BUSY
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lateness(p99_ms: f64, unread_packets: u64, ends_ran: f64, ends_waited: f64) -> Lateness {
        Lateness { p99_ms, unread_packets, ends_ran, ends_waited, ..Lateness::default() }.judged()
    }

    #[test]
    fn runs_are_late_and_busy_above_the_bounds_alone() {
        let marks = |lateness: Lateness| (lateness.is_late, lateness.is_busy);
        assert_eq!(marks(lateness(LATE_P99_MS, 0, 0.5, 0.3)), (false, false));
        assert_eq!(marks(lateness(LATE_P99_MS + 0.01, 0, 0.5, 0.0)), (true, false));
        assert_eq!(marks(lateness(0.0, 1, 0.0, 0.0)), (true, false));
        assert_eq!(marks(lateness(0.0, 0, 0.7, 0.25)), (true, true));
        assert_eq!(marks(lateness(0.0, 0, 0.85, 0.06)), (false, true));
    }

    #[test]
    fn sentences_count_runs_and_there_are_none_without() {
        assert!(sentences("A", [lateness(0.2, 0, 0.3, 0.0)].into_iter()).is_empty());
        let runs = [(0.2, 0, 0.95, 0.0), (0.7, 0, 0.1, 0.0), (2.25, 4, 0.5, 0.3)];
        let runs = runs.map(|(p99_ms, unread, ran, waited)| lateness(p99_ms, unread, ran, waited));
        let said = sentences("A", runs.into_iter());
        assert_eq!(said.len(), 2, "{said:?}");
        for part in ["A: LATE in 2 of 3 runs", "up to 2.25 ms late, 4 packets were lost", "for up to 30 % of the time"]
        {
            assert!(said[0].contains(part), "{said:?}");
        }
        assert!(said[1].contains("A: BUSY in 1 of 3 runs"), "{said:?}");
    }
}
