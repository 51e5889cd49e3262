//! Standard output and standard error. A closed pipe is not an error: who stopped reading wants no more lines.

use std::io::{self, Write};

/// Text on standard output, with a line's end behind it.
pub(crate) fn line(text: &str) {
    let mut out = io::stdout().lock();
    // Nobody is left to be told about a failure here.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// One line on standard error.
pub(crate) fn note(text: &str) {
    // As in `line`.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
