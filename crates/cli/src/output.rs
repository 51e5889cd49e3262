//! Standard output and standard error. A closed pipe is not an error: its reader wants no more lines, and the work
//! goes on. (`println!` would panic.) Any other failure loses what a command has found out, so the command fails by it at its end.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use serde_json::Value;

/// The first line that standard output did not take.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// One line on standard output.
pub fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// Whole lines on standard output, as they are.
pub fn bytes(text: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Later ones are lost for the same reason.
        let _ = LOST.set(error);
    }
}

/// The error after which lines for standard output were lost, if any.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// One JSON object as a line on standard output.
pub fn json(value: &Value) {
    line(&value.to_string());
}

/// Set by `--quiet`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on, tells nothing but errors, warnings, codes and results.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// True if progress is not to be shown.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// One line on standard error about what is going on, unless that is not wanted.
pub fn note(text: &str) {
    if !is_quiet() {
        always(text);
    }
}

/// One line on standard error, wanted or not: an error, a warning, a code, or what was asked for.
pub fn always(text: &str) {
    // Nobody is left to be told about a failure here.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// One line of interim results on standard output, unless progress is not wanted.
pub fn progress(text: &str) {
    if !is_quiet() {
        line(text);
    }
}

/// Bars on standard error, where that is a terminal and progress is wanted.
#[must_use]
pub fn bars() -> MultiProgress {
    MultiProgress::with_draw_target(draw_target())
}

/// The terminal on which bars are drawn, or none.
#[must_use]
fn draw_target() -> ProgressDrawTarget {
    if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// One such bar of this length, if it has one, unless it is to be hidden in any case.
#[must_use]
pub fn bar(length: Option<u64>, is_hidden: bool) -> ProgressBar {
    let target = if is_hidden { ProgressDrawTarget::hidden() } else { draw_target() };
    ProgressBar::with_draw_target(length, target)
}

/// The message that the peer has been silent for this long.
pub fn nothing_heard(silence: Duration) -> String {
    format!("nothing heard for {} s", silence.as_secs())
}

/// A duration for display: `7.3 s`, `4 min 05 s`, `2 h 03 min`.
pub fn human_seconds(seconds: f64) -> String {
    // Longer than any transfer, and safe to convert.
    let seconds = seconds.clamp(0.0, 1e9);
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_naturally() {
        for (seconds, text) in [
            (0.04, "0.0 s"),
            (59.4, "59.4 s"),
            (245.0, "4 min 05 s"),
            (7380.0, "2 h 03 min"),
            (f64::INFINITY, "277777 h 46 min"),
        ] {
            assert_eq!(human_seconds(seconds), text);
        }
    }
}
