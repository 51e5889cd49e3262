//! Claims of the documents, as a plan says them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::level::Level;
use crate::lens::Lens;

/// `[[claims]]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name, such as S1.2.
    pub id: String,
    /// Claim of the document.
    pub says: String,
    /// Origin: N a number in the text, Q a statement, D a derivation of ours.
    pub tag: Tag,
    /// The test.
    pub kind: ClaimKind,
    /// The series it is about.
    pub series: String,
    /// Another series, for `ratio`, `order` and `below`.
    pub to: Option<String>,
    /// Points of the claim: for each swept parameter a value, a list, or a range. Absent: everywhere.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Name of the metric; absent: the first that is drawn.
    pub metric: Option<String>,
    /// The flow, by its place from 1 on or by its label; absent: the mean over all.
    pub flow: Option<FlowName>,
    /// `ratio`, `order` and `below`: which flow of `to`; absent: the same.
    pub to_flow: Option<FlowName>,
    /// `value`, `ratio` and `growth`: lower and upper end of what agrees.
    pub within: Option<(f64, f64)>,
    /// `value`: lower and upper end of every single run, where a mean or a median would hide one that fails.
    pub each_run_within: Option<(f64, f64)>,
    /// `order`: the series is at least this many times the other; absent: it is above it, by more than chance explains. `below`: at most
    /// this many times the other. Default 1.
    pub factor: Option<f64>,
    /// `below`: and so much more is forgiven. Default 0.
    pub plus: Option<f64>,
    /// `value` of `in_time_percent`: the lower end is lower by this many standard errors of that share, for the messages measured.
    pub standard_errors: Option<f64>,
    /// `flat`: (max − min) / max at most; `monotone`: steps back by this share are forgiven; `equal`: (max − min) / mean of
    /// the flows at most, in each run, of which the middle counts; `unequal`: at least, by more than chance explains.
    pub tolerance: Option<f64>,
    /// `monotone`: from the first point to the last it changes by this share at least. Default 0.02. `curved`: so much of the change from
    /// the first point to the last it lies off the straight line between them. Default 0.05.
    pub change: Option<f64>,
    /// `value`, `ratio`, `order`, `below`, `equal` and `unequal`: the share of points at which it must hold, from 0 to 1. Default: at all of them.
    pub share: Option<f64>,
    /// `monotone`: whether it falls instead of rising.
    #[serde(default)]
    pub falls: bool,
    /// Begin and end of the time that counts, s; absent: after the warm-up. Of metrics that are made of bins.
    pub window_s: Option<(f64, f64)>,
    /// Width of the bins, a multiple of the plan's; absent: the plan's.
    pub bin_s: Option<f64>,
    /// The known reason for a difference, and its size. Without one, a failure means that the result differs.
    pub because: Option<Because>,
    /// Platform of its series; no plan has this. Absent: the simulator.
    #[serde(skip)]
    pub platform: Option<String>,
}

impl Claim {
    /// The part and the bins of a run that it judges.
    pub(crate) fn lens(&self) -> Lens {
        Lens { window_s: self.window_s, bin_s: self.bin_s }
    }
}

/// A known reason for which a claim fails here.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Because {
    /// The reason, which reads on after "because".
    pub why: String,
    /// Range that the reason explains: at each point where the claim fails, the number that is judged, as it is printed, lies between
    /// these.
    pub within: (f64, f64),
}

/// Origin of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub enum Tag {
    /// A number given in the text.
    N,
    /// A qualitative statement.
    Q,
    /// A derivation of ours.
    D,
}

/// Test of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimKind {
    /// A metric lies in `within`.
    Value,
    /// A metric of `series` over the same of `to` lies in `within`.
    Ratio,
    /// A metric of `series` is at least `factor` times the same of `to`.
    Order,
    /// A metric of `series` is at most `factor` times the same of `to`, and `plus`.
    Below,
    /// A metric hardly changes over the sweep.
    Flat,
    /// A metric rises (or falls) along the sweep.
    Monotone,
    /// A metric at the last of its points over that at the first lies in `within`, which 1 does not.
    Growth,
    /// A metric lies to one side of the straight line between its first and its last point.
    Curved,
    /// The flows of a series get the same.
    Equal,
    /// The flows of a series do not get the same.
    Unequal,
}

/// A flow as a claim names it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum FlowName {
    /// The flow's place, counted from 1.
    Number(usize),
    /// The flow's label.
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

/// Values of a swept parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Where {
    /// These.
    Any(Vec<toml::Value>),
    /// The range from `min` to `max`.
    Range(Range),
    /// This.
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
    /// True if `level` is one of these.
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
