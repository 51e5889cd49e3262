//! `[[rates]]`: bottlenecks whose rate was recorded.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use dfcp_netem::{DeliveryTrace, DeliveryTraceError};
use serde::Deserialize;

/// The longest file of a trace that is read, bytes: as many lines as a trace may have, and more.
const FILE_BYTES_MAX: u64 = 160_000_000;

/// `[[rates]]`: the rate of a bottleneck is not `rate_mbps`, but what was recorded elsewhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Source of the rate.
    pub from: RatesFrom,
    /// The file, beside the plan unless it is an absolute path.
    pub file: String,
    /// Direction. Default: up, in data's direction.
    #[serde(default)]
    pub way: Way,
    /// Width of the bins over which the trace's rate is a mean, ms. Default 20.
    pub bin_ms: Option<f64>,
    /// Trace in the file; `None` until it is read.
    #[serde(skip)]
    pub trace: Option<DeliveryTrace>,
}

/// One way of a bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Data's direction.
    #[default]
    Up,
    /// The way back.
    Down,
}

/// Sources of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RatesFrom {
    /// A trace of mahimahi: on each line the millisecond at which a packet of 1500 bytes may leave.
    Trace,
}

fn first() -> usize {
    1
}

/// A trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("cannot read the trace {0}: {1}")]
    File(String, String),
    /// It is there, and none: the name of the file, and what is wrong with it.
    #[error("{0}, line {line}: {1}", line = .1.line)]
    Content(String, DeliveryTraceError),
}

/// Reads a trace.
///
/// # Errors
/// The file cannot be read, or has something else in it.
pub fn read_trace(path: &Path) -> Result<DeliveryTrace, TraceError> {
    let shown = path.display().to_string();
    let unreadable = |error: String| TraceError::File(shown.clone(), error);
    let mut text = String::new();
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    DeliveryTrace::parse(&text).map_err(|error| TraceError::Content(shown.clone(), error))
}

impl Rates {
    /// Reads the file, which is one of `brought`, by name and text, or is looked for beside the plan `plan_file`.
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
