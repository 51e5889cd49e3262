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
    /// Which bottleneck, counted from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// What the rate comes from.
    pub from: RatesFrom,
    /// The file, beside the plan unless it is an absolute path.
    pub file: String,
    /// For so long, ms, the rate is the mean of what the trace lets through meanwhile. Default 20.
    pub bin_ms: Option<f64>,
    /// What is in the file.
    #[serde(skip)]
    pub trace: Option<DeliveryTrace>,
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

/// Why a trace cannot be used.
pub(super) enum LoadError {
    /// It cannot be read: a sentence.
    File(String),
    /// It is there, and none: the name of the file, and what is wrong with it.
    Content(String, DeliveryTraceError),
}

impl Rates {
    /// Reads the file, which is one of `brought`, by name and text, or is looked for beside the plan `plan_file`.
    pub(super) fn load(&mut self, plan_file: &str, brought: &[(&str, &str)]) -> Result<(), LoadError> {
        let RatesFrom::Trace = self.from;
        if let Some((name, text)) = brought.iter().find(|(name, _)| *name == self.file) {
            let content = |error| LoadError::Content((*name).to_owned(), error);
            self.trace = Some(DeliveryTrace::parse(text).map_err(content)?);
            return Ok(());
        }
        let beside = Path::new(plan_file).parent().unwrap_or_else(|| Path::new(""));
        let path = beside.join(&self.file);
        let shown = path.display().to_string();
        let unreadable = |error: String| {
            LoadError::File(format!("cannot read the trace {shown}: {error}; `file` is a path beside the plan"))
        };
        let mut text = String::new();
        let file = File::open(&path).map_err(|error| unreadable(error.to_string()))?;
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(unreadable(format!("it has more than {FILE_BYTES_MAX} bytes")));
        }
        let trace = DeliveryTrace::parse(&text).map_err(|error| LoadError::Content(shown.clone(), error))?;
        self.trace = Some(trace);
        Ok(())
    }
}
