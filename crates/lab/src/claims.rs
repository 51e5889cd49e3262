//! Tests of a plan's claims on its measurements.

mod runs;
mod turns;
mod words;

use serde::Serialize;

pub use self::turns::{Change, judge};
pub(crate) use self::words::describe;
use crate::engine::SIM;
use crate::metrics::{is_of_flows, label_and_unit, mean_and_sd, median};
use crate::plan::{Because, Claim, ClaimKind, FlowName, JudgeBy, Level, Plan, Point, Tag, level, name};
use crate::table::{Cell, Table};

/// Result of testing a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The measurements satisfy the claim.
    Reproduced,
    /// The measurements contradict the claim.
    Differs,
    /// The measurements contradict the claim for a known reason, given here as a sentence.
    NotReproducible(String),
    /// Some points of the claim have no records.
    NotRun,
}

impl Verdict {
    /// Returns true for a failed claim without a known reason.
    #[must_use]
    pub fn differs(&self) -> bool {
        *self == Self::Differs
    }

    /// Returns the verdict in one or two words, for printing.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::Differs => "differs",
            Self::NotReproducible(_) => "not reproducible",
            Self::NotRun => "not run",
        }
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Name of the claim.
    pub id: String,
    /// Statement of the claim, as in the plan.
    pub says: String,
    /// Kind of source: a printed number, a printed statement, or a derived claim.
    pub tag: Tag,
    /// Platform of the measurement.
    pub platform: String,
    /// Measured result, in words.
    pub measured: String,
    /// Outcome of the claim.
    pub verdict: Verdict,
    /// Different verdicts that result if a fifth of the runs is left out.
    pub changes: Vec<Change>,
}

/// Result of a claim's test, with its numbers.
struct Finding {
    holds: bool,
    measured: String,
    /// Values that violate the claim, in the unit that is printed.
    off: Vec<f64>,
}

/// Default least change of a monotone curve from first to last point, as a share of the first value.
const CHANGE_DEFAULT: f64 = 0.02;

/// Default least deviation of a curved claim from a straight line, as a share of the change from first to last point.
const BEND_DEFAULT: f64 = 0.05;

/// Metric that tells which of several series is the better one.
const GOODPUT: &str = "aggregate_mbps";

/// Number of standard errors above which a difference counts as significant.
const BEYOND_CHANCE: f64 = 2.0;

/// Tests all claims of `plan` on `table`, with all runs.
fn judge_once(plan: &Plan, table: &Table) -> Vec<Judged> {
    let metric = plan.metrics.plot.first().map_or("goodput_mbps", |name| name.get_ref());
    let judged = |claim: &Claim| {
        let metric = claim.metric.as_deref().unwrap_or(metric);
        let lens = claim.lens();
        let seen = (!lens.is_clear()).then(|| table.seen(lens));
        let place = |flow: &Option<FlowName>| flow.as_ref().and_then(|flow| plan.place_of(flow));
        let (flow, to_flow) = (place(&claim.flow), place(&claim.to_flow));
        let table = seen.as_ref().unwrap_or(table);
        judge_one(Claimed { claim, flow, to_flow, table, metric, judge_by: plan.run.judge_by })
    };
    plan.claims.iter().map(|claim| judged(claim.get_ref())).collect()
}

fn judge_one(claimed: Claimed<'_>) -> Judged {
    let claim = claimed.claim;
    let finding = match claim.kind {
        ClaimKind::Value => claimed.value(),
        ClaimKind::Ratio => claimed.ratio(),
        ClaimKind::Order => claimed.order(),
        ClaimKind::Below => claimed.below(),
        ClaimKind::Flat => claimed.flat(),
        ClaimKind::Monotone => claimed.monotone(),
        ClaimKind::Growth => claimed.growth(),
        ClaimKind::Curved => claimed.curved(),
        ClaimKind::Equal => claimed.equal(),
        ClaimKind::Unequal => claimed.unequal(),
    };
    let (verdict, measured) = match finding {
        None => (Verdict::NotRun, "its points have no records; run the plan, without --quick if need be".to_owned()),
        Some(Finding { holds: true, measured, .. }) => (Verdict::Reproduced, measured),
        Some(Finding { measured, off, .. }) => match &claim.because {
            Some(Because { why, within: (low, high) }) if off.iter().all(|number| (low..=high).contains(&number)) => {
                (Verdict::NotReproducible(why.clone()), measured)
            }
            Some(Because { within: (low, high), .. }) => {
                (Verdict::Differs, format!("{measured}; the known reason explains {low} to {high}"))
            }
            None => (Verdict::Differs, measured),
        },
    };
    let platform = claim.platform.clone().unwrap_or_else(|| SIM.to_owned());
    let (id, says) = (claim.id.clone(), claim.says.clone());
    Judged { id, says, tag: claim.tag, platform, measured, verdict, changes: Vec::new() }
}

struct Claimed<'plan> {
    claim: &'plan Claim,
    /// Index of the claim's flow, from 0; `None` for the mean over all flows.
    flow: Option<usize>,
    to_flow: Option<usize>,
    table: &'plan Table,
    metric: &'plan str,
    judge_by: JudgeBy,
}

impl Claimed<'_> {
    /// Returns the mean or median of a cell's repetitions, as configured in the plan. A cell holds all runs of one
    /// series at one point.
    fn middle(&self, cell: &Cell, metric: &str, flow: Option<usize>) -> Option<f64> {
        match self.judge_by {
            JudgeBy::Mean => self.table.mean(cell, metric, flow),
            JudgeBy::Median => median(self.table.values(cell, metric, flow)),
        }
    }

    /// Returns the cells of the claim's series at the claim's points.
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.table.of_series(&self.claim.series).filter(|cell| self.is_at(&cell.point))
    }

    fn is_at(&self, point: &Point) -> bool {
        self.claim.at.iter().all(|(name, values)| level(point, name).is_some_and(|level| values.has(level)))
    }

    /// Returns the value at each of the claim's points, with the name of the point. `None` if any value is missing, or
    /// there are no points.
    fn values(&self) -> Option<Vec<(String, f64)>> {
        let value = |cell: &Cell| Some((name(&cell.point), self.middle(cell, self.metric, self.flow)?));
        let values: Vec<_> = self.cells().map(value).collect::<Option<_>>()?;
        (!values.is_empty()).then_some(values)
    }

    /// Returns the flow of the compared series.
    fn other_flow(&self) -> Option<usize> {
        self.to_flow.or(self.flow)
    }

    /// Returns the cells at `point` of the series that the claim compares with, at least one. `None` if one is missing.
    fn others(&self, point: &Point) -> Option<Vec<&Cell>> {
        let own = std::slice::from_ref(&self.claim.series);
        let labels = if self.claim.to.is_empty() { own } else { &self.claim.to[..] };
        labels.iter().map(|series| self.table.at(series, point)).collect()
    }

    /// Returns the cell that the claim compares with at `point`: of several, the one with the greatest goodput.
    fn other(&self, point: &Point) -> Option<&Cell> {
        let mut best = None;
        for cell in self.others(point)? {
            // A series without any run has no goodput, so that nothing tells whether it is the better one.
            let goodput = self.middle(cell, GOODPUT, None)?;
            best = best.filter(|(most, _)| *most >= goodput).or(Some((goodput, cell)));
        }
        best.map(|(_, cell)| cell)
    }

    /// Combines the values of the claim's series and of the compared series at each point with `of`.
    fn joined(&self, of: impl Fn(f64, f64) -> f64) -> Option<Vec<(String, f64)>> {
        let join = |cell: &Cell| {
            let own = self.middle(cell, self.metric, self.flow)?;
            let others = self.middle(self.other(&cell.point)?, self.metric, self.other_flow())?;
            Some((name(&cell.point), of(own, others)))
        };
        let joined: Vec<_> = self.cells().map(join).collect::<Option<_>>()?;
        (!joined.is_empty()).then_some(joined)
    }

    /// Returns the value of the claim's series divided by that of the compared series, at each point.
    fn ratios(&self) -> Option<Vec<(String, f64)>> {
        // The ratio of two zeros is NaN, and every claim about NaN fails.
        self.joined(|own, others| own / others)
    }

    /// Tests a claim on absolute values. The small form of a plan reduces all link rates by a factor; measured rates
    /// are divided by it here.
    fn value(&self) -> Option<Finding> {
        let (low, high) = self.claim.within?;
        let grows_with_rates = label_and_unit(self.metric).1 == "Mbit/s";
        let scale = self.cells().next().map(|cell| cell.scale).filter(|_| grows_with_rates).unwrap_or(1.0);
        if let Some(errors) = self.claim.standard_errors {
            return self.share_of_messages((low, high), errors);
        }
        let values: Vec<_> = self.values()?.into_iter().map(|(at, value)| (at, value / scale)).collect();
        let runs = self.cells().map(|cell| self.run_outside(cell, scale));
        let judged = values.into_iter().zip(runs).map(|((at, value), outside)| match outside {
            Some(run) if (low..=high).contains(&value) => (format!("{at} in one of its runs"), run, false),
            _ => (at, value, (low..=high).contains(&value)),
        });
        let mut finding = self.judged(judged.collect(), "");
        if scale < 1.0 {
            finding.measured += &format!(", times {} what was measured at lower rates", digits(1.0 / scale));
        }
        Some(finding)
    }

    /// Returns the run furthest outside `each_run_within`; `None` if all runs of the cell are inside.
    fn run_outside(&self, cell: &Cell, scale: f64) -> Option<f64> {
        let (low, high) = self.claim.each_run_within?;
        let beyond = |run: &f64| (low - run).max(run - high);
        let runs = self.table.values(cell, self.metric, self.flow).into_iter().map(|value| value / scale);
        runs.max_by(|a, b| beyond(a).total_cmp(&beyond(b))).filter(|run| !(low..=high).contains(run))
    }

    fn ratio(&self) -> Option<Finding> {
        let (low, high) = self.claim.within?;
        Some(self.all(&self.ratios()?, "×", |ratio| (low..=high).contains(&ratio)))
    }

    /// Tests a claim on a share of messages. The lower bound is relaxed by `errors` standard errors of a binomial
    /// share, for the number of messages in the cell. The finding prints the share of messages that missed the
    /// deadline: its three digits are more precise.
    fn share_of_messages(&self, (low, high): (f64, f64), errors: f64) -> Option<Finding> {
        let share = low / 100.0;
        let least = |cell: &Cell| {
            let flows = cell.measured.iter().flat_map(|run| &run.flows);
            let count: u64 = flows.filter_map(|flow| flow.messages).map(|messages| messages.due).sum();
            low - 100.0 * errors * (share * (1.0 - share) / count.max(1) as f64).sqrt()
        };
        let values = self.values()?.into_iter().zip(self.cells());
        let judged = values.map(|((at, value), cell)| (at, 100.0 - value, (least(cell)..=high).contains(&value)));
        Some(self.judged(judged.collect(), " % not in time"))
    }

    fn below(&self) -> Option<Finding> {
        let (factor, plus) = (self.claim.factor.unwrap_or(1.0), self.claim.plus.unwrap_or(0.0));
        let floor = self.claim.floor.unwrap_or(f64::NEG_INFINITY);
        let beyond = |own: f64, others: f64| own - (factor * others + plus).max(floor);
        if self.claim.each_run {
            let worst = self.worst_runs(beyond, |beyond| *beyond <= 0.0, |a, b| a > b)?;
            return Some(self.judged(worst, " beyond"));
        }
        Some(self.all(&self.joined(beyond)?, " beyond", |beyond| beyond <= 0.0))
    }

    fn order(&self) -> Option<Finding> {
        if let Some(factor) = self.claim.factor.filter(|_| self.claim.each_run) {
            // The ratio of two zeros is NaN, which fails.
            let worst = self.worst_runs(|own, others| own / others, |ratio| *ratio >= factor, |a, b| a < b)?;
            return Some(self.judged(worst, "×"));
        }
        let ratios = self.ratios()?;
        if let Some(factor) = self.claim.factor {
            return Some(self.all(&ratios, "×", |ratio| ratio >= factor));
        }
        let leads = self.joined_runs(lead);
        let judged = ratios.into_iter().zip(leads).map(|((at, ratio), leads)| (at, ratio, leads));
        Some(self.judged(judged.collect(), "×"))
    }

    /// Calls `of` at each point, with the values of all runs of both series.
    fn joined_runs(&self, of: impl Fn(&[f64], &[f64]) -> bool) -> Vec<bool> {
        let join = |cell: &Cell| {
            let own = self.table.values(cell, self.metric, self.flow);
            let values = |others: &Cell| self.table.values(others, self.metric, self.other_flow());
            of(&own, &self.other(&cell.point).map_or_else(Vec::new, values))
        };
        self.cells().map(join).collect()
    }

    fn flat(&self) -> Option<Finding> {
        // A single point has no spread, so the claim needs at least two.
        let values = self.values().filter(|values| values.len() > 1)?;
        let (low, high) = extremes(values.iter().map(|(_, value)| *value));
        // A constant zero does not count as flat: no data was delivered.
        let spread = if high > 0.0 { (high - low) / high } else { f64::INFINITY };
        let measured = format!("{} to {}, a spread of {} %", digits(low), digits(high), one_decimal(100.0 * spread));
        Some(Finding { holds: spread <= self.claim.tolerance?, measured, off: vec![100.0 * spread] })
    }

    fn monotone(&self) -> Option<Finding> {
        let (tolerance, change) = (self.claim.tolerance.unwrap_or(0.0), self.claim.change.unwrap_or(CHANGE_DEFAULT));
        let values = self.values().filter(|values| values.len() > 1)?;
        let in_order = |pair: [f64; 2]| if self.claim.falls { [pair[1], pair[0]] } else { pair };
        let steps = values.windows(2).map(|pair| in_order([pair[0].1, pair[1].1]));
        let off: Vec<_> = steps
            .filter(|[before, after]| *after < before * (1.0 - tolerance))
            .map(|[before, after]| 100.0 * (after / before - 1.0))
            .collect();
        let [least, most] = in_order([values.first()?.1, values.last()?.1]);
        let rises = most > least * (1.0 + change);
        let mut finding = Finding { holds: off.is_empty() && rises, measured: list(&values, ""), off };
        if !rises && finding.off.is_empty() {
            let all = 100.0 * (most / least - 1.0);
            finding.measured += &format!("; {} % from first to last", digits(if all.is_nan() { 0.0 } else { all }));
            finding.off.push(all);
        }
        Some(finding)
    }

    fn growth(&self) -> Option<Finding> {
        let (low, high) = self.claim.within?;
        let values = self.values().filter(|values| values.len() > 1)?;
        let of_runs: Vec<_> = self.cells().map(|cell| self.table.values(cell, self.metric, self.flow)).collect();
        let (first, last) = (of_runs.first()?, of_runs.last()?);
        let growth = values.last()?.1 / values.first()?.1;
        // 0/0 is NaN, which lies outside every interval.
        let holds = (low..=high).contains(&growth) && (lead(first, last) || lead(last, first));
        let measured = format!("{}× from first to last: {}", digits(growth), list(&values, ""));
        Some(Finding { holds, measured, off: vec![growth] })
    }

    /// Tests a claim that a curve bends to one side. Chance also bends a straight line, so all deviations must have the
    /// same sign, and the largest must exceed two standard errors.
    fn curved(&self) -> Option<Finding> {
        let change = self.claim.change.unwrap_or(BEND_DEFAULT);
        let values = self.values().filter(|values| values.len() > 2)?;
        let (xs, errors) = (self.along()?, self.cells().map(|cell| self.squared_error(cell)).collect::<Vec<_>>());
        let (first, last) = (0, values.len() - 1);
        let way = values[last].1 - values[first].1;
        let bends: Vec<_> = (1..last)
            .map(|place| {
                let part = (xs[place] - xs[first]) / (xs[last] - xs[first]);
                let bend = values[place].1 - (values[first].1 + part * way);
                let error = errors[place] + (1.0 - part).powi(2) * errors[first] + part.powi(2) * errors[last];
                (place, bend, BEYOND_CHANCE * error.sqrt())
            })
            .collect();
        let &(place, most, chance) = bends.iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
        let (_, greatest) = extremes(values.iter().map(|(_, value)| value.abs()));
        let is_one_sided = bends.iter().all(|(_, bend, _)| bend * most >= 0.0);
        let holds = way.abs() > CHANGE_DEFAULT * greatest
            && is_one_sided
            && most.abs() > chance
            && most.abs() >= change * way.abs();
        let share = 100.0 * most / way.abs();
        let measured = format!(
            "{}; off the straight line by {} % of the change at {}{}",
            list(&values, ""),
            digits(share),
            values[place].0,
            if is_one_sided { "" } else { ", but not to one side alone" }
        );
        Some(Finding { holds, measured, off: vec![share] })
    }

    /// Returns the numeric values of the first parameter that varies over the claim's points.
    fn along(&self) -> Option<Vec<f64>> {
        let points: Vec<_> = self.cells().map(|cell| &cell.point).collect();
        let first = points.first()?;
        let name = first.iter().find(|(name, at)| points.iter().any(|point| level(point, name) != Some(at)));
        let (name, _) = name?;
        let number = |point: &&Point| match level(point, name)? {
            Level::Number(x) => Some(*x),
            _ => None,
        };
        points.iter().map(number).collect()
    }

    /// Returns the square of the standard error of a cell's mean.
    fn squared_error(&self, cell: &Cell) -> f64 {
        let runs = self.table.values(cell, self.metric, self.flow);
        mean_and_sd(&runs).map_or(0.0, |(_, sd)| squared_error(sd, runs.len()))
    }

    fn equal(&self) -> Option<Finding> {
        let most = 100.0 * self.claim.tolerance?;
        let spreads: Vec<_> = self.spreads()?.into_iter().map(|(at, spread, _)| (at, spread)).collect();
        Some(self.all(&spreads, " %", |spread| spread <= most))
    }

    /// Tests a claim that flows differ within a run. The difference must exceed the tolerance by more than chance
    /// explains.
    fn unequal(&self) -> Option<Finding> {
        let least = 100.0 * self.claim.tolerance?;
        let is_apart = |spread: f64, chance: f64| spread.is_finite() && spread - chance >= least;
        let judged = self.spreads()?.into_iter().map(|(at, spread, chance)| (at, spread, is_apart(spread, chance)));
        Some(self.judged(judged.collect(), " %"))
    }

    /// Returns for each point the difference between the fastest and slowest flow in a run, % of the mean, and the part
    /// that chance may explain. Differences are computed run by run: averaging first would hide a flow that leads in
    /// one run and lags in the next.
    fn spreads(&self) -> Option<Vec<(String, f64, f64)>> {
        let metric = if is_of_flows(self.metric) { self.metric } else { "goodput_mbps" };
        let mut spreads = Vec::new();
        for cell in self.cells() {
            let flows = cell.measured.first()?.flows.len();
            let values: Vec<_> = (0..flows).map(|flow| self.table.values(cell, metric, Some(flow))).collect();
            let of_run = |run: usize| {
                let of_flows = values.iter().map(|runs| runs.get(run).copied()).collect::<Option<Vec<_>>>()?;
                let (mean, _) = mean_and_sd(&of_flows)?;
                let (low, high) = extremes(of_flows.into_iter());
                Some(if mean > 0.0 { 100.0 * (high - low) / mean } else { f64::INFINITY })
            };
            let of_runs = (0..cell.measured.len()).map(of_run).collect::<Option<Vec<_>>>()?;
            let (mean, sd) = mean_and_sd(&of_runs)?;
            let chance = BEYOND_CHANCE * squared_error(sd, of_runs.len()).sqrt();
            let middle = match self.judge_by {
                JudgeBy::Mean => mean,
                JudgeBy::Median => median(of_runs)?,
            };
            spreads.push((name(&cell.point), middle, chance));
        }
        (!spreads.is_empty()).then_some(spreads)
    }

    /// Tests `holds` at each point. The claim holds if all points pass, or the share of points required by the plan.
    /// The finding prints the failing values first.
    fn all(&self, values: &[(String, f64)], unit: &str, holds: impl Fn(f64) -> bool) -> Finding {
        self.judged(values.iter().map(|(at, value)| (at.clone(), *value, holds(*value))).collect(), unit)
    }

    /// Summarises values (point, value, true if it passes) in a finding.
    fn judged(&self, values: Vec<(String, f64, bool)>, unit: &str) -> Finding {
        let of = |holds: bool| values.iter().filter(move |one| one.2 == holds).map(|one| (one.0.clone(), one.1));
        let (failed, held) = (of(false).collect::<Vec<_>>(), of(true).count());
        let measured = if failed.is_empty() { list(&of(true).collect::<Vec<_>>(), unit) } else { list(&failed, unit) };
        let off = failed.iter().map(|(_, number)| *number).collect();
        match self.claim.share {
            None => Finding { holds: failed.is_empty(), measured, off },
            Some(share) => Finding {
                // The tolerance accepts 9 of 10 points for a share of 0.9, which is not exact in binary.
                holds: held as f64 >= share * values.len() as f64 - 1e-9,
                measured: format!("at {held} of {} points; {measured}", values.len()),
                off,
            },
        }
    }
}

/// Returns true if the mean of `own` exceeds the mean of `others` by more than chance explains.
fn lead(own: &[f64], others: &[f64]) -> bool {
    let (Some((own_mean, own_sd)), Some((mean, sd))) = (mean_and_sd(own), mean_and_sd(others)) else { return false };
    let chance = BEYOND_CHANCE * (squared_error(own_sd, own.len()) + squared_error(sd, others.len())).sqrt();
    own_mean > 0.0 && own_mean - mean > chance
}

/// Returns the square of the standard error of a mean of `runs` runs. `sd` is the population standard deviation, 0 for
/// a single run.
fn squared_error(sd: f64, runs: usize) -> f64 {
    sd * sd / (runs.max(2) - 1) as f64
}

fn one_decimal(value: f64) -> String {
    if value.is_finite() { format!("{value:.1}") } else { digits(value) }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Most numbers listed in a sentence. Longer lists are shortened to the least and the greatest number.
const LISTED_MAX: usize = 4;

fn list(values: &[(String, f64)], unit: &str) -> String {
    let one = |(place, value): &(String, f64)| {
        let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
        format!("{}{unit}{at}", digits(*value))
    };
    if values.len() <= LISTED_MAX {
        return values.iter().map(one).collect::<Vec<_>>().join(", ");
    }
    let least = values.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let greatest = values.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let ends: Vec<_> = [least, greatest].into_iter().flatten().map(one).collect();
    ends.join(" to ")
}

/// Magnitude below which a number is a rounding error and printed as 0.
const NOTHING: f64 = 1e-9;

/// Formats a number with three significant digits.
#[must_use]
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        return "undefined".to_owned();
    }
    if !value.is_finite() {
        return "without bound".to_owned();
    }
    match size {
        _ if size < NOTHING => "0".to_owned(),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => {
            let decimals = (2.0 - size.log10().floor()).clamp(3.0, 12.0) as usize;
            let text = format!("{value:.decimals$}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
