//! Standard output and standard error. A closed pipe is not an error: the reader wants no more lines.

use std::io::{self, Write};

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    let mut out = io::stdout().lock();
    // Nobody is left to read about a failure.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    // Same as in `line`.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
