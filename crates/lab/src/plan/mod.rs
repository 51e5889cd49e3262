//! Plans: one TOML file for each figure, table or question.

mod blocks;
mod builtin;
mod carrier;
mod check;
mod claim;
mod discipline;
mod drawing;
mod kind;
mod label;
mod messages;
mod model;
mod parameter;
mod rates;
mod run;
mod transport;
mod web;

use std::fs;
use std::path::Path;

pub use self::builtin::builtin;
pub use self::carrier::{Carrier, Pace, Redundancy};
pub use self::claim::{Because, Claim, ClaimKind, Range, Tag, Where};
pub use self::discipline::Discipline;
pub use self::drawing::{Axes, Metrics, Over, Scale};
pub use self::kind::Kind;
pub use self::label::FlowName;
pub use self::messages::MessagesTable;
pub use self::model::{
    Axis, Bottleneck, Change, Ends, Flows, GraphLink, Impairments, Lie, Outage, Plan, Random, Series, Shape, Topology,
    Walk, Ways,
};
pub(crate) use self::parameter::as_number;
pub use self::parameter::{NUMBERED, PARAMETERS, set};
pub use self::rates::{Rates, RatesFrom, TraceError, Way};
pub use self::run::{Agreement, JudgeBy, RunTable, Shorter, Spread};
pub use self::web::{EstimateTable, WebTable};

/// A plan and the text which it was read from.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the file, for messages.
    pub file: String,
    /// The plan.
    pub plan: Plan,
    /// Its text.
    text: String,
}

/// Error in a plan, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct PlanError {
    /// Name of the file.
    pub file: String,
    /// Counted from 1.
    pub line: usize,
    /// One sentence with the next step.
    pub message: String,
}

/// Plans could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file or directory.
    #[error("cannot read {path}: {error}; check the path given with --plans")]
    Io {
        /// Path of the file or directory.
        path: String,
        /// Reason.
        error: std::io::Error,
    },
    /// Its content.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Two plans cannot be told apart.
    #[error("{first} and {second} both have the id {id}; rename one")]
    Twice {
        /// The id.
        id: String,
        /// A file.
        first: String,
        /// Another.
        second: String,
    },
}

impl Source {
    /// Reads and checks the text of a plan; `file` is its name in messages, and traces that it names are looked for beside it.
    ///
    /// # Errors
    /// The first thing which makes no sense, with its line.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        Self::parse_with(file, text, &[])
    }

    /// Parses a plan that brings traces along, by name and text: those are not read from files.
    fn parse_with(file: &str, text: &str, traces: &[(&str, &str)]) -> Result<Self, PlanError> {
        let plan = toml::from_str(text).map_err(|error| PlanError {
            file: file.to_owned(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: one_line(error.message()),
        })?;
        let mut source = Self { file: file.to_owned(), plan, text: text.to_owned() };
        source.load_rates(traces)?;
        check::check(&source)?;
        Ok(source)
    }

    /// Reads the traces that the plan names.
    fn load_rates(&mut self, traces: &[(&str, &str)]) -> Result<(), PlanError> {
        let mut rates = std::mem::take(&mut self.plan.rates);
        for rates in &mut rates {
            let at = rates.span().start;
            rates.get_mut().load(&self.file, traces).map_err(|error| match error {
                TraceError::File(..) => self.error(at, format!("{error}; `file` is a path beside the plan")),
                TraceError::Content(file, error) => PlanError { file, line: error.line, message: error.message },
            })?;
        }
        self.plan.rates = rates;
        Ok(())
    }

    /// An error at the byte `at` of the text.
    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> PlanError {
        PlanError { file: self.file.clone(), line: line_of(&self.text, at), message: message.into() }
    }

    /// The text which it was read from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// All plans of a directory, in order of their names.
///
/// # Errors
/// A file cannot be read, or makes no sense.
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
        let source = Source::parse(&path.display().to_string(), &text)?;
        if let Some(first) = sources.iter().find(|other| other.plan.id == source.plan.id) {
            let (first, second) = (first.file.clone(), source.file);
            return Err(ReadError::Twice { id: source.plan.id, first, second });
        }
        sources.push(source);
    }
    Ok(sources)
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
