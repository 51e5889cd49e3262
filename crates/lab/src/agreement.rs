//! Agreement of platforms: comparison of the same points on two platforms, with as many runs as the required precision
//! takes.

mod csv;

use std::collections::BTreeMap;

use serde::Serialize;

pub use self::csv::{Compared, FILE, ReadError, csv, read, table};
use crate::claims::{Judged, Verdict, digits};
use crate::engine::Engine;
use crate::expand::Run;
pub use crate::plan::TOLERANCE_WITH_LOSS;
use crate::plan::{Point, Tag, name};
use crate::record::Record;
use crate::table::{Cell, Table};

/// Greatest tolerated relative difference of two means without random loss.
pub const TOLERANCE: f64 = 0.05;

/// Required share of agreeing points, among points without random loss.
pub const SHARE: f64 = 0.95;

/// Required share of agreeing points, among points with random loss.
pub const SHARE_WITH_LOSS: f64 = 0.9;

/// Greatest standard error of a mean, as a share of the tolerance. Less precise points do not count.
const SURE: f64 = 0.25;

/// Maximum number of runs per point.
pub const RUNS_MAX: u32 = 40;

/// Number of runs of a point before the first comparison.
const FIRST: u32 = 3;

/// Mean and standard error of the aggregate goodput of a point's runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Mean, Mbit/s.
    pub mean_mbps: f64,
    /// Standard error of the mean, Mbit/s; `None` with a single run.
    pub standard_error_mbps: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// Number of late runs; see [`Lateness::is_late`](crate::Lateness::is_late). Their emulated network did not follow
    /// the plan.
    pub late_runs: usize,
}

/// Outcome of comparing a point on two platforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The means differ by at most the tolerance.
    Agrees,
    /// The means differ by more than the tolerance.
    Differs,
    /// A mean is not precise enough, or a run was late.
    NotSure,
}

impl Outcome {
    /// Returns the outcome in one or two words, for printing.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::NotSure => "not sure",
        }
    }
}

/// One series at one point, measured on two platforms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Id of the plan.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters.
    #[serde(serialize_with = "as_text")]
    pub point: Point,
    /// True if packets can be lost at random at this point.
    pub has_loss: bool,
    /// Greatest tolerated difference of the means, as a share of the reference's mean.
    pub tolerance: f64,
    /// Estimate on the simulator.
    pub ours: Estimate,
    /// Estimate on the other platform, the reference.
    pub reference: Estimate,
    /// Outcome of the comparison.
    pub outcome: Outcome,
}

fn as_text<S: serde::Serializer>(point: &Point, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&name(point))
}

impl Pair {
    /// Returns the simulator's mean divided by the reference's; 1 if they are equal, also if both are 0.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let (ours, reference) = (self.ours.mean_mbps, self.reference.mean_mbps);
        if ours == reference { 1.0 } else { ours / reference }
    }
}

/// Returns true if `run` has a link with random loss.
fn has_loss(run: &Run) -> bool {
    (0..run.scenario.links.len()).any(|link| run.scenario.can_lose(link))
}

fn tolerance(run: &Run) -> f64 {
    if has_loss(run) { run.tolerance_with_loss.unwrap_or(TOLERANCE_WITH_LOSS) } else { TOLERANCE }
}

/// Runs of a point on one platform.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sample {
    mean_mbps: f64,
    /// Sum of the squared deviations from the mean, each relative to the mean.
    squares: f64,
    runs: usize,
    late_runs: usize,
}

impl Sample {
    /// Summarises the runs of `cell`; `None` without runs.
    fn of(cell: &Cell) -> Option<Self> {
        let values: Vec<f64> =
            cell.measured.iter().filter_map(|run| run.value("aggregate_mbps", None, cell.warm_up_s)).collect();
        if values.is_empty() {
            return None;
        }
        let mean_mbps = values.iter().sum::<f64>() / values.len() as f64;
        let share = |value: f64| if mean_mbps == 0.0 { 0.0 } else { value / mean_mbps - 1.0 };
        let squares = values.iter().map(|&value| share(value).powi(2)).sum();
        let late_runs = cell.measured.iter().filter(|run| run.is_late()).count();
        Some(Self { mean_mbps, squares, runs: values.len(), late_runs })
    }

    /// Returns the mean of this sample and its standard error. `all` holds the samples of the point on all platforms. A
    /// few runs can be close to each other by chance, which would make a wrong mean seem precise. The standard
    /// deviation is therefore at least the pooled one of all platforms.
    fn estimate(&self, all: &[Self]) -> Estimate {
        let variance = |squares: f64, freedom: usize| if freedom == 0 { 0.0 } else { squares / freedom as f64 };
        let together = variance(
            all.iter().map(|sample| sample.squares).sum(),
            all.iter().map(|sample| sample.runs - 1).sum::<usize>(),
        );
        let own = (self.runs > 1).then(|| variance(self.squares, self.runs - 1).max(together));
        Estimate {
            mean_mbps: self.mean_mbps,
            standard_error_mbps: own.map(|own| self.mean_mbps * (own / self.runs as f64).sqrt()),
            runs: self.runs,
            late_runs: self.late_runs,
        }
    }
}

/// Returns true if the mean is as precise as `tolerance` requires, and no run was late.
fn is_sure(estimate: &Estimate, tolerance: f64) -> bool {
    let allowed_mbps = SURE * tolerance * estimate.mean_mbps;
    estimate.late_runs == 0 && estimate.standard_error_mbps.is_some_and(|error| error <= allowed_mbps)
}

/// Compares all points that both platforms have run. `runs` holds the runs on both platforms, `table` their records.
#[must_use]
pub fn pairs(runs: &[Run], table: &Table, ours: &Engine, reference: &Engine) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for run in runs.iter().filter(|run| run.repetition == 1 && run.engine == *ours) {
        let on = |engine: &Engine| Sample::of(table.at(&engine.label(&run.series), &run.point)?);
        let (Some(ours), Some(reference)) = (on(ours), on(reference)) else { continue };
        let all = [ours, reference];
        let [ours, reference] = all.map(|sample| sample.estimate(&all));
        let tolerance = tolerance(run);
        let pair = Pair {
            plan: run.plan.clone(),
            series: run.series.clone(),
            point: run.point.clone(),
            has_loss: has_loss(run),
            tolerance,
            ours,
            reference,
            outcome: Outcome::NotSure,
        };
        let is_both_sure = is_sure(&ours, tolerance) && is_sure(&reference, tolerance);
        let outcome = match (pair.ratio() - 1.0).abs() <= tolerance {
            _ if !is_both_sure => Outcome::NotSure,
            true => Outcome::Agrees,
            false => Outcome::Differs,
        };
        pairs.push(Pair { outcome, ..pair });
    }
    pairs
}

/// Returns the number of runs that the point of `run` needs for a precise mean on its platform: from 3 to `most`, at
/// most [`RUNS_MAX`]. The estimate is based on the existing runs on all `platforms`.
#[must_use]
pub fn runs_needed(run: &Run, table: &Table, platforms: &[&Engine], most: u32) -> u32 {
    let most = most.min(RUNS_MAX);
    let first = FIRST.min(most);
    let on = |engine: &Engine| Sample::of(table.at(&engine.label(&run.series), &run.point)?);
    let all: Vec<Sample> = platforms.iter().filter_map(|platform| on(platform)).collect();
    let estimate = on(&run.engine).map(|sample| sample.estimate(&all));
    let Some(Estimate { mean_mbps, standard_error_mbps: Some(error), runs, .. }) = estimate else { return first };
    let allowed_mbps = SURE * tolerance(run) * mean_mbps;
    if error <= allowed_mbps {
        return (runs as u32).max(first);
    }
    // The standard error falls with the square root of the number of runs.
    let needed = runs as f64 * (error / allowed_mbps).powi(2);
    (needed.ceil().min(f64::from(most)) as u32).max(first)
}

/// Gathers all existing records of the points of `runs`, up to [`RUNS_MAX`] repetitions per point.
#[must_use]
pub fn gather(runs: &[Run], records: &BTreeMap<String, Record>) -> Table {
    let all: Vec<Run> = runs.iter().flat_map(|run| (1..=RUNS_MAX).map(|repetition| run.repeated(repetition))).collect();
    Table::gather(&all, records)
}

/// Tests agreement with the simulator: one claim for every other platform in `runs`, all runs of the plan `id`.
#[must_use]
pub fn judged(id: &str, runs: &[Run], records: &BTreeMap<String, Record>) -> Vec<Judged> {
    let mut engines: Vec<&Engine> = Vec::new();
    for run in runs {
        if !engines.contains(&&run.engine) {
            engines.push(&run.engine);
        }
    }
    let (sims, others): (Vec<&Engine>, Vec<&Engine>) = engines.iter().partition(|engine| engine.is_sim());
    let Some(ours) = sims.first().filter(|_| !others.is_empty()) else { return Vec::new() };
    let table = gather(runs, records);
    let with_loss = runs.iter().find_map(|run| run.tolerance_with_loss);
    others.iter().map(|other| judge(id, other, with_loss, &pairs(runs, &table, ours, other))).collect()
}

fn judge(id: &str, other: &Engine, with_loss: Option<f64>, pairs: &[Pair]) -> Judged {
    let counts = [false, true].map(|has_loss| (has_loss, Count::of(pairs, has_loss)));
    let sum = |part: fn(&Count) -> usize| counts.iter().map(|(_, count)| part(count)).sum::<usize>();
    let (agree, differ, not_sure) = (sum(|count| count.agree), sum(|count| count.differ), sum(|count| count.not_sure));
    let holds = counts.iter().all(|(has_loss, count)| count.is_reached(*has_loss));
    let (measured, verdict) = match agree + differ {
        0 => (format!("no point is sure; dfcp lab agree {id} makes as many runs as it takes"), Verdict::NotRun),
        sure => (told(pairs, agree, sure, not_sure), if holds { Verdict::Reproduced } else { Verdict::Differs }),
    };
    Judged {
        id: other.label(&format!("{id}.agree")),
        says: format!(
            "The simulator's aggregate goodput is that of {}: within {} % at {} % of the points without random loss, within {} % at \
             {} % of those with it.",
            other.platform,
            100.0 * TOLERANCE,
            100.0 * SHARE,
            100.0 * with_loss.unwrap_or(TOLERANCE_WITH_LOSS),
            100.0 * SHARE_WITH_LOSS
        ),
        tag: Tag::D,
        platform: other.platform.clone(),
        measured,
        verdict,
        changes: Vec::new(),
    }
}

/// Words the result of an agreement claim. Only precise points count.
fn told(pairs: &[Pair], agree: usize, sure: usize, not_sure: usize) -> String {
    let ratios = pairs.iter().filter(|pair| pair.outcome != Outcome::NotSure).map(Pair::ratio);
    let (low, high) = ratios.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
    let rest = if not_sure > 0 { format!("; {not_sure} are not sure") } else { String::new() };
    format!("at {agree} of {sure} points; {} to {} times as much{rest}", digits(low), digits(high))
}

/// Number of points by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Number of points that agree.
    pub agree: usize,
    /// Number of points that differ.
    pub differ: usize,
    /// Number of points without a precise mean.
    pub not_sure: usize,
}

impl Count {
    /// Counts the `pairs` with random loss if `has_loss` is true, and otherwise the pairs without.
    #[must_use]
    pub fn of(pairs: &[Pair], has_loss: bool) -> Self {
        Self::of_outcomes(pairs.iter().filter(|pair| pair.has_loss == has_loss).map(|pair| pair.outcome))
    }

    /// Counts points read from a file: with random loss if `has_loss` is true, and otherwise without.
    #[must_use]
    pub fn of_compared(points: &[Compared], has_loss: bool) -> Self {
        Self::of_outcomes(points.iter().filter(|point| point.has_loss == has_loss).map(|point| point.outcome))
    }

    fn of_outcomes(outcomes: impl Iterator<Item = Outcome> + Clone) -> Self {
        let count = |outcome| outcomes.clone().filter(|one| *one == outcome).count();
        Self { agree: count(Outcome::Agrees), differ: count(Outcome::Differs), not_sure: count(Outcome::NotSure) }
    }

    /// Returns true if enough of the precise points agree: [`SHARE`], or [`SHARE_WITH_LOSS`] with random loss.
    #[must_use]
    pub fn is_reached(&self, has_loss: bool) -> bool {
        let share = if has_loss { SHARE_WITH_LOSS } else { SHARE };
        self.agree as f64 >= share * (self.agree + self.differ) as f64
    }
}

#[cfg(test)]
mod tests;
