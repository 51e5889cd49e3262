//! Parsing of plans, with a check of all their runs.

mod builtin;

use std::fs;
use std::path::Path;

pub use self::builtin::builtin;
use crate::expand::{Choice, Form, expand};
use crate::plan::{PlanError, Source};

/// Error of reading plans.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or directory cannot be read.
    #[error("cannot read {path}: {error}; check the path given with --plans")]
    Io {
        /// Path of the file or directory.
        path: String,
        /// Reason.
        error: std::io::Error,
    },
    /// A plan is invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Two plans have the same id.
    #[error("{first} and {second} both have the id {id}; rename one")]
    Twice {
        /// The common id.
        id: String,
        /// File of one plan.
        first: String,
        /// File of the other plan.
        second: String,
    },
}

/// Parses and checks the text of a plan. `file` is its name in error messages; traces named by the plan are read from
/// the directory of `file`.
///
/// # Errors
/// Fails with the first fault and its line.
pub fn parse(file: &str, text: &str) -> Result<Source, PlanError> {
    parse_with(file, text, &[])
}

/// Parses a plan. `traces` holds the name and text of embedded traces, which are not read from files.
fn parse_with(file: &str, text: &str, traces: &[(&str, &str)]) -> Result<Source, PlanError> {
    let source = Source::read(file, text, traces)?;
    for form in [Form::Full, Form::Quick, Form::Small] {
        expand(&source, Choice { form, seeds: Some(1) })?;
    }
    Ok(source)
}

/// Reads all plans of a directory, in the order of file names.
///
/// # Errors
/// Fails if a file cannot be read, a plan is invalid, or two plans have the same id.
pub fn read_directory(directory: &Path) -> Result<Vec<Source>, ReadError> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error| ReadError::Io { path, error }
    };
    let entries = fs::read_dir(directory).map_err(io(directory))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(io(directory))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut sources: Vec<Source> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(io(&path))?;
        let source = parse(&path.display().to_string(), &text)?;
        if let Some(first) = sources.iter().find(|other| other.plan.id == source.plan.id) {
            let (first, second) = (first.file.clone(), source.file);
            return Err(ReadError::Twice { id: source.plan.id, first, second });
        }
        sources.push(source);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests;
