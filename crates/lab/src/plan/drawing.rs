//! Plots of a plan, and their axes.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The table `[metrics]` of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Plotted metrics, one panel each; claims are about the first unless they name another.
    pub plot: Vec<Spanned<String>>,
    /// Errors whose distribution over bins is plotted, one figure each, after the others.
    #[serde(default)]
    pub over_bins: Vec<Spanned<String>>,
    /// Width of the bins of every flow's goodput, s.
    pub bin_s: Option<f64>,
    /// Sampling interval of every bottleneck's queue, ms.
    pub queue_trace_ms: Option<f64>,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
    /// Categories: values are names.
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
    /// The metric itself: the y axis is the share of runs below.
    Distribution,
    /// Width of the bins.
    BinWidth,
}

/// The table `[axes]` of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// Quantity on the x axis.
    #[serde(default)]
    pub over: Over,
    /// Over time: length of moving averages, s, drawn instead of bins.
    pub average_s: Option<f64>,
    /// Over the width of bins: the widths, multiples of the plan's `bin_s`.
    #[serde(default)]
    pub bin_widths_s: Vec<f64>,
    /// Label of the x axis. Default: the parameter's name.
    pub x_label: Option<String>,
    /// Unit of the x axis.
    #[serde(default)]
    pub x_unit: String,
    /// Factor of displayed values on the x axis: 100 for a percentage.
    pub x_factor: Option<f64>,
    /// Scale of the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axis.
    #[serde(default)]
    pub y_scale: Scale,
}
