//! Random paths for one flow, drawn from a seed: the automatic rate beside DFCP told the path's rate, BBR and CUBIC.
//!
//! Plans test combinations that their author thought of. These paths test the others: rate, round-trip time, buffer,
//! losses, jitter, batches, policers, queue disciplines and narrow reverse paths, in all combinations.

mod drawn;
mod score;

pub use self::drawn::{Buffer, Element, Length, Loss, RandomPath};
pub use self::score::{DROPS_MAX, HALF, MODERATE_LOSS, MOST, Outcome, Row, Score, Shortfall, score};
use crate::expand::{Choice, Run, expand};
use crate::plan::{Level, PlanError, Source};
use crate::reading;

/// Number of paths per seed.
pub const PATHS_MAX: u64 = 100_000;

/// Prefix of the ids of paths with runs of full length.
const WHOLE: &str = "R1";
/// Prefix of the ids of paths with short runs.
const SHORT: &str = "R1s";

/// Identifier of a path: seed, number and length of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathId {
    /// Length of the path's runs.
    pub length: Length,
    /// Seed of all paths.
    pub seed: u64,
    /// Number of the path, from 0.
    pub number: u64,
}

impl PathId {
    /// Parses an id such as `R1-4-17`; `None` if `id` is not the id of a path.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split('-');
        let prefix = parts.next()?;
        let length = [(WHOLE, Length::Whole), (SHORT, Length::Short)]
            .into_iter()
            .find_map(|(name, length)| name.eq_ignore_ascii_case(prefix).then_some(length))?;
        let (seed, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        (parts.next().is_none() && number < PATHS_MAX).then_some(Self { length, seed, number })
    }

    /// Draws the path with this id.
    #[must_use]
    pub fn path(self) -> RandomPath {
        RandomPath::draw(self.seed, self.number, self.length)
    }

    /// Returns the plan name under which the runs of all paths of this seed are recorded.
    #[must_use]
    pub fn plan(self) -> String {
        let prefix = match self.length {
            Length::Whole => WHOLE,
            Length::Short => SHORT,
        };
        format!("{prefix}-{}", self.seed)
    }

    /// Returns the path as a plan.
    ///
    /// # Errors
    /// Fails if the plan is invalid, which is a defect of this module.
    pub fn source(self) -> Result<Source, PlanError> {
        let id = self.to_string();
        reading::parse(&id, &self.path().toml(&id, self.length))
    }

    /// Returns the runs of the path. They are recorded in one file with the runs of all paths of the seed.
    ///
    /// # Errors
    /// As for [`source`](Self::source).
    pub fn runs(self) -> Result<Vec<Run>, PlanError> {
        let runs = expand(&self.source()?, Choice::default())?;
        let point = vec![("path".to_owned(), Level::Number(self.number as f64))];
        let moved = |run: Run| {
            let repetition = run.repetition;
            Run { plan: self.plan(), point: point.clone(), ..run }.repeated(repetition)
        };
        Ok(runs.into_iter().map(moved).collect())
    }
}

impl std::fmt::Display for PathId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.plan(), self.number)
    }
}

#[cfg(test)]
mod tests;
