//! Expansion of plans into runs.

use serde::{Deserialize, Serialize};
use toml::{Spanned, Value};

use crate::engine::Engine;
use crate::plan::{Axis, Level, Plan, PlanError, Point, Series, Shorter, Source, set};
use crate::scenario::{Scenario, build, resolve};

/// Version of the record format. Records of other versions are skipped when read.
pub const SCHEMA: u32 = 5;

/// Fastest link rate in the small form of a plan, bit/s: a kernel in virtual time simulates it in acceptable time.
const SMALL_BPS_MAX: u64 = 200_000_000;

/// Rate to which the fastest link is scaled in the small form if it exceeds [`SMALL_BPS_MAX`], bit/s.
const SMALL_BPS: f64 = 1e8;

/// Variant of a plan: full as in the source documents, or shortened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The plan as in the source documents.
    #[default]
    Full,
    /// Shorter runs at fewer points, as set in the plan's table `[quick]`.
    Quick,
    /// The quick form with the settings of `[small]`, for every platform: no link exceeds 200 Mbit/s. If a link of the
    /// plan does, all rates are scaled so that the fastest becomes 100 Mbit/s, or the rate set in the plan. Buffers,
    /// windows and sizes are scaled by the same factor.
    Small,
}

/// User's options for the expansion of all plans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Form of the plans to expand.
    pub form: Form,
    /// Number of runs per point; `None` for the number set in the plan.
    pub seeds: Option<u32>,
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Id of the plan.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Seed of the run. All series of a point have the same seed, so that they meet similar losses.
    pub seed: u64,
    /// Resolved settings of the run.
    pub scenario: Scenario,
    /// Factor applied to all rates: 1, except in the small form of a plan with fast links.
    pub scale: f64,
    /// The plan's [`Agreement::tolerance_with_loss`](crate::plan::Agreement::tolerance_with_loss).
    pub tolerance_with_loss: Option<f64>,
    /// Platform that executes the run.
    pub engine: Engine,
    /// Hash of all settings and code that decide the result.
    pub hash: String,
}

impl Run {
    fn new(plan: &Plan, series: &str, point: &Point, (scenario, scale): (&Scenario, f64)) -> Self {
        let run = Self {
            plan: plan.id.clone(),
            series: series.to_owned(),
            point: point.clone(),
            repetition: 1,
            seed: 0,
            scenario: scenario.clone(),
            scale,
            tolerance_with_loss: plan.agreement.tolerance_with_loss,
            engine: Engine::sim(),
            hash: String::new(),
        };
        run.repeated(1)
    }

    /// Returns the same run with another repetition number, from 1, and the seed and hash that follow from it.
    #[must_use]
    pub fn repeated(&self, repetition: u32) -> Self {
        let run = Self { repetition, seed: seed(&self.plan, &self.point, repetition), ..self.clone() };
        Self { hash: run.key(), ..run }
    }

    /// Returns the same run on another platform, with the hash that follows.
    #[must_use]
    pub fn on(&self, engine: &Engine) -> Self {
        let run = Self { engine: engine.clone(), ..self.clone() };
        Self { hash: run.key(), ..run }
    }

    /// Returns the label of the series, with the platform appended unless it is the simulator.
    #[must_use]
    pub fn label(&self) -> String {
        self.engine.label(&self.series)
    }

    fn key(&self) -> String {
        // Serialization cannot fail: a scenario has only text keys and finite numbers.
        let text = serde_json::to_string(&self.scenario.without_labels()).unwrap_or_default();
        let Engine { platform, hash: engine } = &self.engine;
        let (plan, series, seed) = (&self.plan, &self.series, self.seed);
        let hash = blake3::hash(format!("{SCHEMA}\0{platform}\0{engine}\0{plan}\0{series}\0{seed}\0{text}").as_bytes());
        hash.to_hex()[..32].to_owned()
    }
}

/// Expands a plan into all its runs on the simulator. The order is by point of the sweep, then by series, then by
/// repetition.
///
/// # Errors
/// Fails with the line at fault if the plan is invalid.
pub fn expand(source: &Source, choice: Choice) -> Result<Vec<Run>, PlanError> {
    let mut base = source.plan.clone();
    if choice.form != Form::Full {
        base.run.seeds = 1;
        shorten(&mut base, &source.plan.quick).map_err(|message| source.error(0, format!("[quick]: {message}")))?;
    }
    if choice.form == Form::Small {
        shorten(&mut base, &source.plan.small).map_err(|message| source.error(0, format!("[small]: {message}")))?;
    }
    let repetitions = |series: &Series| {
        let own = series.seeds.filter(|_| choice.form == Form::Full);
        choice.seeds.or(own).unwrap_or(base.run.seeds)
    };
    let mut found = Vec::new();
    for point in points(&base, choice.form) {
        for index in (0..base.series.len()).filter(|&index| is_run_at(&base, index, &point)) {
            let scenario = scenario_at(source, &base, (index, choice.form), &point)?;
            let point: Point = point.iter().map(|(axis, value)| (axis.parameter.clone(), Level::of(value))).collect();
            found.push((point, base.series[index].get_ref(), scenario));
        }
    }
    let scale = match choice.form {
        Form::Full | Form::Quick => 1.0,
        Form::Small => small(found.iter().map(|(_, _, scenario)| scenario), source.plan.small.fastest_mbps),
    };
    let mut runs = Vec::new();
    for (point, series, mut scenario) in found {
        if scale < 1.0 {
            scenario = scenario.scaled(scale);
        }
        let first = Run::new(&base, &series.label, &point, (&scenario, scale));
        runs.extend((1..=repetitions(series)).map(|repetition| first.repeated(repetition)));
    }
    Ok(runs)
}

/// Returns the factor applied to all rates in the small form. It is the same at all points, to keep them comparable.
fn small<'run>(scenarios: impl Iterator<Item = &'run Scenario>, fastest_mbps: Option<f64>) -> f64 {
    let fastest_bps = scenarios.map(Scenario::fastest_bps).max().unwrap_or(0);
    let becomes_bps = fastest_mbps.map_or(SMALL_BPS, |mbps| mbps * 1e6);
    let bound_bps = if fastest_mbps.is_some() { becomes_bps } else { SMALL_BPS_MAX as f64 };
    if fastest_bps as f64 > bound_bps { becomes_bps / fastest_bps as f64 } else { 1.0 }
}

fn shorten(plan: &mut Plan, shorter: &Shorter) -> Result<(), String> {
    plan.run.duration_s = shorter.duration_s.unwrap_or(plan.run.duration_s);
    plan.run.warm_up_s = shorter.warm_up_s.unwrap_or(plan.run.warm_up_s);
    plan.run.seeds = shorter.seeds.unwrap_or(plan.run.seeds);
    shorter.set.iter().try_for_each(|(name, value)| set(plan, name, value))
}

/// Returns the points of the sweep; without a sweep, a single point without parameters.
fn points(plan: &Plan, form: Form) -> Vec<Vec<(Axis, Value)>> {
    let mut points = vec![Vec::new()];
    for axis in plan.sweep.iter().map(Spanned::get_ref) {
        let fewer = match form {
            Form::Full => None,
            Form::Quick => axis.quick.as_ref(),
            Form::Small => axis.small.as_ref().or(axis.quick.as_ref()),
        };
        let values = fewer.unwrap_or(&axis.values);
        let longer = |point: &Vec<(Axis, Value)>, value: &Value| {
            let mut point = point.clone();
            point.push((axis.clone(), value.clone()));
            point
        };
        points = points.iter().flat_map(|point| values.iter().map(move |value| longer(point, value))).collect();
    }
    points
}

/// Returns true if the plan runs series `index` at `point`.
fn is_run_at(plan: &Plan, index: usize, point: &[(Axis, Value)]) -> bool {
    let at = &plan.series[index].get_ref().at;
    point.iter().all(|(axis, value)| at.get(&axis.parameter).is_none_or(|levels| levels.has(&Level::of(value))))
}

/// Series settings that apply in the full form only: the quick and small forms set their own duration.
const OF_THE_FULL_FORM: [&str; 2] = ["duration_s", "warm_up_s"];

fn scenario_at(
    source: &Source,
    base: &Plan,
    (index, form): (usize, Form),
    point: &[(Axis, Value)],
) -> Result<Scenario, PlanError> {
    let mut plan = base.clone();
    let series_at = base.series[index].span().start;
    // Values of the sweep override the plan; settings of the series override both.
    for (place, (axis, value)) in point.iter().enumerate() {
        let at = base.sweep.get(place).map_or(0, |axis| axis.span().start);
        set(&mut plan, &axis.parameter, value).map_err(|message| source.error(at, message))?;
    }
    let own = base.series[index].get_ref().set.iter();
    for (name, value) in own.filter(|(name, _)| form == Form::Full || !OF_THE_FULL_FORM.contains(&name.as_str())) {
        set(&mut plan, name, value).map_err(|message| source.error(series_at, message))?;
    }
    let carrier = &plan.series[index].get_ref().transport;
    let at =
        point.iter().map(|(axis, value)| format!(" at {} {}", axis.parameter, Level::of(value))).collect::<String>();
    let label = &base.series[index].get_ref().label;
    let scenario = resolve(&plan, carrier);
    let scenario =
        scenario.map_err(|message| source.error(base.topology.span().start, format!("\"{label}\"{at}: {message}")))?;
    // The bound is computed instead of simulated. A program without the feature `quic` can still read plans with QUIC
    // and show their records; only running them fails.
    let has_code = cfg!(feature = "quic") || !scenario.flows.iter().any(|flow| flow.transport.kind.is_quic());
    if has_code && !scenario.is_bound() {
        build(&scenario, &mut dfcp_sim::Simulation::new(0, dfcp_sim::Nobody))
            .map_err(|message| source.error(series_at, format!("\"{label}\"{at}: {message}")))?;
    }
    Ok(scenario)
}

/// Parameters of estimators. They do not influence the seed, so that all estimators observe the same traffic.
const OF_ESTIMATORS: [&str; 2] = ["probe_every_ms", "threshold_ms"];

/// Returns the seed of a point and repetition. All series have the same seed, to meet the same losses as far as
/// possible.
fn seed(plan: &str, point: &Point, repetition: u32) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(plan.as_bytes());
    for (name, level) in point.iter().filter(|(name, _)| !OF_ESTIMATORS.contains(&name.as_str())) {
        hasher.update(format!("\0{name}={level}").as_bytes());
    }
    hasher.update(format!("\0{repetition}").as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests;
