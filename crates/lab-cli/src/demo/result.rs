//! Results of the demonstration's runs, as a table and as JSON.

use dfcp_terminal::output::human_seconds;
use dfcp_terminal::units::{human_bytes, human_percent, human_rate};
use serde::Serialize;
use serde_json::{Value, json};

use super::path::{Path, Wire};
use super::waste::Waste;

/// Transport of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Transport {
    /// DFCP at a fixed rate, the path's rate.
    #[serde(rename = "dfcp")]
    Dfcp,
    /// DFCP at its automatic rate.
    #[serde(rename = "dfcp-auto")]
    DfcpAuto,
    /// quinn with BBR.
    #[cfg(feature = "quic")]
    #[serde(rename = "quic-bbr")]
    QuicBbr,
    /// quinn with CUBIC.
    #[cfg(feature = "quic")]
    #[serde(rename = "quic-cubic")]
    QuicCubic,
}

impl Transport {
    /// All transports, in the order in which they run and are shown.
    pub(super) const ALL: &[Self] = &[
        Self::Dfcp,
        Self::DfcpAuto,
        #[cfg(feature = "quic")]
        Self::QuicBbr,
        #[cfg(feature = "quic")]
        Self::QuicCubic,
    ];

    /// Returns true for DFCP.
    pub(super) const fn is_dfcp(self) -> bool {
        matches!(self, Self::Dfcp | Self::DfcpAuto)
    }

    /// Returns the name for display.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Dfcp => "DFCP",
            Self::DfcpAuto => "DFCP auto",
            #[cfg(feature = "quic")]
            Self::QuicBbr => "QUIC BBR",
            #[cfg(feature = "quic")]
            Self::QuicCubic => "QUIC CUBIC",
        }
    }
}

/// Way in which a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// The sender has received a confirmation of every byte.
    Complete,
    /// The time limit ended the run.
    Cut {
        /// Goodput over the last three quarters of the run, bit/s.
        steady_bps: f64,
    },
    /// The transport failed.
    Failed {
        /// Reason of the failure, as a phrase.
        reason: String,
    },
}

/// Result of sending the file once.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunResult {
    /// Transport of the run.
    pub(super) transport: Transport,
    /// Path of the run.
    pub(super) path: Path,
    /// Statistics of the forward direction.
    pub(super) wire: Wire,
    /// Length of the file, bytes.
    pub(super) file_bytes: u64,
    /// Bytes that had arrived at the receiver at the end of the run.
    pub(super) arrived_bytes: u64,
    /// Time from `connect` to the sender's confirmation or the time limit, s.
    pub(super) elapsed_s: f64,
    /// Way in which the run ended.
    pub(super) ending: Ending,
    /// True if all arrived bytes equal the sent bytes. BLAKE3 hashes of both files, read back from disk, are compared.
    pub(super) hash_ok: bool,
    /// Datagrams that were not needed; `None` if the transport does not count them.
    pub(super) waste: Option<Waste>,
    /// Remark on the run: a phrase that follows the transport's name in the notes below the table.
    pub(super) remark: Option<String>,
}

impl RunResult {
    /// Returns true if the whole file arrived, was confirmed and is correct.
    pub(super) fn is_verified(&self) -> bool {
        self.ending == Ending::Complete && self.arrived_bytes == self.file_bytes && self.hash_ok
    }

    /// Returns the goodput, bit/s: the file's bits divided by the time, or the steady goodput of a run that was cut
    /// off.
    pub(super) fn goodput_bps(&self) -> f64 {
        match self.ending {
            Ending::Complete if self.elapsed_s > 0.0 => 8.0 * self.file_bytes as f64 / self.elapsed_s,
            Ending::Cut { steady_bps } => steady_bps,
            Ending::Complete | Ending::Failed { .. } => 0.0,
        }
    }

    /// Returns the goodput as a share of the ceiling at the actual loss rate of the run.
    pub(super) fn ceiling_share(&self) -> f64 {
        let ceiling_bps = self.path.ceiling_bps(self.wire.loss);
        if ceiling_bps > 0.0 { self.goodput_bps() / ceiling_bps } else { 0.0 }
    }

    /// Returns the IP bytes sent in excess of the arrived bytes, as a share of the arrived bytes.
    pub(super) fn overhead(&self) -> Option<f64> {
        let is_shown = !matches!(self.ending, Ending::Failed { .. }) && self.arrived_bytes > 0;
        is_shown.then(|| self.wire.sent_bytes as f64 / self.arrived_bytes as f64 - 1.0)
    }

    /// Returns the duration, s, that a cut run would have had at its steady goodput. `None` for other runs, and without
    /// goodput.
    pub(super) fn extrapolated_s(&self) -> Option<f64> {
        let Ending::Cut { steady_bps } = self.ending else { return None };
        let left_bits = 8.0 * self.file_bytes.saturating_sub(self.arrived_bytes) as f64;
        (steady_bps > 0.0).then(|| self.elapsed_s + left_bits / steady_bps)
    }

    fn time(&self) -> String {
        let elapsed_s = self.elapsed_s;
        match &self.ending {
            Ending::Complete => format!("{elapsed_s:.2} s"),
            Ending::Failed { .. } => format!("failed after {elapsed_s:.1} s"),
            Ending::Cut { .. } => match self.extrapolated_s() {
                Some(seconds) => format!("> {elapsed_s:.1} s ({})", human_seconds(seconds)),
                None => format!("> {elapsed_s:.1} s (no end)"),
            },
        }
    }

    fn hash(&self) -> &'static str {
        match (&self.ending, self.hash_ok) {
            (_, false) => "WRONG",
            (_, true) if self.arrived_bytes == 0 => "-",
            (Ending::Complete, true) => "ok",
            (_, true) => "ok so far",
        }
    }

    fn row(&self) -> [String; COLUMNS.len()] {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        [
            human_percent(self.path.loss),
            self.transport.label().to_owned(),
            percent(self.wire.loss),
            percent(self.wire.queue_drops),
            human_rate(self.goodput_bps()),
            percent(self.ceiling_share()),
            self.overhead().map_or_else(|| "-".to_owned(), percent),
            self.waste.map_or_else(|| "-".to_owned(), |waste| percent(waste.share)),
            self.time(),
            human_bytes(self.arrived_bytes),
            self.hash().to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let (ending, reason) = match &self.ending {
            Ending::Complete => ("complete", None),
            Ending::Cut { .. } => ("cut", None),
            Ending::Failed { reason } => ("failed", Some(reason)),
        };
        json!({
            "transport": self.transport, "path": self.path, "ending": ending, "reason": reason,
            "file_bytes": self.file_bytes, "arrived_bytes": self.arrived_bytes, "hash_ok": self.hash_ok,
            "elapsed_s": self.elapsed_s, "extrapolated_completion_s": self.extrapolated_s(),
            "goodput_bps": self.goodput_bps(), "ceiling_bps": self.path.ceiling_bps(self.wire.loss),
            "ceiling_share": self.ceiling_share(), "overhead": self.overhead(), "waste": self.waste,
            "wire": self.wire,
            "remark": self.remark,
        })
    }
}

/// Column headings of the table; true for right-aligned columns.
const COLUMNS: [(&str, bool); 11] = [
    ("path loss", true),
    ("transport", false),
    ("lost", true),
    ("queue drops", true),
    ("goodput", true),
    ("of ceiling", true),
    ("overhead", true),
    ("waste", true),
    ("time", false),
    ("arrived", true),
    ("hash", false),
];

/// Returns the results as a text table: a heading, a line per run, and a blank line between loss rates.
pub(super) fn table(results: &[RunResult]) -> String {
    let head = COLUMNS.map(|(name, _)| name.to_owned());
    let rows: Vec<_> = results.iter().map(RunResult::row).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(&rows).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(width);
    let line = |row: &[String; COLUMNS.len()]| {
        let cells = row.iter().zip(widths).zip(COLUMNS).map(|((cell, width), (_, right))| {
            if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(&head)];
    for (index, row) in rows.iter().enumerate() {
        if index > 0 && results[index].path.loss != results[index - 1].path.loss {
            lines.push(String::new());
        }
        lines.push(line(row));
    }
    lines.join("\n")
}

/// Returns the legend, and notes on failed and cut runs, one line each.
pub(super) fn notes(results: &[RunResult]) -> String {
    let mut lines = vec![
        "lost: random losses the run really had on the way forward; queue drops: losses which the sender itself made."
            .to_owned(),
        "of ceiling: goodput by rate x (1 - lost) x 1420/1476, the header share of a DFCP packet, for everyone."
            .to_owned(),
        "overhead: all bytes of IP packets sent (headers, repair or retransmissions, control) beyond those delivered."
            .to_owned(),
        "waste: data datagrams which arrived and were not needed, of all sent; part of the overhead. QUIC does not tell."
            .to_owned(),
        "time: from connect to the sender's confirmation of the last byte.".to_owned(),
        "DFCP is told the path's rate; DFCP auto and QUIC (quinn, with flow-control windows too large to matter) find it."
            .to_owned(),
        "Both encrypt and authenticate. quinn calls its BBR (version 1) experimental.".to_owned(),
    ];
    if results.iter().any(|result| matches!(result.ending, Ending::Cut { .. })) {
        lines.push(
            "> : cut at the time limit. Goodput is that of the last three quarters of the run; in brackets, when it would \
             have ended at that."
                .to_owned(),
        );
    }
    for result in results {
        let what = format!("{} at {} loss", result.transport.label(), human_percent(result.path.loss));
        if let Ending::Failed { reason } = &result.ending {
            lines.push(format!("{what} failed: {reason}."));
        }
        if let Some(remark) = &result.remark {
            lines.push(format!("{what} {remark}."));
        }
    }
    lines.join("\n")
}

/// Returns all results and the path of the chart as JSON.
pub(super) fn json(results: &[RunResult], chart: &std::path::Path) -> Value {
    json!({
        "runs": results.iter().map(RunResult::json).collect::<Vec<_>>(),
        "chart": chart.display().to_string(),
    })
}
