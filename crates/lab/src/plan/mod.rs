//! Plans of experiments: one TOML file for each figure, table or question.

mod blocks;
mod carrier;
mod check;
mod claim;
mod drawing;
mod flows;
mod kind;
mod label;
mod level;
mod model;
mod parameter;
mod rates;
mod run;
mod topology;
mod transport;

pub use self::carrier::{Carrier, Controller, Pace, Redundancy};
pub use self::claim::{Because, Claim, ClaimKind, FlowName, Range, Tag, Where};
pub use self::drawing::{Axes, Metrics, Over, Scale};
pub use self::flows::{Ends, EstimateTable, Flows, Lie, MessagesTable, WebTable};
pub use self::kind::Kind;
pub use self::level::{Level, Point};
pub(crate) use self::level::{level, name};
pub use self::model::{Axis, Change, Outage, Plan, Series, Walk};
pub use self::parameter::{NUMBERED, PARAMETERS, set};
pub use self::rates::{Rates, RatesFrom, TraceError, Way};
pub use self::run::{Agreement, JudgeBy, RunTable, Shorter, Spread, TOLERANCE_WITH_LOSS};
pub use self::topology::{Bottleneck, Discipline, GraphLink, Impairments, Random, Shape, Topology, Ways};

/// A plan with its file name and text.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the file, for messages.
    pub file: String,
    /// The plan.
    pub plan: Plan,
    /// Text of the plan.
    text: String,
}

/// Error in a plan, with its position in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct PlanError {
    /// Name of the file.
    pub file: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// Sentence that states the fault and the next step.
    pub message: String,
}

impl Source {
    /// Parses the text of a plan and checks its consistency. Runs may still be impossible, which
    /// [`reading`](crate::reading) checks in addition. `traces` holds the name and text of embedded traces; other
    /// traces are read from files beside the plan.
    pub(crate) fn read(file: &str, text: &str, traces: &[(&str, &str)]) -> Result<Self, PlanError> {
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

    /// Loads the traces that the plan names.
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

    /// Creates an error at byte offset `at` of the text.
    pub(crate) fn error(&self, at: usize, message: impl Into<String>) -> PlanError {
        PlanError { file: self.file.clone(), line: line_of(&self.text, at), message: message.into() }
    }

    /// Returns the text of the plan.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
