//! Records of runs: each is one self-describing line of JSON.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::expand::{Form, Run, SCHEMA};
use crate::host;
use crate::metrics::{METRICS, Measured, is_of_flows};
use crate::plan::Point;

/// Record of a finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format.
    pub schema: u32,
    /// Id of the plan.
    pub plan: String,
    /// Form of the plan: full, quick or small.
    pub form: Form,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Seed of the run's random numbers.
    pub seed: u64,
    /// Hash of all settings and code that decide the result.
    pub hash: String,
    /// Resolved settings of the run, as JSON of a [`Scenario`](crate::scenario::Scenario).
    pub scenario: serde_json::Value,
    /// Measurements.
    pub measured: Measured,
    /// Version of the program.
    pub version: String,
    /// Commit of the program's source; empty if it was not built in a repository.
    pub commit: String,
    /// Name of the platform: `sim` for the simulator, `kernel-6.12.117` for a kernel, `testbed-6.18.44` for the testbed
    /// with its kernel.
    pub platform: String,
    /// Description of the machine: name, processor, memory, system.
    pub host: String,
    /// Duration of the run in real time, s.
    pub wall_s: f64,
}

/// Fields that all records of this program on this machine have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Version of the program.
    pub version: String,
    /// Commit of the program's source; empty if it was not built in a repository.
    pub commit: String,
    /// Description of the machine: name, processor, memory, system.
    pub host: String,
}

impl Origin {
    /// Returns the origin of records written by this program on this machine.
    #[must_use]
    pub fn here() -> Self {
        let host = host::describe();
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("DFCP_COMMIT").to_owned(), host }
    }
}

/// Error of a file of records.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be read or written.
    #[error("cannot use {path}: {error}; check the directory given with --results")]
    Io {
        /// Path of the file.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// A line of the file is invalid.
    #[error("{path}, line {line} is not a record: {error}; remove the line, and its run is made again")]
    Line {
        /// Path of the file.
        path: String,
        /// Number of the line, from 1.
        line: usize,
        /// Reason.
        error: serde_json::Error,
    },
}

fn io_error(path: &Path, error: io::Error) -> RecordError {
    RecordError::Io { path: path.display().to_string(), error }
}

impl Record {
    /// Creates the record of a finished run.
    #[must_use]
    pub fn new(run: &Run, form: Form, measured: Measured, origin: &Origin, wall_s: f64) -> Self {
        Self {
            schema: SCHEMA,
            plan: run.plan.clone(),
            form,
            series: run.series.clone(),
            point: run.point.clone(),
            repetition: run.repetition,
            seed: run.seed,
            hash: run.hash.clone(),
            scenario: serde_json::to_value(&run.scenario).unwrap_or_default(),
            measured,
            version: origin.version.clone(),
            commit: origin.commit.clone(),
            platform: run.engine.platform.clone(),
            host: origin.host.clone(),
            wall_s,
        }
    }
}

/// File of a plan's records, open for appending.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
}

impl Log {
    /// Opens the records of `plan` in `directory`; creates directory and file if necessary. Removes an incomplete last
    /// line, left by an interruption.
    ///
    /// # Errors
    /// Fails if the file cannot be used.
    pub fn open(directory: &Path, plan: &str) -> Result<Self, RecordError> {
        fs::create_dir_all(directory).map_err(|error| io_error(directory, error))?;
        let path = path(directory, plan);
        let io = |error| io_error(&path, error);
        let file = OpenOptions::new().create(true).append(true).read(true).open(&path).map_err(io)?;
        let text = fs::read(&path).map_err(io)?;
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(io)?;
        }
        Ok(Self { path, file })
    }

    /// Appends a record with one write, so that an interruption loses at most this record.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn add(&mut self, record: &Record) -> Result<(), RecordError> {
        let mut line = serde_json::to_vec(record).map_err(|error| io_error(&self.path, error.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| io_error(&self.path, error))
    }
}

fn path(directory: &Path, plan: &str) -> PathBuf {
    directory.join(format!("{plan}.jsonl"))
}

/// Reads the records of `plan` in `directory`, keyed by hash; empty if there is no file. An incomplete last line and
/// records of other format versions are skipped.
///
/// # Errors
/// Fails if the file cannot be read, or has a line that is not a record.
pub fn read(directory: &Path, plan: &str) -> Result<BTreeMap<String, Record>, RecordError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let path = path(directory, plan);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        text => text.map_err(|error| io_error(&path, error))?,
    };
    let mut records = BTreeMap::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if !line.ends_with('\n') {
            break;
        }
        let wrong = |error| RecordError::Line { path: path.display().to_string(), line: index + 1, error };
        if serde_json::from_str::<Version>(line).map_err(wrong)?.schema != SCHEMA {
            continue;
        }
        let record: Record = serde_json::from_str(line).map_err(wrong)?;
        records.insert(record.hash.clone(), record);
    }
    Ok(records)
}

/// Writes `records` of a plan as CSV: one line per flow and run.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_csv<'run>(
    directory: &Path,
    plan: &str,
    records: impl Iterator<Item = &'run Record>,
    warm_up_s: f64,
) -> Result<(), RecordError> {
    let path = directory.join(format!("{plan}.csv"));
    let mut text = String::new();
    for (index, record) in records.enumerate() {
        if index == 0 {
            let parameters = record.point.iter().map(|(name, _)| name.as_str());
            let names = ["plan", "platform", "series"].into_iter().chain(parameters).chain([
                "repetition",
                "seed",
                "flow",
                "flow_label",
            ]);
            line(&mut text, names.chain(METRICS.iter().map(|(name, _)| *name)).map(str::to_owned));
        }
        for flow in 0..record.measured.flows.len() {
            let value = |name: &str| {
                let of = is_of_flows(name).then_some(flow);
                record.measured.value(name, of, warm_up_s).map_or(String::new(), |value| value.to_string())
            };
            let levels = record.point.iter().map(|(_, level)| level.to_string());
            let label = record.scenario["flows"][flow]["label"].as_str().unwrap_or_default().to_owned();
            let place = [record.repetition.to_string(), record.seed.to_string(), (flow + 1).to_string(), label];
            let fields = [record.plan.clone(), record.platform.clone(), record.series.clone()]
                .into_iter()
                .chain(levels)
                .chain(place);
            line(&mut text, fields.chain(METRICS.iter().map(|(name, _)| value(name))));
        }
    }
    fs::write(&path, text).map_err(|error| io_error(&path, error))
}

/// Appends a CSV line, quoted as in RFC 4180.
pub(crate) fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        if field.contains([',', '"', '\n']) {
            text.push_str(&format!("\"{}\"", field.replace('"', "\"\"")));
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

#[cfg(test)]
mod tests;
