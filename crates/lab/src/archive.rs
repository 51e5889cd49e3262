//! Archived records of a full run, kept with the plans: one compressed file per plan, from which the report can be drawn again without a
//! run.
//!
//! An archived record stays true of its run when the code changes, but is then the result of an older program: it is found by its settings,
//! not by its hash.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};

use crate::expand::{Run, SCHEMA};
use crate::record::Record;

/// Most bytes of all records of a plan after decompression; a small file could otherwise expand without bound.
const ARCHIVE_BYTES_MAX: u64 = 1 << 30;
/// Most bytes of one record.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Reason for which an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A read or write failed, or the compressed data is corrupt.
    #[error("cannot use the archive {path}: {error}")]
    Io {
        /// Path of the file.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// A line of the archive is invalid.
    #[error("{path}, line {line} is not a record: {error}; make the archive anew with `dfcp lab archive`")]
    Line {
        /// Path of the file.
        path: String,
        /// Number of the line, from 1.
        line: usize,
        /// Reason.
        error: serde_json::Error,
    },
    /// The archive exceeds the limit after decompression.
    #[error("the archive {path} has more than {} MiB, or a record of more than {}, which no plan has", ARCHIVE_BYTES_MAX >> 20, RECORD_BYTES_MAX >> 20)]
    TooLong {
        /// Path of the file.
        path: String,
    },
}

/// Size of a written archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Number of records.
    pub records: usize,
    /// Size of the file, bytes.
    pub bytes: u64,
}

fn path(directory: &Path, plan: &str) -> PathBuf {
    directory.join(format!("{plan}.jsonl.gz"))
}

fn io_error(path: &Path, error: io::Error) -> ArchiveError {
    ArchiveError::Io { path: path.display().to_string(), error }
}

/// Writes those `records` that belong to `runs`, all of one plan, in the order of the runs. The same records give the same bytes.
///
/// # Errors
/// Fails if the file cannot be written; an existing archive is then kept.
pub fn pack(
    directory: &Path,
    plan: &str,
    runs: &[Run],
    records: &BTreeMap<String, Record>,
) -> Result<Packed, ArchiveError> {
    let path = path(directory, plan);
    let fresh = path.with_extension("new");
    let write = || {
        fs::create_dir_all(directory)?;
        let mut out = GzBuilder::new().write(File::create(&fresh)?, Compression::best());
        let mut count = 0;
        for record in runs.iter().filter_map(|run| records.get(&run.hash)) {
            serde_json::to_writer(&mut out, record)?;
            out.write_all(b"\n")?;
            count += 1;
        }
        let file = out.finish()?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        Ok(Packed { records: count, bytes: file.metadata()?.len() })
    };
    write().map_err(|error| {
        // A half-written file is useless; a failure to remove it adds nothing to the error returned.
        let _ = fs::remove_file(&fresh);
        io_error(&path, error)
    })
}

/// Archived records of `runs`, all of one plan, by the hashes of the runs; empty if there is no archive. Records with the settings of none
/// of the runs are skipped.
///
/// # Errors
/// Fails if the archive cannot be read, or has a line that is not a record.
pub fn unpack(directory: &Path, plan: &str, runs: &[Run]) -> Result<BTreeMap<String, Record>, ArchiveError> {
    let path = path(directory, plan);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        file => file.map_err(|error| io_error(&path, error))?,
    };
    let wanted: BTreeMap<Settings, &str> = runs.iter().map(|run| (Settings::of_run(run), run.hash.as_str())).collect();
    let mut found = BTreeMap::new();
    let mut text = BufReader::new(GzDecoder::new(file)).take(ARCHIVE_BYTES_MAX + 1);
    for number in 1_usize.. {
        let mut line = Vec::new();
        text.by_ref()
            .take(RECORD_BYTES_MAX + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| io_error(&path, error))?;
        if text.limit() == 0 || line.len() as u64 > RECORD_BYTES_MAX {
            return Err(ArchiveError::TooLong { path: path.display().to_string() });
        }
        if line.is_empty() {
            break;
        }
        let wrong = |error| ArchiveError::Line { path: path.display().to_string(), line: number, error };
        let mut record: Record = serde_json::from_slice(&line).map_err(wrong)?;
        if let Some(hash) = wanted.get(&Settings::of_record(&record)).filter(|_| record.schema == SCHEMA) {
            record.hash = (*hash).to_owned();
            found.insert(record.hash.clone(), record);
        }
    }
    Ok(found)
}

/// All settings that decide the result of a run, except the code.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Settings {
    platform: String,
    series: String,
    seed: u64,
    scenario: String,
}

impl Settings {
    fn of_run(run: &Run) -> Self {
        Self {
            platform: run.engine.platform.clone(),
            series: run.series.clone(),
            seed: run.seed,
            scenario: serde_json::to_value(&run.scenario).unwrap_or_default().to_string(),
        }
    }

    fn of_record(record: &Record) -> Self {
        Self {
            platform: record.platform.clone(),
            series: record.series.clone(),
            seed: record.seed,
            scenario: record.scenario.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
