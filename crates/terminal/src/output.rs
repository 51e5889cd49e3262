//! Standard output and standard error. A closed pipe is no error: its reader wants no more lines, and the work goes on.
//! (`println!` would panic.) Any other write failure loses results, so the command fails at its end.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use serde_json::Value;

/// First failure of writing to standard output.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Prints one line on standard output.
pub fn line(text: &str) {
    bytes(format!("{text}\n").as_bytes());
}

/// Prints whole lines on standard output, unchanged.
pub fn bytes(text: &[u8]) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text).and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Later lines are lost for the same reason.
        let _ = LOST.set(error);
    }
}

/// Returns the first error that lost output, if any.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// Prints one JSON object as a line on standard output.
pub fn json(value: &Value) {
    line(&value.to_string());
}

/// Set by `--quiet`.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Suppresses everything except errors, warnings, codes and results from now on.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns true if progress is suppressed.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints one line about progress on standard error, unless progress is suppressed.
pub fn note(text: &str) {
    if !is_quiet() {
        always(text);
    }
}

/// Prints one line on standard error in any case: an error, a warning, a code, or a requested result.
pub fn always(text: &str) {
    // A failure of standard error cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints one line of interim results on standard output, unless progress is suppressed.
pub fn progress(text: &str) {
    if !is_quiet() {
        line(text);
    }
}

/// Returns progress bars on standard error; hidden if it is no terminal, or progress is suppressed.
#[must_use]
pub fn bars() -> MultiProgress {
    MultiProgress::with_draw_target(draw_target())
}

/// Returns the terminal for progress bars, or a hidden target if progress is suppressed.
#[must_use]
fn draw_target() -> ProgressDrawTarget {
    if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
}

/// Returns a progress bar of this length, if known; `is_hidden` hides it in any case.
#[must_use]
pub fn bar(length: Option<u64>, is_hidden: bool) -> ProgressBar {
    let target = if is_hidden { ProgressDrawTarget::hidden() } else { draw_target() };
    ProgressBar::with_draw_target(length, target)
}

/// Returns the message about a peer that has been silent for this long.
pub fn nothing_heard(silence: Duration) -> String {
    format!("nothing heard for {} s", silence.as_secs())
}

/// Formats a duration: `7.3 s`, `4 min 05 s`, `2 h 03 min`.
pub fn human_seconds(seconds: f64) -> String {
    // The upper bound exceeds any transfer, and its integer conversion cannot overflow.
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
