//! Plotted metrics of a plan, and the axes of its figures.

use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The table `[metrics]` of a plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Plotted metrics, one figure each. Claims are about the first, unless they name another metric.
    pub plot: Vec<Spanned<String>>,
    /// Error metrics whose distribution over bins is plotted, one additional figure each.
    #[serde(default)]
    pub over_bins: Vec<Spanned<String>>,
    /// Width of the bins in which every flow's goodput is recorded, s.
    pub bin_s: Option<f64>,
    /// Sampling interval of every bottleneck's queue length, ms.
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
    /// Categories: values are names without numeric distance.
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
    /// The metric itself; the y axis is the share of values at or below it.
    Distribution,
    /// Width of the bins in which goodput is averaged.
    BinWidth,
}

/// The table `[axes]` of a plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    /// Quantity on the x axis.
    #[serde(default)]
    pub over: Over,
    /// For `over = "time"`: length of the moving average drawn instead of bins, s.
    pub average_s: Option<f64>,
    /// For `over = "bin-width"`: the bin widths, s, multiples of the plan's `bin_s`.
    #[serde(default)]
    pub bin_widths_s: Vec<f64>,
    /// Label of the x axis. Default: the parameter's name.
    pub x_label: Option<String>,
    /// Unit of the x axis.
    #[serde(default)]
    pub x_unit: String,
    /// Factor applied to displayed values of the x axis, for example 100 for per cent.
    pub x_factor: Option<f64>,
    /// Scale of the x axis.
    #[serde(default)]
    pub x_scale: Scale,
    /// Scale of the y axis.
    #[serde(default)]
    pub y_scale: Scale,
}
