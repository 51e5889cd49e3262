//! Printed output. A closed pipe is an error, not a panic.

use std::io::Write as _;

use anyhow::{Context, Result};

/// Writes text to standard output.
pub(crate) fn text(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Writes a line to standard error, for people.
pub(crate) fn note(line: &str) {
    // A closed standard error has no reader to miss the line.
    let _ = writeln!(std::io::stderr(), "{line}");
}
