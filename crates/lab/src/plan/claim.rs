//! Claims of the documents, as written in a plan.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::level::Level;
use crate::lens::Lens;

/// A table `[[claims]]` of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name of the claim, such as S1.2.
    pub id: String,
    /// Statement of the document.
    pub says: String,
    /// Origin: N a number in the text, Q a statement, D a derivation of this project.
    pub tag: Tag,
    /// Test of the claim.
    pub kind: ClaimKind,
    /// Series that the claim is about.
    pub series: String,
    /// Other series, for `ratio`, `order` and `below`.
    pub to: Option<String>,
    /// Points of the claim: a value, a list or a range for each swept parameter. Default: all points.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Name of the metric. Default: the first plotted one.
    pub metric: Option<String>,
    /// Flow, by its number from 1 or its label. Default: the mean over all.
    pub flow: Option<FlowName>,
    /// `ratio`, `order` and `below`: flow of `to`. Default: the same flow.
    pub to_flow: Option<FlowName>,
    /// `value`, `ratio` and `growth`: lower and upper bound of the accepted range.
    pub within: Option<(f64, f64)>,
    /// `value`: lower and upper bound for every single run, where a mean or median would hide one that fails.
    pub each_run_within: Option<(f64, f64)>,
    /// `order`: least ratio of the series to the other; without it, the series exceeds the other by more than chance explains. `below`:
    /// greatest ratio to the other, default 1.
    pub factor: Option<f64>,
    /// `below`: absolute tolerance added to the limit. Default 0.
    pub plus: Option<f64>,
    /// `value` of `in_time_percent`: the lower bound is reduced by this many standard errors of that share, for the number of messages
    /// measured.
    pub standard_errors: Option<f64>,
    /// `flat`: greatest (max − min) / max. `monotone`: tolerated step back, as a share. `equal`: greatest (max − min) / mean of the flows
    /// in each run, of which the median counts. `unequal`: least such value, and more than chance explains.
    pub tolerance: Option<f64>,
    /// `monotone`: least relative change from the first point to the last, default 0.02. `curved`: least deviation from the straight line,
    /// as a share of the change from the first point to the last, default 0.05.
    pub change: Option<f64>,
    /// `value`, `ratio`, `order`, `below`, `equal` and `unequal`: share of points at which the claim must hold, from 0 to 1. Default: all
    /// points.
    pub share: Option<f64>,
    /// `monotone`: whether the metric falls instead of rising.
    #[serde(default)]
    pub falls: bool,
    /// Start and end of the time window, s; only for metrics made of bins. Default: all after the warm-up.
    pub window_s: Option<(f64, f64)>,
    /// Width of the bins, s, a multiple of the plan's. Default: the plan's.
    pub bin_s: Option<f64>,
    /// Known reason for a difference, with its size. Without a reason, a failing claim counts as a difference.
    pub because: Option<Because>,
    /// Platform of the series; set internally, never in a plan. Default: the simulator.
    #[serde(skip)]
    pub platform: Option<String>,
}

impl Claim {
    /// Time window and bins of the claim.
    pub(crate) fn lens(&self) -> Lens {
        Lens { window_s: self.window_s, bin_s: self.bin_s }
    }
}

/// A known reason for which a claim fails here.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Because {
    /// The reason, as the continuation of “because”.
    pub why: String,
    /// Range explained by the reason: at each point where the claim fails, the printed number must lie within it.
    pub within: (f64, f64),
}

/// Origin of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Tag {
    /// A number given in the text.
    N,
    /// A qualitative statement in the text.
    Q,
    /// A derivation of this project.
    D,
}

/// Test of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// The metric lies in `within`.
    Value,
    /// The ratio of the metric of `series` to that of `to` lies in `within`.
    Ratio,
    /// The metric of `series` is at least `factor` times that of `to`.
    Order,
    /// The metric of `series` is at most `factor` times that of `to`, plus `plus`.
    Below,
    /// The metric hardly changes over the sweep.
    Flat,
    /// The metric rises (or falls) along the sweep.
    Monotone,
    /// The ratio of the metric at the last point to that at the first lies in `within`, a range without 1.
    Growth,
    /// The metric lies to one side of the straight line between its first and its last point.
    Curved,
    /// The flows of a series get equal shares.
    Equal,
    /// The flows of a series get unequal shares.
    Unequal,
}

/// A flow as named by a claim.
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

/// Selected values of a swept parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Where {
    /// Any value of this list.
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
    /// Lower end.
    pub min: Option<f64>,
    /// Upper end.
    pub max: Option<f64>,
}

impl Where {
    /// True if `level` is among the selected values.
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
