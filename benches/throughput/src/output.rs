//! Standard output and standard error. A closed pipe is not an error: the reader wants no more lines.

use std::io::{self, Write};

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    let mut out = io::stdout().lock();
    // A failure is ignored: no reader is left for its message.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    // A failure is ignored, as in `line`.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
