//! Expansion of plans to runs.

use serde::{Deserialize, Serialize};
use toml::{Spanned, Value};

use crate::engine::Engine;
use crate::plan::{Axis, Level, Plan, PlanError, Point, Series, Shorter, Source, set};
use crate::scenario::{Scenario, build, resolve};

/// Version of the record format; records of other versions are skipped.
pub const SCHEMA: u32 = 5;

/// Fastest link in the small form of a plan, bit/s: a rate that a kernel in virtual time simulates in acceptable time.
const SMALL_BPS_MAX: u64 = 200_000_000;

/// Rate of the fastest link in the small form of a plan with faster links, bit/s.
const SMALL_BPS: f64 = 1e8;

/// Form of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The form of the documents.
    #[default]
    Full,
    /// The form of `[quick]`: shorter runs at fewer points.
    Quick,
    /// The quick form with the settings of `[small]`, and with no link above 200 Mbit/s, so that every platform can run it. In a plan with
    /// a faster link, all rates are scaled so that the fastest is 100 Mbit/s, or the rate set in the plan; buffers, windows and sizes are
    /// scaled with them.
    Small,
}

/// Options of the user for all plans.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Form of the plans.
    pub form: Form,
    /// Number of runs of every point, instead of the plan's.
    pub seeds: Option<u32>,
}

/// One run of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The plan's id.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    pub point: Point,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Seed of the simulation: the same for all series of a point.
    pub seed: u64,
    /// Scenario of the run.
    pub scenario: Scenario,
    /// Factor of the rates: 1, except in the small form of a plan with fast links.
    pub scale: f64,
    /// The plan's [`Agreement::tolerance_with_loss`](crate::plan::Agreement::tolerance_with_loss).
    pub tolerance_with_loss: Option<f64>,
    /// Platform of the run.
    pub engine: Engine,
    /// Hash of all settings and code that decide the result of the run.
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

    /// The same run with another repetition number, from 1.
    #[must_use]
    pub fn repeated(&self, repetition: u32) -> Self {
        let run = Self { repetition, seed: seed(&self.plan, &self.point, repetition), ..self.clone() };
        Self { hash: run.key(), ..run }
    }

    /// The run on another platform.
    #[must_use]
    pub fn on(&self, engine: &Engine) -> Self {
        let run = Self { engine: engine.clone(), ..self.clone() };
        Self { hash: run.key(), ..run }
    }

    /// Label of the series next to other platforms.
    #[must_use]
    pub fn label(&self) -> String {
        self.engine.label(&self.series)
    }

    fn key(&self) -> String {
        // A scenario has only text keys and plain numbers, which can always be serialized.
        let text = serde_json::to_string(&self.scenario.without_labels()).unwrap_or_default();
        let Engine { platform, hash: engine } = &self.engine;
        let (plan, series, seed) = (&self.plan, &self.series, self.seed);
        let hash = blake3::hash(format!("{SCHEMA}\0{platform}\0{engine}\0{plan}\0{series}\0{seed}\0{text}").as_bytes());
        hash.to_hex()[..32].to_owned()
    }
}

/// All runs of a plan on the simulator: for each point, in the order of the sweep, every series; for each series, every repetition.
///
/// # Errors
/// Fails if a plan is invalid, with the line at fault.
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

/// Factor of the rates in the small form of a plan: the same at all points, which would otherwise not be comparable.
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

/// Points of the sweep; a single point without parameters if nothing is swept.
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

/// True if a series is run at a point.
fn is_run_at(plan: &Plan, index: usize, point: &[(Axis, Value)]) -> bool {
    let at = &plan.series[index].get_ref().at;
    point.iter().all(|(axis, value)| at.get(&axis.parameter).is_none_or(|levels| levels.has(&Level::of(value))))
}

/// Parameters that a series sets for the full form only: the short forms have their own.
const OF_THE_FULL_FORM: [&str; 2] = ["duration_s", "warm_up_s"];

fn scenario_at(
    source: &Source,
    base: &Plan,
    (index, form): (usize, Form),
    point: &[(Axis, Value)],
) -> Result<Scenario, PlanError> {
    let mut plan = base.clone();
    let series_at = base.series[index].span().start;
    // An axis overrides everything, except settings of a series.
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
    // The bound is computed, not simulated. A program built without QUIC can still read a plan with it and show its measurements; only
    // running it is an error.
    let has_code = cfg!(feature = "quic") || !scenario.flows.iter().any(|flow| flow.transport.kind.is_quic());
    if has_code && !scenario.is_bound() {
        build(&scenario, &mut dfcp_sim::Simulation::new(0, dfcp_sim::Nobody))
            .map_err(|message| source.error(series_at, format!("\"{label}\"{at}: {message}")))?;
    }
    Ok(scenario)
}

/// Parameters of estimators, excluded from the seed so that all estimators see the same traffic.
const OF_ESTIMATORS: [&str; 2] = ["probe_every_ms", "threshold_ms"];

/// Seed of a point and repetition, the same for all series, so that they meet the same losses as far as possible.
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
