//! Standard output and standard error. A closed pipe is not an error: its reader wants no more lines, and the work
//! goes on. (`println!` would panic.)

use std::io::{self, Write};
use std::time::Duration;

use serde_json::Value;

/// One line on standard output.
pub fn line(text: &str) {
    let mut out = io::stdout().lock();
    // Nobody is left to be told about a failure here.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// One JSON object as a line on standard output.
pub fn json(value: &Value) {
    line(&value.to_string());
}

/// One line on standard error.
pub fn note(text: &str) {
    // As in `line`.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// That the peer has been silent for so long.
pub fn nothing_heard(silence: Duration) -> String {
    format!("nothing heard for {} s", silence.as_secs())
}

/// A duration for people: `7.3 s`, `4 min 05 s`, `2 h 03 min`.
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
