//! Display of a running transfer: a bar on a terminal, JSON lines for programs, otherwise one line per event.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dfcp_files::limits::REPORT_INTERVAL;
use dfcp_files::transport::{PathSample, Waste};
use dfcp_files::{Bottleneck, EntryKind, EntryOutcome, Observer, Report, Skipped, Snapshot, TransferError};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::connection_text::rate_advice;
use crate::flags;
use crate::groups::Groups;
use crate::output;
use crate::units::{human_bytes, human_rate};

/// Outage: a time without a session.
#[derive(Debug, Clone, Default)]
pub struct OutageFigures {
    /// Duration so far.
    pub lasted: Duration,
    /// Number of connection attempts so far.
    pub calls: u32,
    /// True if the session has ended, false if it is silent.
    pub is_lost: bool,
    /// Error of the last failed connection attempt.
    pub last_failure: Option<String>,
}

/// Averaging window of the displayed rate.
const RATE_WINDOW: Duration = Duration::from_secs(3);

/// Minimum time span of rate samples for an estimate of the remaining time.
const RATE_KNOWN: Duration = Duration::from_secs(1);

/// Silence of the peer from which on the bar shows it: many frame intervals of a live peer.
pub const SILENCE_SHOWN: Duration = Duration::from_secs(3);

/// Silence of the peer from which on a text line reports it, without a bar. Shorter than the idle timeout of 30 s.
const SILENCE_TOLD: Duration = Duration::from_secs(10);

/// Interval of text lines during an outage, without a bar.
const OUTAGE_TOLD: Duration = Duration::from_secs(60);

/// Interval of JSON lines during an outage.
const OUTAGE_JSON: Duration = Duration::from_secs(10);

/// Number of reports per JSON progress line.
const REPORTS_PER_JSON_LINE: u32 = 4;

/// Display of one transfer.
#[derive(Debug)]
pub struct Display {
    json: bool,
    /// True at receivers, which print a line per stored file.
    files: bool,
    /// True in a dry run, which prints a line per file that would be sent.
    tell_names: bool,
    peer: String,
    bars: MultiProgress,
    bar: ProgressBar,
    state: Mutex<State>,
    /// Grouped failures, printed at the end.
    groups: Mutex<Groups>,
}

#[derive(Debug, Default)]
struct State {
    /// Received bytes over time within the last [`RATE_WINDOW`], from the first byte on.
    recent: VecDeque<(Duration, u64)>,
    reports: u32,
    /// Sender's path statistics at the last report.
    path: Option<PathSample>,
    /// True if the current silence has been reported.
    is_silence_told: bool,
    /// Number of outage lines so far.
    outage_told: u32,
}

impl Display {
    /// Creates the display of a transfer with `peer`. The bar joins `bars`, which is hidden if standard error is no terminal.
    pub fn new(bars: &MultiProgress, peer: &str, json: bool, files: bool) -> Self {
        let bar = if json { ProgressBar::hidden() } else { bars.add(ProgressBar::new(0)) };
        // A receiver does not know the total size.
        if let Ok(style) = ProgressStyle::with_template(if files { "{msg}" } else { "{wide_bar} {msg}" }) {
            bar.set_style(style);
        }
        Self {
            json,
            files,
            tell_names: false,
            peer: peer.to_owned(),
            bars: bars.clone(),
            bar,
            state: Mutex::default(),
            groups: Mutex::default(),
        }
    }

    /// Turns the display into that of a dry run.
    #[must_use]
    pub fn of_dry_run(mut self) -> Self {
        self.tell_names = true;
        self
    }

    /// Removes the bar and prints the closing lines.
    pub fn finish(&self, report: &Report) {
        self.bar.finish_and_clear();
        self.bars.remove(&self.bar);
        self.tell_groups();
        if self.json {
            return output::json(&json!({
                "event": "done", "peer": self.peer, "ok": report.is_complete(), "stored": report.stored,
                "directories": report.directories, "links": report.links, "unchanged": report.unchanged, "failed": report.failed,
                "deleted": report.deleted, "deleted_unnamed": report.unnamed, "deletion_skipped": report.deletion_skipped, "would_send": report.wanted, "would_send_bytes": report.wanted_bytes,
                "skipped": report.skipped, "left_out": report.left_out, "bytes": report.bytes, "resumed": report.resumed,
                "resumed_bytes": report.resumed_bytes, "copied": report.copied, "copied_bytes": report.copied_bytes, "seconds": report.last.elapsed.as_secs_f64(), "rate_bps": mean_rate_bps(report),
                "bottleneck": report.last.bottleneck, "path": report.last.path, "waste": waste(&report.last),
                "sessions": report.sessions.max(1),
            }));
        }
        if let Some(sentence) = report.deletion_skipped {
            let sentence = if self.tell_names { sentence.replacen("was", "would be", 1) } else { sentence.to_owned() };
            output::always(&format!("{}: {sentence}", self.peer));
        }
        // The summary is the result of a dry run, so `--quiet` does not suppress it.
        if self.tell_names {
            output::always(&format!("{}: {}", self.peer, dry_summary(report)));
        } else {
            output::note(&format!("{}: {}", self.peer, summary(report)));
        }
    }

    /// Removes the bar after a broken session.
    pub fn abandon(&self) {
        self.bar.finish_and_clear();
        self.bars.remove(&self.bar);
        self.tell_groups();
        // Overload of the path may be the cause. JSON readers find the rate in the last progress line.
        if let Some(advice) = self.last_advice().filter(|_| !self.json) {
            self.say(&advice);
        }
    }

    /// Clears the collected failures and skips: the next session reports them again.
    pub fn begin_again(&self) {
        *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = Groups::default();
    }

    /// Reports a lost session and the start of reconnection attempts, for at most `limit`.
    pub fn lost(&self, cause: &TransferError, limit: Duration) {
        // Omit the advice at the end of the error: the automatic reconnection follows it already.
        let cause = cause.to_string();
        let cause = cause.rsplit_once("; ").map_or(cause.as_str(), |(cause, _next_step)| cause);
        if self.json {
            let mut event = reconnecting(&self.peer, &OutageFigures { is_lost: true, ..OutageFigures::default() });
            event["message"] = cause.into();
            return output::json(&event);
        }
        let limit = output::human_seconds(limit.as_secs_f64());
        self.say(&format!("{}: {cause}\n{}: calling again for up to {limit}; Ctrl-C ends that", self.peer, self.peer));
    }

    /// Reports reconnection attempts during an outage. A silent session is not reported.
    pub fn waits(&self, outage: &OutageFigures) {
        if !outage.is_lost {
            return;
        }
        let is_due = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let interval = if self.json { OUTAGE_JSON } else { OUTAGE_TOLD };
            let reached = u32::try_from(outage.lasted.as_secs() / interval.as_secs()).unwrap_or(u32::MAX);
            std::mem::replace(&mut state.outage_told, reached) < reached
        };
        let lasted = output::human_seconds(outage.lasted.as_secs_f64());
        let calls = if outage.calls == 1 { "1 call".to_owned() } else { format!("{} calls", outage.calls) };
        self.bar.set_message(format!("no connection for {lasted}, {calls}"));
        if self.json && is_due {
            output::json(&reconnecting(&self.peer, outage));
        } else if !self.json && is_due && self.bar.is_hidden() {
            let why = outage.last_failure.as_ref().map_or_else(String::new, |failure| format!(": {failure}"));
            output::note(&format!("{}: no connection for {lasted} after {calls}{why}", self.peer));
        }
    }

    /// Reports that the peer is connected again.
    pub fn is_back(&self, outage: &OutageFigures) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).outage_told = 0;
        if !self.json {
            let lasted = output::human_seconds(outage.lasted.as_secs_f64());
            self.say(&format!("{}: connected again after {lasted}", self.peer));
        }
    }

    /// Returns advice about self-inflicted loss, as of the last report.
    fn last_advice(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).path.as_ref().and_then(rate_advice)
    }

    /// Prints the grouped failures and skips, once.
    fn tell_groups(&self) {
        let groups = std::mem::take(&mut *self.groups.lock().unwrap_or_else(PoisonError::into_inner));
        for line in groups.lines() {
            self.result(&line);
        }
    }

    /// Prints a line that `--quiet` does not suppress.
    fn result(&self, text: &str) {
        self.bars.suspend(|| output::always(text));
    }

    fn say(&self, text: &str) {
        self.bars.suspend(|| output::note(text));
    }
}

impl Drop for Display {
    /// Prints the grouped failures of an interrupted transfer, for which [`finish`](Self::finish) is never called.
    fn drop(&mut self) {
        self.tell_groups();
    }
}

impl Observer for Display {
    fn entry(&self, outcome: &EntryOutcome) {
        if self.json {
            return output::json(&json!({
                "event": outcome.kind, "peer": self.peer,
                "name": outcome.name, "ok": outcome.failure.is_none(),
                "unchanged": outcome.is_unchanged, "deleted": outcome.is_deleted, "would_send": outcome.is_wanted, "bytes": outcome.bytes, "resumed_bytes": outcome.resumed_bytes, "copied_bytes": outcome.copied_bytes,
                "blake3": outcome.hash.map(|hash| hash.to_hex().to_string()), "error": outcome.failure,
            }));
        }
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome);
        if self.tell_names && outcome.failure.is_none() {
            match outcome {
                EntryOutcome { is_wanted: true, kind: EntryKind::Link, .. } => {
                    self.say(&format!("would link    {}", outcome.name));
                }
                EntryOutcome { is_wanted: true, .. } => {
                    self.result(&format!("would send    {}  {}", outcome.name, human_bytes(outcome.bytes)));
                }
                EntryOutcome { is_deleted: true, .. } => self.result(&format!("would delete  {}", outcome.name)),
                _ => {}
            }
        }
        if self.files && outcome.is_deleted {
            self.say(&format!("{}  deleted", outcome.name));
        } else if self.files && outcome.kind == EntryKind::Link && outcome.failure.is_none() {
            self.say(&format!("{}  link{}", outcome.name, if outcome.is_unchanged { "  unchanged" } else { "" }));
        } else if self.files && outcome.kind == EntryKind::File && outcome.failure.is_none() {
            let how = if outcome.is_unchanged { "unchanged" } else { "verified" };
            self.say(&format!("{}  {}  {how}", outcome.name, human_bytes(outcome.bytes)));
        }
    }

    fn skipped(&self, name: &str, what: Skipped) {
        if self.json {
            return output::json(&json!({ "event": "skipped", "name": name, "reason": flags::skipped_reason(what) }));
        }
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).skipped(name, what);
    }

    fn progress(&self, snapshot: &Snapshot) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = state.advance(snapshot);
        let is_due = state.reports.is_multiple_of(REPORTS_PER_JSON_LINE);
        let is_news = state.is_silence_news(snapshot.silence);
        drop(state);
        if self.json {
            if is_due {
                output::json(&self.progress_object(snapshot, rate));
            }
            return;
        }
        if is_news && self.bar.is_hidden() {
            output::note(&format!("{}: {}", self.peer, output::nothing_heard(snapshot.silence)));
        }
        self.bar.set_length(snapshot.total_bytes.unwrap_or(snapshot.done_bytes));
        self.bar.set_position(snapshot.done_bytes);
        let text = message(snapshot, rate);
        self.bar.set_message(if self.files { format!("receiving from {}: {text}", self.peer) } else { text });
    }
}

impl Display {
    fn progress_object(&self, snapshot: &Snapshot, rate: Option<Rate>) -> Value {
        json!({
            "event": "progress", "peer": self.peer, "bytes": snapshot.done_bytes,
            "total_bytes": snapshot.total_bytes, "total_is_final": snapshot.total_is_final,
            "seconds": snapshot.elapsed.as_secs_f64(), "silent_s": snapshot.silence.as_secs_f64(),
            "rate_bps": rate.map(|rate| rate.bps), "bottleneck": snapshot.bottleneck, "path": snapshot.path,
            "waste": waste(snapshot),
        })
    }
}

fn reconnecting(peer: &str, outage: &OutageFigures) -> Value {
    json!({
        "event": "reconnecting", "peer": peer, "seconds": outage.lasted.as_secs_f64(), "calls": outage.calls,
        "message": outage.last_failure,
    })
}

/// Mean transfer rate, with the time over which it was averaged.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate {
    bps: f64,
    known: Duration,
}

impl State {
    /// Adds a report. Returns the mean rate over the window; `None` if the window spans less than half a report
    /// interval.
    fn advance(&mut self, snapshot: &Snapshot) -> Option<Rate> {
        let (now, bytes) = (snapshot.elapsed, snapshot.done_bytes);
        self.reports += 1;
        // Receivers send only acknowledgements, whose statistics do not describe the transfer.
        self.path = snapshot.path.filter(|_| snapshot.total_bytes.is_some());
        if bytes > 0 {
            self.recent.push_back((now, bytes));
        }
        while self.recent.front().is_some_and(|(at, _)| now.saturating_sub(*at) > RATE_WINDOW) {
            self.recent.pop_front();
        }
        let (at, before) = *self.recent.front()?;
        let known = now.saturating_sub(at);
        // A shorter interval gives no meaningful rate.
        let is_known = known >= REPORT_INTERVAL / 2;
        is_known.then(|| Rate { bps: 8.0 * bytes.saturating_sub(before) as f64 / known.as_secs_f64(), known })
    }

    /// Returns true once per silence, when `silence` reaches [`SILENCE_TOLD`].
    fn is_silence_news(&mut self, silence: Duration) -> bool {
        let was_told = std::mem::replace(&mut self.is_silence_told, silence >= SILENCE_TOLD);
        self.is_silence_told && !was_told
    }
}

/// Formats the text beside the bar: amount, rate, remaining time and loss.
fn message(snapshot: &Snapshot, rate: Option<Rate>) -> String {
    let mut text = human_bytes(snapshot.done_bytes);
    if let Some(total_bytes) = snapshot.total_bytes {
        let more = if snapshot.total_is_final { "" } else { "+" };
        text += &format!(" of {}{more}", human_bytes(total_bytes));
    }
    if let Some(rate) = rate {
        text += &format!("  {}", human_rate(rate.bps));
    }
    match (snapshot.total_bytes, rate) {
        (Some(total), _) if total <= snapshot.done_bytes && snapshot.total_is_final => text += "  confirming",
        (Some(total), Some(rate)) if rate.bps > 0.0 && rate.known >= RATE_KNOWN && total > snapshot.done_bytes => {
            let left_s = 8.0 * (total - snapshot.done_bytes) as f64 / rate.bps;
            text += &format!("  {} left", output::human_seconds(left_s));
        }
        _ => {}
    }
    for figure in path_figures(snapshot) {
        text += &format!("  {figure}");
    }
    if snapshot.silence >= SILENCE_SHOWN {
        text += &format!("  {}", output::nothing_heard(snapshot.silence));
    }
    text
}

/// Formats path statistics for display. Receivers send only acknowledgements, so they show the loss of incoming
/// datagrams instead.
fn path_figures(snapshot: &Snapshot) -> Vec<String> {
    let Some(path) = snapshot.path else { return Vec::new() };
    if snapshot.total_bytes.is_none() {
        return path.incoming_loss.map(|loss| format!("loss {:.1} %", 100.0 * loss)).into_iter().collect();
    }
    // Omit the automatic rate: the transfer rate is shown already.
    let losses = path.found.and_then(|found| found.losses());
    [path.describe_queue(), path.describe_loss(losses)].into_iter().flatten().collect()
}

/// Returns the wasted data datagrams; `None` at receivers, which send no data.
fn waste(snapshot: &Snapshot) -> Option<Waste> {
    snapshot.path.and_then(|path| path.waste()).filter(|_| snapshot.total_bytes.is_some())
}

fn mean_rate_bps(report: &Report) -> f64 {
    let seconds = report.last.elapsed.as_secs_f64();
    // Bytes of earlier sessions of this transfer count as resumed in the last session, but they were transferred, too.
    let was_there_bytes = (report.resumed_bytes + report.copied_bytes).saturating_sub(report.earlier_bytes);
    let came_bytes = report.bytes.saturating_sub(was_there_bytes);
    if seconds > 0.0 { 8.0 * came_bytes as f64 / seconds } else { 0.0 }
}

/// Formats the summary of a dry run.
fn dry_summary(report: &Report) -> String {
    let files = match report.wanted.saturating_sub(report.wanted_links) {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let links = if report.wanted_links == 1 { "link would be made" } else { "links would be made" };
    let mut text = format!("dry run: {files} ({}) would be sent", human_bytes(report.wanted_bytes));
    for (count, what) in [
        (report.wanted_links, links),
        (report.deleted, "would be deleted"),
        (report.unnamed, "that this key has not stored would be deleted, too, unless a pattern protects them"),
        (report.unchanged, "unchanged"),
        (report.failed, "would fail"),
        (report.skipped, "skipped"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} verified ({}) in {}, {}",
        match report.stored.saturating_sub(report.directories + report.links) {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        },
        human_bytes(report.bytes),
        output::human_seconds(report.last.elapsed.as_secs_f64()),
        human_rate(mean_rate_bps(report)),
    );
    if report.resumed > 0 {
        text += &format!(", {} resumed ({} were there)", report.resumed, human_bytes(report.resumed_bytes));
    }
    if report.sessions > 1 {
        text += &format!(", in {} sessions", report.sessions);
    }
    if report.copied > 0 {
        text += &format!(", {} by what has changed ({} were there)", report.copied, human_bytes(report.copied_bytes));
    }
    let links = if report.links == 1 { "link" } else { "links" };
    for (count, what) in [
        (report.links, links),
        (report.unchanged, "unchanged"),
        (report.deleted, "deleted"),
        (report.failed, "failed"),
        (report.skipped, "skipped"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    // Receivers send only acknowledgements, whose statistics do not describe the transfer.
    let path = report.last.path.filter(|_| report.last.total_bytes.is_some() && report.bytes > 0);
    let goodput_bps = mean_rate_bps(report);
    let mut details = path.map_or_else(Vec::new, |path| path.describe(goodput_bps));
    // A transfer without duration has no bottleneck. If the rate was not limiting, the path is not known as the
    // bottleneck.
    let is_free = path.and_then(|path| path.found).is_some_and(|found| !found.limits(goodput_bps));
    let is_known =
        |bottleneck: &Bottleneck| report.last.elapsed >= RATE_KNOWN && !(is_free && *bottleneck == Bottleneck::Path);
    let bottleneck = report.last.bottleneck.filter(is_known);
    details.extend(bottleneck.map(|bottleneck| format!("limited by {}", bottleneck.describe())));
    if !details.is_empty() {
        text += &format!("\n  {}", details.join(", "));
    }
    if let Some(advice) = path.as_ref().and_then(rate_advice) {
        text += &format!("\n  {advice}");
    }
    text
}

#[cfg(test)]
mod tests {
    use dfcp_files::transport::{DataDatagrams, FoundRate, Wasted};

    use super::*;

    const fn path() -> PathSample {
        PathSample {
            incoming_loss: Some(0.042),
            loss: Some(0.051),
            rtt_ms: None,
            datagrams_sent: 1100,
            data_datagrams: DataDatagrams { source: 900, repair: 90, proactive: 10, probe: 0 },
            wasted: Wasted { dependent: 2, late: 1, refused: 0 },
            ip_bytes_sent: 1_100_000,
            bytes_acknowledged: 1_000_000,
            carried_rate_bps: None,
            queue_ms: Some(3.21),
            found: None,
            marks: None,
            packet_bytes: None,
        }
    }

    fn half_way() -> Snapshot {
        Snapshot {
            done_bytes: 1_000_000,
            total_bytes: Some(2_000_000),
            total_is_final: true,
            elapsed: Duration::from_secs(2),
            path: Some(path()),
            bottleneck: None,
            silence: Duration::from_millis(250),
            unheard: Duration::ZERO,
        }
    }

    const fn rate(known_ms: u64) -> Option<Rate> {
        Some(Rate { bps: 8e6, known: Duration::from_millis(known_ms) })
    }

    #[test]
    fn the_bar_says_what_is_known() {
        assert_eq!(message(&half_way(), rate(2000)), "1.00 MB of 2.00 MB  8.00 Mbit/s  1.0 s left  loss 5.1 %");
        assert_eq!(message(&half_way(), rate(500)), "1.00 MB of 2.00 MB  8.00 Mbit/s  loss 5.1 %");
        let early = Snapshot { path: Some(PathSample { loss: None, ..path() }), ..half_way() };
        assert_eq!(message(&early, None), "1.00 MB of 2.00 MB");
        let silent = Snapshot { silence: Duration::from_millis(5900), ..half_way() };
        assert!(message(&silent, None).ends_with("  nothing heard for 5 s"));
        let found = Some(FoundRate {
            datagrams_judged: 500,
            datagrams_lost: 30,
            datagrams_lost_in_queue: 5,
            ..FoundRate::default()
        });
        let automatic = Snapshot { path: Some(PathSample { found, ..path() }), ..half_way() };
        let line = "1.00 MB of 2.00 MB  8.00 Mbit/s  1.0 s left  queue 3.2 ms  loss 5.0 % + 1.0 % own";
        assert_eq!(message(&automatic, rate(2000)), line);
        let sent = Snapshot { done_bytes: 2_000_000, ..half_way() };
        assert!(message(&sent, rate(2000)).contains("confirming"));
        let receiver = Snapshot { total_bytes: None, ..half_way() };
        assert_eq!(message(&receiver, rate(2000)), "1.00 MB  8.00 Mbit/s  loss 4.2 %");
    }

    #[test]
    fn the_closing_lines_have_the_senders_figures() {
        let report = Report { stored: 1, bytes: 1_000_000, last: half_way(), ..Report::default() };
        let text = summary(&report);
        assert_eq!(text, "1 file verified (1.00 MB) in 2.0 s, 4.00 Mbit/s\n  loss 5.1 %, overhead 10.0 %, waste 0.3 %");
        assert_eq!(waste(&report.last).map(|waste| (waste.dependent, waste.late)), Some((2, 1)));
        let receiver = Report { last: Snapshot { total_bytes: None, ..half_way() }, failed: 2, ..report };
        assert_eq!(summary(&receiver), "1 file verified (1.00 MB) in 2.0 s, 4.00 Mbit/s, 2 failed");
        assert_eq!(waste(&receiver.last), None);
        // Over loopback the rate exceeds any link, so the bottleneck is unknown.
        for (rate_bps, expected) in [(5_000_000, "limited by the path or the rate"), (1 << 40, "rate not limiting")] {
            let found = Some(FoundRate { rate_bps, ..FoundRate::default() });
            let last = Snapshot {
                path: Some(PathSample { found, ..path() }),
                bottleneck: Some(Bottleneck::Path),
                ..half_way()
            };
            let text = summary(&Report { stored: 1, bytes: 1_000_000, last, ..Report::default() });
            assert!(text.contains(expected), "{text}");
            assert_eq!(text.contains("limited by"), rate_bps == 5_000_000, "{text}");
        }
        let limited = PathSample { carried_rate_bps: Some(4_963_000), ..path() };
        let report = Report { last: Snapshot { path: Some(limited), ..half_way() }, bytes: 1, ..Report::default() };
        assert!(summary(&report).contains("--rate 4.9mbit"), "{}", summary(&report));
    }

    #[test]
    fn a_sender_that_breaks_off_gives_the_advice_of_its_last_report() {
        let limited = Some(PathSample { carried_rate_bps: Some(4_963_000), ..path() });
        for (total_bytes, expected) in [(Some(2_000_000), true), (None, false)] {
            let display = Display::new(&MultiProgress::new(), "there", false, false);
            display.progress(&half_way());
            assert_eq!(display.last_advice(), None);
            display.progress(&Snapshot { path: limited, total_bytes, ..half_way() });
            let advice = display.last_advice().unwrap_or_default();
            assert_eq!(advice.contains("--rate 4.9mbit"), expected, "{advice}");
        }
    }

    #[test]
    fn a_silence_is_in_every_line_for_programs_and_told_once_where_there_is_no_bar() {
        let display = Display::new(&MultiProgress::new(), "there", true, false);
        let silent = Snapshot { silence: Duration::from_millis(1250), ..half_way() };
        assert_eq!(display.progress_object(&silent, None)["silent_s"], 1.25);
        let mut state = State::default();
        let mut news = |seconds| state.is_silence_news(Duration::from_secs(seconds));
        let told: Vec<_> = [0, 9, 10, 11, 29, 0, 10, 11].into_iter().filter(|seconds| news(*seconds)).collect();
        assert_eq!(told, [10, 10]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_waits_for_the_first_bytes() {
        let mut state = State::default();
        let at = |ms, done_bytes| Snapshot { elapsed: Duration::from_millis(ms), done_bytes, ..Snapshot::default() };
        assert_eq!(state.advance(&at(0, 0)), None);
        assert_eq!(state.advance(&at(1000, 0)), None);
        assert_eq!(state.advance(&at(1250, 250_000)), None);
        assert_eq!(state.advance(&at(1500, 500_000)), Some(Rate { bps: 8e6, known: Duration::from_millis(250) }));
        assert_eq!(state.advance(&at(1501, 500_000)).map(|rate| rate.known), Some(Duration::from_millis(251)));
        // During a stall: the mean falls to half within the window, then to 0.
        assert_eq!(state.advance(&at(1750, 500_000)).map(|rate| rate.bps), Some(4e6));
        assert_eq!(state.advance(&at(4900, 500_000)), None);
        assert_eq!(state.advance(&at(5100, 500_000)).map(|rate| rate.bps), Some(0.0));
    }
}
