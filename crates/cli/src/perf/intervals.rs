//! Measurement split into intervals, for text and JSON.

use std::time::Duration;

use serde_json::json;

use super::Measured;
use crate::limits::PERF_INTERVALS_MAX;
use crate::output;
use crate::progress::SILENCE_SHOWN;

/// Shortest interval that gets a line, s: four reports last about a second.
pub(super) const INTERVAL_S: f64 = 0.875;

/// Shortest final interval that gets a line, s.
const REST_S: f64 = 0.125;

/// Returns the JSON of one direction.
pub(super) fn of_direction(measured: &Measured, intervals: &Intervals) -> serde_json::Value {
    let intervals: Vec<_> = intervals
        .finished
        .iter()
        .map(|(start_s, part)| {
            let mut object = of_path(part);
            object["start_s"] = json!(start_s);
            add_goodput(&mut object, part);
            object
        })
        .collect();
    let mut object = json!({ "total": of_path(measured), "intervals": intervals });
    add_goodput(&mut object, measured);
    object
}

fn add_goodput(object: &mut serde_json::Value, measured: &Measured) {
    object["bytes"] = json!(measured.bytes);
    object["seconds"] = json!(measured.seconds);
    object["goodput_bps"] = json!(measured.goodput_bps());
}

fn of_path(measured: &Measured) -> serde_json::Value {
    json!({
        "path": measured.path, "losses": measured.losses, "overhead": measured.path.and_then(|path| path.overhead()),
        "waste": measured.path.and_then(|path| path.waste()),
    })
}

/// Splits a measurement into intervals of about a second; at most one per second of `PERF_DURATION_MAX` is kept.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    last: Measured,
    /// Finished intervals, each with its start, s.
    finished: Vec<(f64, Measured)>,
}

impl Intervals {
    /// Processes an interim count, which repeats an old one while the peer is silent. Returns the line to print, if one
    /// is due.
    pub(super) fn advance(&mut self, now: &Measured) -> Option<String> {
        if now.seconds - self.last.seconds >= INTERVAL_S {
            return Some(self.cut(now));
        }
        // Without a new count no interval ends, but a line about the silence may be due.
        let told = if now.silence < self.last.silence { Duration::ZERO } else { self.last.silence };
        let is_due = now.silence >= SILENCE_SHOWN && (now.silence - told).as_secs_f64() >= INTERVAL_S;
        is_due.then(|| {
            self.last.silence = now.silence;
            output::nothing_heard(now.silence)
        })
    }

    /// Ends the last interval and returns its line; `None` if it is shorter than `REST_S`.
    pub(super) fn finish(&mut self, end: &Measured) -> Option<String> {
        (end.seconds - self.last.seconds >= REST_S).then(|| self.cut(end))
    }

    fn cut(&mut self, now: &Measured) -> String {
        let part = now.since(&self.last);
        let text = format!("{:6.1} – {:6.1} s  {}", self.last.seconds, now.seconds, part.describe(false));
        if self.finished.len() < PERF_INTERVALS_MAX {
            self.finished.push((self.last.seconds, part));
        }
        self.last = *now;
        text
    }
}
