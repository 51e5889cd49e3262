//! Consistency checks of a plan beyond the types of its fields.

use std::collections::BTreeMap;

use toml::{Spanned, Value};

use super::claim::{Claim, ClaimKind, Where};
use super::label::check_labels;
use super::level::Level;
use super::model::{Axis, Plan};
use super::run::TOLERANCE_WITH_LOSS;
use super::{PlanError, Source};
use crate::lens::{Lens, SEEN};
use crate::metrics::{METRICS, is_metric};

/// Maximum number of values of a swept parameter.
const VALUES_MAX: usize = 1_000;
const SEEDS_MAX: u32 = 1_000;
/// Maximum number of swept parameters: more would make a figure unreadable.
const AXES_MAX: usize = 4;
/// Greatest rate of the fastest link in the small form, Mbit/s: every platform can run it.
const FASTEST_MBPS_MAX: f64 = 200.0;

pub(super) fn check(source: &Source) -> Result<(), PlanError> {
    let plan = &source.plan;
    if plan.id.is_empty() || !plan.id.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-') {
        return Err(source.error(0, "`id` names files: give it letters, digits and hyphens alone"));
    }
    let of_series = plan.series.iter().map(|series| series.get_ref().seeds);
    let seeds = [Some(plan.run.seeds), plan.quick.seeds, plan.small.seeds];
    if seeds.into_iter().chain(of_series).flatten().any(|seeds| !(1..=SEEDS_MAX).contains(&seeds)) {
        return Err(source
            .error(0, format!("`seeds` in [run], [quick], [small] and [[series]] lies between 1 and {SEEDS_MAX}")));
    }
    if plan.quick.fastest_mbps.is_some() {
        return Err(source.error(0, "`fastest_mbps` belongs to [small]; move it there, or `set` rates in [quick]"));
    }
    if plan.small.fastest_mbps.is_some_and(|mbps| !(1.0..=FASTEST_MBPS_MAX).contains(&mbps)) {
        let message = format!("`fastest_mbps` in [small] lies between 1 and {FASTEST_MBPS_MAX}");
        return Err(source.error(0, message));
    }
    if plan.agreement.tolerance_with_loss.is_some_and(|share| !(0.0 < share && share <= TOLERANCE_WITH_LOSS)) {
        let message = format!("`tolerance_with_loss` in [agreement] lies above 0, and not above {TOLERANCE_WITH_LOSS}");
        return Err(source.error(0, message));
    }
    if plan.series.is_empty() {
        return Err(source.error(0, "there is nothing to run; add a [[series]] with label and transport"));
    }
    for (index, series) in plan.series.iter().enumerate() {
        if plan.series[..index].iter().any(|other| other.get_ref().label == series.get_ref().label) {
            let message = format!("the label \"{}\" is taken; give this series another", series.get_ref().label);
            return Err(source.error(series.span().start, message));
        }
        check_at(source, &series.get_ref().at).map_err(|message| source.error(series.span().start, message))?;
    }
    if let Some(axis) = plan.sweep.get(AXES_MAX) {
        let message = format!("at most {AXES_MAX} parameters can be swept; remove this one");
        return Err(source.error(axis.span().start, message));
    }
    for axis in &plan.sweep {
        check_axis(source, axis)?;
    }
    check_labels(source)?;
    if plan.metrics.plot.is_empty() {
        return Err(source.error(0, "`plot` in [metrics] is empty; name at least one metric"));
    }
    let widths = plan.axes.average_s.iter().chain(&plan.axes.bin_widths_s);
    for bin_s in widths {
        let lens = Lens { bin_s: Some(*bin_s), window_s: None };
        if let Some(fault) = lens.fault(plan.metrics.bin_s, plan.run.duration_s) {
            return Err(source.error(0, format!("[axes] has {bin_s} s: {fault}")));
        }
    }
    for name in &plan.metrics.plot {
        if !is_metric(name.get_ref()) {
            return Err(source.error(name.span().start, no_metric(name.get_ref())));
        }
    }
    let distributed = ["error_percent", "aggregate_error_percent"];
    if let Some(other) = plan.metrics.over_bins.iter().find(|name| !distributed.contains(&name.get_ref().as_str())) {
        let message = format!("`over_bins` draws {}, not `{}`", distributed.join(" and "), other.get_ref());
        return Err(source.error(other.span().start, message));
    }
    for (index, claim) in plan.claims.iter().enumerate() {
        let at = claim.span().start;
        if plan.claims[..index].iter().any(|other| other.get_ref().id == claim.get_ref().id) {
            return Err(source.error(at, format!("the claim {} is there twice; rename one", claim.get_ref().id)));
        }
        check_claim(source, claim.get_ref()).map_err(|message| source.error(at, message))?;
    }
    Ok(())
}

fn no_metric(name: &str) -> String {
    let names = METRICS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    format!("there is no metric `{name}`; choose one of {names}")
}

fn check_axis(source: &Source, axis: &Spanned<Axis>) -> Result<(), PlanError> {
    let at = axis.span().start;
    let Axis { parameter, values, quick, small } = axis.get_ref();
    if values.is_empty() || values.len() > VALUES_MAX {
        return Err(source.error(at, format!("`values` needs 1 to {VALUES_MAX} of them, not {}", values.len())));
    }
    for (name, some) in [("quick", quick), ("small", small)] {
        let is_alien = |value: &&Value| !values.iter().any(|other| Level::of(other) == Level::of(value));
        if let Some(alien) = some.iter().flatten().find(is_alien) {
            return Err(source.error(
                at,
                format!("`{name}` has {}, which is not in `values` of `{parameter}`; add it there", Level::of(alien)),
            ));
        }
    }
    Ok(())
}

fn check_claim(source: &Source, claim: &Claim) -> Result<(), String> {
    let plan = &source.plan;
    for label in std::iter::once(&claim.series).chain(&claim.to) {
        if !plan.series.iter().any(|series| series.get_ref().label == *label) {
            let labels: Vec<_> = plan.series.iter().map(|series| format!("\"{}\"", series.get_ref().label)).collect();
            return Err(format!("there is no series \"{label}\"; choose one of {}", labels.join(", ")));
        }
    }
    if let Some(name) = claim.metric.as_ref().filter(|name| !is_metric(name)) {
        return Err(no_metric(name));
    }
    check_at(source, &claim.at)?;
    let has_points =
        !matches!(claim.kind, ClaimKind::Flat | ClaimKind::Monotone | ClaimKind::Growth | ClaimKind::Curved);
    if claim.share.is_some_and(|share| !(0.0..=1.0).contains(&share) || !has_points) {
        return Err("`share` lies between 0 and 1, and means nothing to flat, monotone, growth and curved".to_owned());
    }
    let is_share = claim.kind == ClaimKind::Value && metric_of(source, claim) == "in_time_percent";
    if claim.standard_errors.is_some_and(|errors| !(0.0..=10.0).contains(&errors) || !is_share) {
        return Err("`standard_errors` lie between 0 and 10, and belong to a value of in_time_percent".to_owned());
    }
    let judges_runs = claim.kind == ClaimKind::Value && claim.standard_errors.is_none();
    if claim.each_run_within.is_some_and(|(low, high)| low.is_nan() || high.is_nan() || low > high || !judges_runs) {
        return Err("`each_run_within` is [low, high], and belongs to a value without `standard_errors`".to_owned());
    }
    if claim.plus.is_some_and(|plus| !plus.is_finite() || claim.kind != ClaimKind::Below) {
        return Err("`plus` is a number, and belongs to a claim of the kind below".to_owned());
    }
    if claim.floor.is_some_and(|floor| !floor.is_finite() || claim.kind != ClaimKind::Below) {
        return Err("`floor` is a number, and belongs to a claim of the kind below".to_owned());
    }
    let compares_runs = claim.kind == ClaimKind::Below || (claim.kind == ClaimKind::Order && claim.factor.is_some());
    if claim.each_run && !compares_runs {
        return Err("`each_run` belongs to a claim of the kind order with `factor`, or of the kind below".to_owned());
    }
    let lens = claim.lens();
    if !lens.is_clear() && !SEEN.contains(&metric_of(source, claim)) {
        return Err(format!("`window_s` and `bin_s` belong to claims about {}", SEEN.join(", ")));
    }
    if let Some(fault) = lens.fault(plan.metrics.bin_s, plan.run.duration_s).filter(|_| !lens.is_clear()) {
        return Err(fault);
    }
    let has_change = matches!(claim.kind, ClaimKind::Monotone | ClaimKind::Curved);
    if claim.change.is_some_and(|change| !(0.0..=1000.0).contains(&change) || !has_change) {
        return Err("`change` is a share from 0 up, and belongs to a claim of the kind monotone or curved".to_owned());
    }
    if claim.kind == ClaimKind::Growth && claim.within.is_some_and(|(low, high)| (low..=high).contains(&1.0)) {
        return Err("1 in `within` of a growth would let what does not change pass; leave it out".to_owned());
    }
    if claim.kind == ClaimKind::Curved && !is_along_one_number(plan, claim) {
        return Err("a curve is drawn over one swept number; name values of the other parameters in `at`".to_owned());
    }
    if claim.because.as_ref().is_some_and(|because| {
        because.within.0.is_nan() || because.within.1.is_nan() || because.within.0 > because.within.1
    }) {
        return Err("`within` of `because` is [low, high]: the numbers which the reason explains".to_owned());
    }
    let needs = match claim.kind {
        ClaimKind::Value | ClaimKind::Growth if claim.within.is_none() => "`within = [low, high]`",
        ClaimKind::Ratio if claim.within.is_none() || (claim.to.is_empty() && claim.to_flow.is_none()) => {
            "`within = [low, high]`, and `to` or `to_flow`"
        }
        ClaimKind::Order | ClaimKind::Below if claim.to.is_empty() && claim.to_flow.is_none() => {
            "`to`, another series, or `to_flow`"
        }
        ClaimKind::Flat | ClaimKind::Equal | ClaimKind::Unequal if claim.tolerance.is_none() => "`tolerance`",
        _ => return Ok(()),
    };
    Err(format!("a claim of this kind needs {needs}"))
}

/// Returns true if exactly one parameter varies over the claim's points, and its values are numbers.
fn is_along_one_number(plan: &Plan, claim: &Claim) -> bool {
    let is_free = |axis: &&Axis| !matches!(claim.at.get(&axis.parameter), Some(Where::Is(_)));
    let mut free = plan.sweep.iter().map(Spanned::get_ref).filter(is_free);
    let (axis, others) = (free.next(), free.next());
    others.is_none()
        && axis.is_some_and(|axis| axis.values.iter().all(|value| matches!(Level::of(value), Level::Number(_))))
}

/// Returns the name of the claim's metric: its own, or the first plotted one.
fn metric_of<'plan>(source: &'plan Source, claim: &'plan Claim) -> &'plan str {
    let first = source.plan.metrics.plot.first().map(Spanned::get_ref);
    claim.metric.as_ref().or(first).map_or("", String::as_str)
}

/// Checks that `at`, of a claim or a series, selects existing values of swept parameters.
fn check_at(source: &Source, at: &BTreeMap<String, Where>) -> Result<(), String> {
    let plan = &source.plan;
    for (parameter, values) in at {
        let Some(axis) = plan.sweep.iter().map(Spanned::get_ref).find(|axis| axis.parameter == *parameter) else {
            return Err(format!("`at` names `{parameter}`, which is not swept; choose a parameter of a [[sweep]]"));
        };
        let values = match values {
            Where::Range(_) => continue,
            Where::Any(values) => values.as_slice(),
            Where::Is(Value::Table(_)) => {
                return Err("a range in `at` has `min`, `max` or both, which are numbers".to_owned());
            }
            Where::Is(value) => std::slice::from_ref(value),
        };
        if let Some(alien) =
            values.iter().find(|value| !axis.values.iter().any(|other| Level::of(other) == Level::of(value)))
        {
            return Err(format!("`at` has {}, which is not in the values of `{parameter}`", Level::of(alien)));
        }
    }
    Ok(())
}
