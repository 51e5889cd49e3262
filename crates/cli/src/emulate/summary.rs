//! Summary of an emulation: packet counts by outcome, as text and JSON.

use dfcp_emu::{DirectionReport, Lateness, Outcome};
use dfcp_relay::{Datagrams, DirectionStats};
use serde::Serialize;

use crate::relay::describe;

/// Limit of the 99th percentile of lateness, ms. Above it, a warning says that the emulated path deviates from the
/// requested one.
const LATE_P99_MS: f64 = 0.5;

/// Output of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// Decimal text, because JSON readers round large integers.
    seed: String,
    seconds: f64,
    forward: Direction,
    backward: Direction,
}

/// Counts of one direction.
#[derive(Debug, Serialize)]
struct Direction {
    #[serde(flatten)]
    packets: DirectionStats,
    /// Number of system calls that wrote the forwarded packets.
    writes: u64,
    /// Packets dropped by the sending host's device before the emulator could read them.
    unread_packets: u64,
    /// Packets without a valid IP header.
    malformed_packets: u64,
    /// Packets to a port that the near host had before a rebinding.
    forgotten_packets: u64,
    /// Link-local multicasts, which no router forwards.
    local_packets: u64,
    lateness: Lateness,
}

impl Direction {
    fn new(report: &DirectionReport) -> Self {
        // The emulated path has one link per direction.
        let link = report.links.first().copied().unwrap_or_default();
        let not_sent = Datagrams { packets: report.refused.packets, bytes: report.refused.bytes };
        Self {
            packets: DirectionStats::new(link, report.held, not_sent),
            writes: report.writes,
            unread_packets: report.unread_packets,
            malformed_packets: report.malformed_packets,
            forgotten_packets: report.forgotten_packets,
            local_packets: report.local_packets,
            lateness: report.lateness,
        }
    }

    fn line(&self) -> String {
        let mut line = describe(&self.packets);
        if self.malformed_packets > 0 {
            line.push_str(&format!(", {} malformed", self.malformed_packets));
        }
        if self.forgotten_packets > 0 {
            line.push_str(&format!(", {} to forgotten ports", self.forgotten_packets));
        }
        let Lateness { packets, p50_ms, p99_ms, max_ms, .. } = self.lateness;
        if packets > 0 {
            line.push_str(&format!("; late by {p50_ms:.3} ms (median), {p99_ms:.3} ms (p99), {max_ms:.3} ms (most)"));
        }
        line
    }
}

impl Summary {
    pub(super) fn new(outcome: &Outcome, seed: u64) -> Self {
        Self {
            seed: seed.to_string(),
            seconds: outcome.elapsed.as_secs_f64(),
            forward: Direction::new(&outcome.forward),
            backward: Direction::new(&outcome.backward),
        }
    }

    fn directions(&self) -> [(&'static str, &Direction); 2] {
        [("near to far", &self.forward), ("far to near", &self.backward)]
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.directions().into_iter().map(|(name, direction)| format!("{name}: {}", direction.line()))
    }

    /// Returns warnings if the emulated path deviated from the requested one.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (name, direction) in self.directions() {
            let p99_ms = direction.lateness.p99_ms;
            if p99_ms > LATE_P99_MS {
                warnings.push(format!(
                    "{name}: 1 of 100 packets left {p99_ms:.2} ms late or later: this machine was too busy for this path"
                ));
            }
            if direction.unread_packets > 0 {
                warnings.push(format!(
                    "{name}: {} packets were dropped before the emulated path, which is too slow for them on this machine",
                    direction.unread_packets
                ));
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn outcome(p99_ms: f64, unread_packets: u64) -> Outcome {
        let lateness = Lateness { packets: 100, p50_ms: 0.02, p90_ms: 0.04, p99_ms, max_ms: 2.0 };
        Outcome {
            status: std::process::ExitStatus::from_raw(0),
            server_status: None,
            elapsed: std::time::Duration::from_secs(1),
            forward: DirectionReport { lateness, unread_packets, malformed_packets: 3, ..DirectionReport::default() },
            backward: DirectionReport::default(),
        }
    }

    #[test]
    fn lateness_and_hidden_drops_are_warned_of() {
        assert_eq!(Summary::new(&outcome(0.5, 0), 1).warnings(), Vec::<String>::new());
        let warnings = Summary::new(&outcome(0.61, 9), 1).warnings();
        assert!(warnings[0].contains("near to far: 1 of 100 packets left 0.61 ms late"), "{warnings:?}");
        assert!(warnings[1].contains("9 packets were dropped before"), "{warnings:?}");
        assert_eq!(warnings.len(), 2);
    }

    #[test]
    fn lines_tell_lateness_only_where_packets_left() {
        let summary = Summary::new(&outcome(0.1, 0), 1);
        let lines: Vec<_> = summary.lines().collect();
        assert!(
            lines[0].ends_with("3 malformed; late by 0.020 ms (median), 0.100 ms (p99), 2.000 ms (most)"),
            "{lines:?}"
        );
        assert!(!lines[1].contains("late"), "{lines:?}");
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["forward"]["lateness"]["p99_ms"], 0.1);
        assert_eq!(json["backward"]["lost"]["packets"], 0);
    }
}
