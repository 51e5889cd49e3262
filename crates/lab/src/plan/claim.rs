//! Claims of the source documents, as written in a plan.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::level::Level;
use crate::lens::Lens;

/// A table `[[claims]]` of a plan: a statement that is tested on the measurements.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Id of the claim, such as S1.2.
    pub id: String,
    /// Statement of the source document.
    pub says: String,
    /// Kind of source: a number in the text, a statement in the text, or a derivation of this project.
    pub tag: Tag,
    /// Kind of test.
    pub kind: ClaimKind,
    /// Label of the tested series.
    pub series: String,
    /// `ratio`, `order` and `below`: labels of the series to compare with. Of several, the one with the greatest goodput
    /// of all flows counts, at each point, or with `each_run` in each run.
    #[serde(default, deserialize_with = "one_or_more")]
    pub to: Vec<String>,
    /// Points of the claim: a value, a list or a range for each swept parameter. Default: all points.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Name of the metric. Default: the first plotted one.
    pub metric: Option<String>,
    /// Flow, by its number from 1 or its label. Default: the mean over all flows.
    pub flow: Option<FlowName>,
    /// `ratio`, `order` and `below`: flow of the series `to`. Default: `flow`.
    pub to_flow: Option<FlowName>,
    /// `value`, `ratio` and `growth`: lower and upper bound of the accepted range.
    pub within: Option<(f64, f64)>,
    /// `value`: bounds for every single run, to detect a failing run that a mean or median would hide.
    pub each_run_within: Option<(f64, f64)>,
    /// `order`: least ratio of the series to `to`; without `factor`, the series must exceed `to` by more than chance
    /// explains. `below`: greatest ratio of the series to `to`, default 1.
    pub factor: Option<f64>,
    /// `below`: constant added to the upper limit, in the metric's unit. Default 0.
    pub plus: Option<f64>,
    /// `below`: least upper limit, in the metric's unit, if `factor` and `plus` make it lower.
    pub floor: Option<f64>,
    /// `order` with `factor`, and `below`: true to compare every run with the run of the same number of `to`, which has
    /// the same seed. Default: the means or medians are compared.
    #[serde(default)]
    pub each_run: bool,
    /// `value` of `in_time_percent`: the lower bound is reduced by this many standard errors of the share, for the
    /// number of messages measured.
    pub standard_errors: Option<f64>,
    /// `flat`: greatest (max − min) / max. `monotone`: greatest step in the wrong direction, as a share. `equal`:
    /// greatest (max − min) / mean over the flows of a run; the mean or median of the runs counts. `unequal`: least
    /// (max − min) / mean, which must also exceed chance.
    pub tolerance: Option<f64>,
    /// `monotone`: least relative change from first to last point, default 0.02. `curved`: least deviation from the
    /// straight line, as a share of the change from first to last point, default 0.05.
    pub change: Option<f64>,
    /// `value`, `ratio`, `order`, `below`, `equal` and `unequal`: least share of points at which the claim must hold, from 0
    /// to 1. Default: all points.
    pub share: Option<f64>,
    /// `monotone`: true if the metric must fall instead of rise.
    #[serde(default)]
    pub falls: bool,
    /// Start and end of a time window, s; only for metrics made of bins. Default: the whole run after the warm-up.
    pub window_s: Option<(f64, f64)>,
    /// Width of the bins, s: a multiple of the plan's `bin_s`, which is the default.
    pub bin_s: Option<f64>,
    /// Known reason for a failure, with the range of values that the reason explains. Without a reason, a failed claim
    /// counts as a difference.
    pub because: Option<Because>,
    /// Name of the platform that ran the series; `None` for the simulator. Set by the comparison of platforms, never in
    /// a plan.
    #[serde(skip)]
    pub platform: Option<String>,
}

impl Claim {
    /// Returns time window and bin width of the claim.
    pub(crate) fn lens(&self) -> Lens {
        Lens { window_s: self.window_s, bin_s: self.bin_s }
    }
}

/// Deserializes a label, or a list of labels.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Labels {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Labels::deserialize(deserializer)? {
        Labels::One(label) => vec![label],
        Labels::Several(labels) => labels,
    })
}

/// Known reason for which a claim fails in this laboratory.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Because {
    /// Reason, as a clause that continues “because”.
    pub why: String,
    /// Range of metric values that the reason explains. At every point at which the claim fails, the value must lie in this range.
    /// Otherwise the reason does not apply, and the claim differs.
    pub within: (f64, f64),
}

/// Kind of source of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Tag {
    /// A number given in the text.
    N,
    /// A qualitative statement in the text.
    Q,
    /// A derivation of this project.
    D,
}

/// Kind of test of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// The metric lies in `within`.
    Value,
    /// The metric of `series` divided by the metric of `to` lies in `within`.
    Ratio,
    /// The metric of `series` is at least `factor` times the metric of `to`.
    Order,
    /// The metric of `series` is at most `factor` times the metric of `to`, plus `plus`, or at most `floor`.
    Below,
    /// The metric varies little over the sweep: by `tolerance` at most.
    Flat,
    /// The metric rises (or falls) along the sweep.
    Monotone,
    /// The metric at the last point divided by the metric at the first point lies in `within`, a range that excludes 1.
    Growth,
    /// The metric lies on one side of the straight line between its first and last point.
    Curved,
    /// The flows of the series get equal shares.
    Equal,
    /// The flows of the series get unequal shares.
    Unequal,
}

/// Reference to a flow in a claim.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum FlowName {
    /// Number of the flow, from 1.
    Number(usize),
    /// Label of the flow.
    Label(String),
}

impl fmt::Display for FlowName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "flow {number}"),
            Self::Label(label) => write!(formatter, "flow \"{label}\""),
        }
    }
}

/// Selection of values of a swept parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Where {
    /// Any value in a list.
    Any(Vec<toml::Value>),
    /// A range of numbers.
    Range(Range),
    /// A single value.
    Is(toml::Value),
}

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Lower bound; `None` for no bound.
    pub min: Option<f64>,
    /// Upper bound; `None` for no bound.
    pub max: Option<f64>,
}

impl Where {
    /// Returns true if `level` is among the selected values.
    #[must_use]
    pub fn has(&self, level: &Level) -> bool {
        match self {
            Self::Is(value) => Level::of(value) == *level,
            Self::Any(values) => values.iter().any(|value| Level::of(value) == *level),
            Self::Range(range) => {
                let Level::Number(x) = level else { return false };
                range.min.is_none_or(|min| *x >= min) && range.max.is_none_or(|max| *x <= max)
            }
        }
    }
}
