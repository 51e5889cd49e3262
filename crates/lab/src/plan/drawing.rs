//! Plots of a plan, and their axes.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// `[metrics]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Metrics drawn, one panel each; claims are about the first unless they say otherwise.
    pub plot: Vec<Spanned<String>>,
    /// Errors of which the distribution over bins is drawn, one figure each, behind the others.
    #[serde(default)]
    pub over_bins: Vec<Spanned<String>>,
    /// Goodput of every flow in bins of this length.
    pub bin_s: Option<f64>,
    /// The queue of every bottleneck this often.
    pub queue_trace_ms: Option<f64>,
}

/// Scales of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
    /// Values are names.
    Categories,
}

/// Quantity on the x axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// The first swept parameter.
    #[default]
    Sweep,
    /// Time within a run.
    Time,
    /// The metric itself; up goes the share of runs below.
    Distribution,
    /// The width of bins.
    BinWidth,
}

/// `[axes]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// Quantity on the x axis.
    #[serde(default)]
    pub over: Over,
    /// Over time: moving averages over as many seconds instead of bins.
    pub average_s: Option<f64>,
    /// Over the width of bins: widths, multiples of the plan's `bin_s`.
    #[serde(default)]
    pub bin_widths_s: Vec<f64>,
    /// Label of the x axis; the parameter's name unless given.
    pub x_label: Option<String>,
    /// Unit of the x axis.
    #[serde(default)]
    pub x_unit: String,
    /// Values are multiplied by this for display: 100 for a percentage.
    pub x_factor: Option<f64>,
    /// Scale of the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axis.
    #[serde(default)]
    pub y_scale: Scale,
}
