//! Files of a trace.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::error::TraceError;
use crate::record::line;

pub(super) const FLOWS: &str = "flows.csv";
pub(super) const QUEUES: &str = "queues.csv";
pub(super) const PACKETS: &str = "packets.pcapng";

/// Output files of a trace. [`discard`](Self::discard) removes those created so far.
#[derive(Debug)]
pub(super) struct Files {
    directory: PathBuf,
    /// Names of the files created so far.
    begun: Vec<String>,
}

impl Files {
    /// Opens a directory, creating it if necessary. Refuses a directory with an old capture, unless a new capture will
    /// overwrite it.
    pub(super) fn open(directory: &Path, has_capture: bool) -> Result<Self, TraceError> {
        let files = Self { directory: directory.to_owned(), begun: Vec::new() };
        fs::create_dir_all(directory)
            .map_err(|error| TraceError::Io { path: directory.display().to_string(), error })?;
        if !has_capture && directory.join(PACKETS).exists() {
            return Err(TraceError::Stale(files.path(PACKETS)));
        }
        Ok(files)
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    pub(super) fn error(&self, name: &str, error: io::Error) -> TraceError {
        TraceError::Io { path: self.path(name), error }
    }

    pub(super) fn create(&mut self, name: &str) -> Result<BufWriter<File>, TraceError> {
        let file = File::create(self.directory.join(name)).map_err(|error| self.error(name, error))?;
        self.begun.push(name.to_owned());
        Ok(BufWriter::new(file))
    }

    /// Copies the file `name` from the directory `from`, and returns the new path.
    pub(super) fn copy(&mut self, name: &str, from: &Path) -> Result<String, TraceError> {
        let source = from.join(name);
        let mut source =
            File::open(&source).map_err(|error| TraceError::Io { path: source.display().to_string(), error })?;
        let mut to = self.create(name)?;
        let copied = io::copy(&mut source, &mut to).and_then(|_| to.flush());
        copied.map_err(|error| self.error(name, error))?;
        Ok(self.path(name))
    }

    /// Removes all files created so far.
    pub(super) fn discard(&self) {
        for name in &self.begun {
            // A failed removal is ignored, to let the caller report the original error.
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Creates the table `name` and writes the line of column names.
    pub(super) fn csv(&mut self, name: &str, columns: &[&str]) -> Result<Csv, TraceError> {
        let mut csv = Csv { path: self.path(name), to: self.create(name)?, text: String::new() };
        csv.add(columns.iter().map(|&column| column.to_owned()))?;
        Ok(csv)
    }
}

/// CSV table open for writing.
#[derive(Debug)]
pub(super) struct Csv {
    path: String,
    to: BufWriter<File>,
    /// Buffer for the line being formatted.
    text: String,
}

impl Csv {
    pub(super) fn add(&mut self, fields: impl Iterator<Item = String>) -> Result<(), TraceError> {
        self.text.clear();
        line(&mut self.text, fields);
        let written = self.to.write_all(self.text.as_bytes());
        written.map_err(|error| TraceError::Io { path: self.path.clone(), error })
    }

    /// Flushes the table and returns its path.
    pub(super) fn finish(mut self) -> Result<String, TraceError> {
        match self.to.flush() {
            Ok(()) => Ok(self.path),
            Err(error) => Err(TraceError::Io { path: self.path, error }),
        }
    }
}
