//! Platforms that execute runs: the simulator, Linux kernels and the testbed.

use std::num::NonZeroUsize;

use toml::Spanned;

use crate::engine::Engine;
use crate::expand::Run;
use crate::measure::{MeasureError, measure};
use crate::metrics::Measured;
use crate::plan::{Claim, Plan, Series, Source};
use crate::scenario::Scenario;
use crate::trace::{Settings, TraceError, Traced, trace};

/// Platform that executes runs of a scenario.
pub trait Platform: Send + Sync + std::fmt::Debug {
    /// Returns the engine named in the platform's records.
    fn engine(&self) -> &Engine;

    /// Returns a sentence about the reason for which the platform cannot run `scenario`; `None` if it can.
    fn refusal(&self, scenario: &Scenario) -> Option<String>;

    /// Returns the greatest number of concurrent runs; `None` for any number.
    fn runs_at_a_time(&self) -> Option<NonZeroUsize> {
        None
    }

    /// Executes a run and returns its measurements.
    ///
    /// # Errors
    /// Fails if the scenario is invalid, or the platform fails.
    fn measure(&self, scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError>;

    /// Executes a run and writes its trace into the directory of `settings`.
    ///
    /// # Errors
    /// Fails if a setting is invalid, the run is impossible, or a file cannot be written.
    fn trace(&self, run: &Run, settings: Settings<'_>) -> Result<Traced, TraceError>;
}

/// Simulator as a platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sim(Engine);

impl Default for Sim {
    fn default() -> Self {
        Self(Engine::sim())
    }
}

impl Platform for Sim {
    fn engine(&self) -> &Engine {
        &self.0
    }

    fn refusal(&self, _: &Scenario) -> Option<String> {
        None
    }

    fn measure(&self, scenario: &Scenario, seed: u64) -> Result<Measured, MeasureError> {
        measure(scenario, seed)
    }

    fn trace(&self, run: &Run, settings: Settings<'_>) -> Result<Traced, TraceError> {
        trace(run, settings)
    }
}

/// A plan with all runs, for a comparison of platforms.
#[derive(Clone, Debug)]
pub struct SideBySide {
    /// Plan in which each series and claim is repeated for each platform.
    pub source: Source,
    /// All runs, in the order of the plan.
    pub runs: Vec<Run>,
    /// Sentences on series that a platform cannot run, each with the reason.
    pub refusals: Vec<String>,
}

/// Repeats `runs` of the plan `source`, expanded for the simulator, on each of `platforms`. A series that a platform
/// cannot run is left out on this platform, with a sentence in `refusals`.
#[must_use]
pub fn side_by_side(source: &Source, runs: &[Run], platforms: &[&dyn Platform]) -> SideBySide {
    let engines: Vec<Engine> = platforms.iter().map(|platform| platform.engine().clone()).collect();
    let (mut all, mut refusals) = (Vec::new(), Vec::new());
    for repetitions in runs.chunk_by(|a, b| a.point == b.point && a.series == b.series) {
        for platform in platforms {
            let engine = platform.engine();
            match platform.refusal(&repetitions[0].scenario) {
                None => all.extend(repetitions.iter().map(|run| run.on(engine))),
                Some(why) => {
                    let sentence = format!("{}: {why}", engine.label(&repetitions[0].series));
                    if !refusals.contains(&sentence) {
                        refusals.push(sentence);
                    }
                }
            }
        }
    }
    let mut source = source.clone();
    source.plan = on(&source.plan, &engines);
    let is_run = |label: &str| all.iter().any(|run: &Run| run.label() == label);
    let plan = &mut source.plan;
    plan.series.retain(|series| is_run(&series.get_ref().label));
    plan.claims.retain(|claim| {
        let claim = claim.get_ref();
        is_run(&claim.series) && claim.to.iter().all(|to| is_run(to))
    });
    SideBySide { source, runs: all, refusals }
}

/// Returns a plan that compares `engines`: each series and each claim is repeated for every engine.
fn on(plan: &Plan, engines: &[Engine]) -> Plan {
    let each = |series: &Spanned<Series>| {
        let of = |engine: &Engine| {
            let label = engine.label(&series.get_ref().label);
            Spanned::new(series.span(), Series { label, ..series.get_ref().clone() })
        };
        engines.iter().map(of).collect::<Vec<_>>()
    };
    let about = |engine: &Engine, claim: &Spanned<Claim>| {
        let own = claim.get_ref();
        let (id, series) = (engine.label(&own.id), engine.label(&own.series));
        let to = own.to.iter().map(|to| engine.label(to)).collect();
        let platform = (!engine.is_sim()).then(|| engine.platform.clone());
        Spanned::new(claim.span(), Claim { id, series, to, platform, ..own.clone() })
    };
    Plan {
        series: plan.series.iter().flat_map(each).collect(),
        claims: engines.iter().flat_map(|engine| plan.claims.iter().map(|claim| about(engine, claim))).collect(),
        ..plan.clone()
    }
}
