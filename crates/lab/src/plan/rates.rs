//! Tables `[[rates]]` of a plan: bottlenecks with a recorded rate.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use dfcp_netem::{DeliveryTrace, DeliveryTraceError, TRACE_TEXT_BYTES_MAX};
use serde::Deserialize;

/// A table `[[rates]]` of a plan: a recorded rate of a bottleneck over time, instead of `rate_mbps`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Number of the bottleneck, from 1. Default 1.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Source of the rate.
    pub from: RatesFrom,
    /// Path of the file, absolute or relative to the plan.
    pub file: String,
    /// Direction of the bottleneck. Default: up, the direction of data.
    #[serde(default)]
    pub way: Way,
    /// Width of the bins over which the recorded rate is averaged, ms. Default 20.
    pub bin_ms: Option<f64>,
    /// Contents of the file; `None` until it is read.
    #[serde(skip)]
    pub trace: Option<DeliveryTrace>,
}

/// A direction of a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The direction of data.
    #[default]
    Up,
    /// The reverse direction.
    Down,
}

/// Source of a recorded rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RatesFrom {
    /// A mahimahi trace: each line is a time in ms at which a packet of 1500 bytes may be sent.
    Trace,
}

fn first() -> usize {
    1
}

/// Error of reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read: path and reason.
    #[error("cannot read the trace {0}: {1}")]
    File(String, String),
    /// The file is not a valid trace: path and fault.
    #[error("{0}, line {line}: {1}", line = .1.line)]
    Content(String, DeliveryTraceError),
}

/// Reads a trace from a file.
fn read_trace(path: &Path) -> Result<DeliveryTrace, TraceError> {
    let shown = path.display().to_string();
    let unreadable = |error: String| TraceError::File(shown.clone(), error);
    let mut text = String::new();
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    file.take(TRACE_TEXT_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > TRACE_TEXT_BYTES_MAX {
        return Err(unreadable(format!("it has more than {TRACE_TEXT_BYTES_MAX} bytes")));
    }
    DeliveryTrace::parse(&text).map_err(|error| TraceError::Content(shown.clone(), error))
}

impl Rates {
    /// Loads the trace: from `brought` (name and text of embedded traces), or from a file beside the plan `plan_file`.
    pub(super) fn load(&mut self, plan_file: &str, brought: &[(&str, &str)]) -> Result<(), TraceError> {
        let RatesFrom::Trace = self.from;
        let trace = match brought.iter().find(|(name, _)| *name == self.file) {
            Some((name, text)) => {
                DeliveryTrace::parse(text).map_err(|error| TraceError::Content((*name).to_owned(), error))
            }
            None => read_trace(&Path::new(plan_file).parent().unwrap_or_else(|| Path::new("")).join(&self.file)),
        };
        self.trace = Some(trace?);
        Ok(())
    }
}
