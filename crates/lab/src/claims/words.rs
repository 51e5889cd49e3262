//! Claims in words, for the documentation.

use super::{BEND_DEFAULT, CHANGE_DEFAULT};
use crate::plan::{Claim, ClaimKind, Level, Where};

/// Describes the kind of a claim and its test in a sentence.
pub(crate) fn describe(claim: &Claim) -> String {
    let other = match (&claim.to[..], &claim.to_flow) {
        ([], Some(flow)) => format!("that of its {flow}"),
        ([], None) => String::new(),
        ([series], None) => format!("that of {series}"),
        ([series], Some(flow)) => format!("that of {series}, {flow}"),
        (several, flow) => {
            let flow = flow.as_ref().map_or(String::new(), |flow| format!(", {flow}"));
            format!("that of {}{flow}, whichever delivers more", several.join(" or "))
        }
    };
    let run = if claim.each_run { ", in each run" } else { "" };
    let (low, high) = claim.within.unwrap_or_default();
    let tolerance = 100.0 * claim.tolerance.unwrap_or(0.0);
    let test = match claim.kind {
        ClaimKind::Value => {
            let less = claim.standard_errors.map_or(String::new(), |errors| format!(" less {errors} standard errors"));
            let run = |(low, high)| format!(", and each run between {low} and {high}");
            format!("between {low}{less} and {high}{}", claim.each_run_within.map_or(String::new(), run))
        }
        ClaimKind::Ratio => format!("{low} to {high} times {other}"),
        ClaimKind::Order => match claim.factor {
            Some(factor) => format!("at least {factor} times {other}{run}"),
            None => format!("above {other}, by two standard errors of the difference"),
        },
        ClaimKind::Below => {
            let plus = claim.plus.map_or(String::new(), |plus| format!(" and {plus}"));
            let floor = claim.floor.map_or(String::new(), |floor| format!(", or {floor} if that is more"));
            format!("at most {} times {other}{plus}{floor}{run}", claim.factor.unwrap_or(1.0))
        }
        ClaimKind::Flat => format!("varies by {tolerance} % at most"),
        ClaimKind::Monotone => {
            let (verb, back) = if claim.falls { ("falls", "up") } else { ("rises", "down") };
            let change = 100.0 * claim.change.unwrap_or(CHANGE_DEFAULT);
            format!("{verb} by {change} % at least (steps {back} by {tolerance} % are forgiven)")
        }
        ClaimKind::Growth => {
            format!("from first to last point times {low} to {high}, by two standard errors of the difference")
        }
        ClaimKind::Curved => {
            let change = 100.0 * claim.change.unwrap_or(BEND_DEFAULT);
            format!(
                "on one side of the straight line between its ends, by {change} % of the change and two standard errors"
            )
        }
        ClaimKind::Equal => format!("flows within {tolerance} % of each other in a run"),
        ClaimKind::Unequal => format!("flows {tolerance} % and two standard errors apart in a run"),
    };
    let flow = claim.flow.as_ref().map_or(String::new(), |flow| format!(", {flow}"));
    let places: Vec<_> = claim.at.iter().map(|(name, values)| format!("{name} {}", place(values))).collect();
    let at = if places.is_empty() { String::new() } else { format!(", at {}", places.join(" and ")) };
    let share = claim.share.map_or(String::new(), |share| format!(", at {} % of the points", 100.0 * share));
    format!("{}{flow}: {test}{at}{share}", claim.series)
}

fn place(values: &Where) -> String {
    let text = |value: &toml::Value| Level::of(value).to_string();
    match values {
        Where::Is(value) => text(value),
        Where::Any(values) => values.iter().map(text).collect::<Vec<_>>().join(" or "),
        Where::Range(range) => match (range.min, range.max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("{min} and more"),
            (None, Some(max)) => format!("{max} and less"),
            (None, None) => "any".to_owned(),
        },
    }
}
