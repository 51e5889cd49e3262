//! Standard output and standard error. A closed pipe is not an error: who stopped reading wants no more lines, and the
//! work goes on. (`println!` would panic.)

use std::io::{self, Write};

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

/// `text` with every control character escaped, so that what a peer named or said cannot steer a terminal or fake a
/// line of ours.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_bidi_control(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Characters which reorder the text around them.
const fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
    fn what_a_peer_says_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{202e}d é日"), "a\\u{1b}[2Jb\\nc\\u{202e}d é日");
    }

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
