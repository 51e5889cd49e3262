//! Archive of full runs' records: one compressed file per plan, kept with the plans, from which the report can be
//! redrawn without running.
//!
//! A record in the archive keeps its value after a change of the code, although an older program made it. Archived
//! records are therefore found by their settings, not by the hash, which includes the code.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};

use crate::expand::{Run, SCHEMA};
use crate::record::Record;

/// Greatest size of all records of a plan after decompression, bytes; a small file could otherwise expand without
/// bound.
const ARCHIVE_BYTES_MAX: u64 = 1 << 30;
/// Greatest size of one record, bytes.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Error of writing or reading an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A file operation failed, or the compressed data is corrupt.
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
    /// The archive, or one record, exceeds its size limit after decompression.
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

/// Writes the `records` of `runs`, all of one plan, in the order of the runs. The file is deterministic: same records,
/// same bytes.
///
/// # Errors
/// Fails if the file cannot be written. An existing archive is then unchanged.
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
        // Remove the incomplete file. If this fails too, the first error is the one to return.
        let _ = fs::remove_file(&fresh);
        io_error(&path, error)
    })
}

/// Reads the archived records of `runs`, all of one plan, and keys them by the runs' hashes. Records whose settings
/// match no run are skipped. Empty without an archive.
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

/// Settings that decide the result of a run, apart from the code. They identify an archived record.
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
