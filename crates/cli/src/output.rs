//! Standard output and standard error. A closed pipe is not an error: its reader wants no more lines, and the work
//! goes on. (`println!` would panic.) Any other failure loses what a command has found out, so the command fails by it at its end.

use std::io::{self, ErrorKind, Write};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

/// The first line that standard output did not take.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// One line on standard output.
pub fn line(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        // Later ones are lost for the same reason.
        let _ = LOST.set(error);
    }
}

/// Why lines that were for standard output are missing there, if any are.
pub fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// One JSON object as a line on standard output.
pub fn json(value: &Value) {
    line(&value.to_string());
}

/// One line on standard error.
pub fn note(text: &str) {
    // Nobody is left to be told about a failure here.
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
