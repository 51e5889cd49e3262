//! What a transfer shows while it runs: a bar on a terminal, JSON lines for programs, one line per event otherwise.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;

use crate::limits::REPORT_INTERVAL;
use crate::output;
use crate::transfer::{EntryOutcome, Observer, Report, Snapshot};
use crate::units::{human_bytes, human_rate};

/// Weight of the newest interval in the displayed rate: about two seconds of memory.
const NEWEST_WEIGHT: f64 = 0.125;

/// JSON progress lines come once per this many reports.
const REPORTS_PER_JSON_LINE: u32 = 4;

/// Shows one transfer.
#[derive(Debug)]
pub struct Display {
    json: bool,
    /// Whether each stored file gets a line (receivers); failures always do.
    files: bool,
    peer: String,
    bars: MultiProgress,
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    at: Duration,
    bytes: u64,
    rate_bps: Option<f64>,
    reports: u32,
}

impl Display {
    /// For a transfer with `peer`. The bar joins `bars`, which hide themselves where standard error is no terminal.
    pub fn new(bars: &MultiProgress, peer: &str, json: bool, files: bool) -> Self {
        let bar = if json { ProgressBar::hidden() } else { bars.add(ProgressBar::new(0)) };
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
            bar.set_style(style);
        }
        Self { json, files, peer: peer.to_owned(), bars: bars.clone(), bar, state: Mutex::default() }
    }

    /// Takes the bar away, and gives the closing lines.
    pub fn finish(&self, report: &Report) {
        self.bar.finish_and_clear();
        self.bars.remove(&self.bar);
        if self.json {
            return output::json(&json!({
                "event": "done", "peer": self.peer, "ok": report.is_complete(), "stored": report.stored,
                "failed": report.failed, "skipped": report.skipped, "bytes": report.bytes,
                "seconds": report.last.elapsed.as_secs_f64(), "rate_bps": mean_rate_bps(report),
                "bottleneck": report.last.bottleneck, "path": report.last.path,
            }));
        }
        output::note(&format!("{}: {}", self.peer, summary(report)));
    }

    /// Takes the bar away after a session that broke.
    pub fn abandon(&self) {
        self.bar.finish_and_clear();
        self.bars.remove(&self.bar);
    }

    fn say(&self, text: &str) {
        self.bars.suspend(|| output::note(text));
    }
}

impl Observer for Display {
    fn entry(&self, outcome: &EntryOutcome) {
        if self.json {
            return output::json(&json!({
                "event": if outcome.is_directory { "directory" } else { "file" }, "peer": self.peer,
                "name": outcome.name, "ok": outcome.failure.is_none(), "bytes": outcome.bytes,
                "blake3": outcome.hash.map(|hash| hash.to_hex().to_string()), "error": outcome.failure,
            }));
        }
        match &outcome.failure {
            Some(failure) => self.say(&format!("failed: {}: {failure}", outcome.name)),
            None if self.files && !outcome.is_directory => {
                self.say(&format!("{}  {}  verified", outcome.name, human_bytes(outcome.bytes)));
            }
            None => {}
        }
    }

    fn skipped(&self, name: &str, reason: &str) {
        if self.json {
            return output::json(&json!({ "event": "skipped", "name": name, "reason": reason }));
        }
        self.say(&format!("skipped: {name}: {reason}"));
    }

    fn progress(&self, snapshot: &Snapshot) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rate_bps = state.advance(snapshot);
        let is_due = state.reports.is_multiple_of(REPORTS_PER_JSON_LINE);
        drop(state);
        if self.json {
            if is_due {
                output::json(&json!({
                    "event": "progress", "peer": self.peer, "bytes": snapshot.done_bytes,
                    "total_bytes": snapshot.total_bytes, "total_is_final": snapshot.total_is_final,
                    "seconds": snapshot.elapsed.as_secs_f64(), "rate_bps": rate_bps,
                    "bottleneck": snapshot.bottleneck, "path": snapshot.path,
                }));
            }
            return;
        }
        self.bar.set_length(snapshot.total_bytes.unwrap_or(snapshot.done_bytes));
        self.bar.set_position(snapshot.done_bytes);
        self.bar.set_message(message(snapshot, rate_bps));
    }
}

impl State {
    /// The rate, smoothed over about two seconds.
    fn advance(&mut self, snapshot: &Snapshot) -> f64 {
        let seconds = snapshot.elapsed.saturating_sub(self.at).as_secs_f64();
        self.reports += 1;
        // The first tick comes at once; an interval too short says nothing about the rate.
        if seconds >= REPORT_INTERVAL.as_secs_f64() / 4.0 {
            let newest_bps = 8.0 * snapshot.done_bytes.saturating_sub(self.bytes) as f64 / seconds;
            let rate_bps = self.rate_bps.map_or(newest_bps, |old| old + NEWEST_WEIGHT * (newest_bps - old));
            (self.rate_bps, self.at, self.bytes) = (Some(rate_bps), snapshot.elapsed, snapshot.done_bytes);
        }
        self.rate_bps.unwrap_or(0.0)
    }
}

/// The text beside the bar: amount, rate, loss seen, overhead and time left.
fn message(snapshot: &Snapshot, rate_bps: f64) -> String {
    let mut text = human_bytes(snapshot.done_bytes);
    if let Some(total_bytes) = snapshot.total_bytes {
        let more = if snapshot.total_is_final { "" } else { "+" };
        text += &format!("/{}{more}", human_bytes(total_bytes));
    }
    text += &format!("  {}", human_rate(rate_bps));
    if let Some(path) = snapshot.path.filter(|_| snapshot.total_bytes.is_some()) {
        let overhead_percent = 100.0 * path.overhead(snapshot.done_bytes);
        text += &format!("  loss {:.1} %  overhead {overhead_percent:.1} %", 100.0 * path.loss);
    }
    match snapshot.total_bytes {
        Some(total) if total <= snapshot.done_bytes && snapshot.total_is_final => text += "  confirming",
        Some(total) if rate_bps > 0.0 && total > snapshot.done_bytes => {
            let left_s = 8.0 * (total - snapshot.done_bytes) as f64 / rate_bps;
            text += &format!("  {} left", output::human_seconds(left_s));
        }
        _ => {}
    }
    text
}

fn mean_rate_bps(report: &Report) -> f64 {
    let seconds = report.last.elapsed.as_secs_f64();
    if seconds > 0.0 { 8.0 * report.bytes as f64 / seconds } else { 0.0 }
}

fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} verified ({}) in {}, {}",
        if report.stored == 1 { "1 entry".to_owned() } else { format!("{} entries", report.stored) },
        human_bytes(report.bytes),
        output::human_seconds(report.last.elapsed.as_secs_f64()),
        human_rate(mean_rate_bps(report)),
    );
    // Receivers send acknowledgements only, whose figures say nothing about the transfer.
    if let Some(path) = report.last.path.filter(|_| report.last.total_bytes.is_some()) {
        let overhead_percent = 100.0 * path.overhead(report.bytes);
        text += &format!(", loss {:.1} %, overhead {overhead_percent:.1} %", 100.0 * path.loss);
    }
    if let Some(bottleneck) = report.last.bottleneck {
        text += &format!(", limited by {}", bottleneck.describe());
    }
    for (count, what) in [(report.failed, "failed"), (report.skipped, "skipped")] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::PathSample;

    #[test]
    fn the_bar_says_rate_loss_overhead_and_time_left() {
        let path = PathSample { loss: 0.051, ip_bytes_sent: 1_100_000, ..PathSample::default() };
        let snapshot = Snapshot {
            done_bytes: 1_000_000,
            total_bytes: Some(2_000_000),
            total_is_final: true,
            path: Some(path),
            ..Snapshot::default()
        };
        let text = message(&snapshot, 8e6);
        assert!(text.contains("loss 5.1 %  overhead 10.0 %  1.0 s left"), "{text}");
        let text = message(&Snapshot { done_bytes: 2_000_000, ..snapshot }, 8e6);
        assert!(text.ends_with("confirming"), "{text}");
    }

    #[test]
    fn the_rate_follows_slowly_and_starts_at_the_first_interval() {
        let mut state = State::default();
        let at = |ms, done_bytes| Snapshot { elapsed: Duration::from_millis(ms), done_bytes, ..Snapshot::default() };
        assert_eq!(state.advance(&at(0, 0)), 0.0);
        assert_eq!(state.advance(&at(250, 250_000)), 8e6);
        let slower = state.advance(&at(500, 250_000));
        assert!(slower > 6e6 && slower < 8e6, "{slower}");
    }
}
