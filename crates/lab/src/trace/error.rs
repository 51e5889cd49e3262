//! Errors of traces.

use std::io;
use std::time::Duration;

use super::ROWS_MAX;
use crate::measure::MeasureError;

/// Error of making a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The scenario is impossible, or the run failed.
    #[error(transparent)]
    Impossible(#[from] MeasureError),
    /// The bin width is zero.
    #[error("bins have no width; give one with --bin, like 100ms")]
    Bin,
    /// The duration is zero or too long.
    #[error("a trace of {} s is impossible; give a --duration above 0 and up to 100000s", .0.as_secs_f64())]
    Duration(Duration),
    /// The tables would have too many lines.
    #[error("the trace would have {0} lines, more than {ROWS_MAX}; give a wider --bin or a shorter --duration")]
    Rows(u64),
    /// A file cannot be read or written.
    #[error("cannot write {path}: {error}; check the directory given with --output")]
    Io {
        /// Path of the file.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// The directory contains a file of another trace, which would be mistaken for a part of this one.
    #[error(
        "{0} is of another trace; remove it, ask for a new one with --pcap, or give another directory with --output"
    )]
    Stale(String),
    /// The platform cannot execute this run or trace; the text is the reason.
    #[error("{0}")]
    Refused(String),
    /// The trace was stopped on request.
    #[error("the trace was broken off, and its files are removed; start it again when ready")]
    Stopped,
    /// The simulator violated conservation laws of its links: it has a defect.
    #[error(
        "the run broke {count} physical laws, so do not believe the trace in {directory}, and report this: {first}"
    )]
    Violated {
        /// Number of violations; the simulator keeps the first 20, and those of the final counters.
        count: usize,
        /// Description of the first violation.
        first: String,
        /// Directory of the files.
        directory: String,
    },
}

impl From<String> for TraceError {
    /// Converts a sentence about an invalid scenario.
    fn from(message: String) -> Self {
        Self::Impossible(MeasureError::Impossible(message))
    }
}
