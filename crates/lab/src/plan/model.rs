//! A plan, and the smaller tables of its file.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::carrier::Carrier;
use super::claim::{Claim, Where};
use super::drawing::{Axes, Metrics};
use super::flows::Flows;
use super::rates::Rates;
use super::run::{Agreement, RunTable, Shorter, Spread};
use super::topology::Topology;
use super::transport;

/// Value of `source` for a plan of this project, without a source document.
const OURS: &str = "ours";

/// A plan: an experiment for one figure, table or question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Id of the plan, on the command line and in records.
    pub id: String,
    /// Title, one line.
    pub title: String,
    /// Source documents and their figures; `ours` for a plan of this project.
    pub source: String,
    /// Question that the plan answers.
    pub question: String,
    /// Statement of the source document, in a sentence or two. In a plan of this project: background.
    #[serde(default)]
    pub says: String,
    /// Notes for the reader: details missing in the source documents, choices, known traps.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Duration and number of runs.
    pub run: RunTable,
    /// Settings of the quick form (`--quick`).
    #[serde(default)]
    pub quick: Shorter,
    /// Additional settings of the small form (`--small`).
    #[serde(default)]
    pub small: Shorter,
    /// Start and round-trip times drawn from the seed of a run.
    #[serde(default)]
    pub spread: Spread,
    /// Required agreement between platforms.
    #[serde(default)]
    pub agreement: Agreement,
    /// Network of the plan.
    pub topology: Spanned<Topology>,
    /// Flows over the network, the same for every series. Default: one flow.
    #[serde(default = "one_flow")]
    pub flows: Vec<Spanned<Flows>>,
    /// Compared series, each a curve of the figure.
    pub series: Vec<Spanned<Series>>,
    /// Swept parameters; the first is the x axis.
    #[serde(default)]
    pub sweep: Vec<Spanned<Axis>>,
    /// Scheduled changes of bottlenecks during a run.
    #[serde(default)]
    pub time: Vec<Spanned<Change>>,
    /// Random walks of bottlenecks' rates.
    #[serde(default)]
    pub walks: Vec<Spanned<Walk>>,
    /// Recorded rates of bottlenecks.
    #[serde(default)]
    pub rates: Vec<Spanned<Rates>>,
    /// Intervals during which a bottleneck delivers no packets.
    #[serde(default)]
    pub outages: Vec<Spanned<Outage>>,
    /// Plotted metrics and sampling intervals.
    pub metrics: Metrics,
    /// Axes of the plots.
    #[serde(default)]
    pub axes: Axes,
    /// Claims of the source documents, tested on the measurements.
    #[serde(default)]
    pub claims: Vec<Spanned<Claim>>,
}

impl Plan {
    /// Returns true for a plan of this project, without a source document.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let source = self.source.trim();
        source.is_empty() || source.eq_ignore_ascii_case(OURS)
    }

    /// Returns a note on the series whose senders are configured with their fair share; `None` without such series.
    #[must_use]
    pub fn oracle_note(&self) -> Option<String> {
        let told = self.series.iter().map(Spanned::get_ref).filter(|series| series.transport.is_told_its_share());
        let labels: Vec<_> = told.map(|series| format!("\"{}\"", series.label)).collect();
        let (last, others) = labels.split_last()?;
        let (all, are) =
            if others.is_empty() { (last.clone(), "is") } else { (format!("{} and {last}", others.join(", ")), "are") };
        Some(format!(
            "{all} {are} told the max-min share of each flow, which no sender can know: an oracle, and no result of a sender by itself."
        ))
    }
}

fn one_flow() -> Vec<Spanned<Flows>> {
    vec![Spanned::new(0..0, Flows::default())]
}

/// A table `[[series]]` of a plan: one curve of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Label in the legend.
    pub label: String,
    /// Transport of the series's flows.
    #[serde(deserialize_with = "transport::named")]
    pub transport: Carrier,
    /// Parameters with a different value for this series, by name.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Points at which the series is run: a value, list or range for each swept parameter. Default: all points.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Number of runs per point in the full form. Default: the value of `[run]`.
    pub seeds: Option<u32>,
}

/// A table `[[sweep]]` of a plan: a varied parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Name of the parameter.
    pub parameter: String,
    /// Values of the parameter.
    pub values: Vec<toml::Value>,
    /// Values in the quick form, a subset of `values`.
    pub quick: Option<Vec<toml::Value>>,
    /// Values in the small form, a subset of `values`. Default: those of the quick form.
    pub small: Option<Vec<toml::Value>>,
}

/// A table `[[outages]]` of a plan: an interval during which a bottleneck delivers no packets in either direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Start of the outage, s.
    pub at_s: f64,
    /// Length of the outage, s.
    pub lasts_s: f64,
    /// Number of the bottleneck, from 1. Default 1.
    #[serde(default = "first")]
    pub bottleneck: usize,
}

/// A table `[[time]]` of a plan: a scheduled change of a bottleneck, in the forward direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time of the change, s.
    pub at_s: f64,
    /// Number of the bottleneck, from 1. Default 1.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// New rate, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// New one-way delay, ms.
    pub delay_ms: Option<f64>,
    /// New probability of independent loss.
    pub loss: Option<f64>,
}

/// A table `[[walks]]` of a plan: a random walk of a bottleneck's rate, different for each seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Number of the bottleneck, from 1. Default 1.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Time between steps, ms.
    pub every_ms: f64,
    /// Lower bound of the rate, as a share of the nominal rate.
    pub lowest: f64,
    /// Upper bound of the rate, as a share of the nominal rate.
    pub highest: f64,
    /// Greatest change per step, as a share of the nominal rate. Steps are uniformly distributed between −`step` and
    /// `step`.
    pub step: f64,
}

fn first() -> usize {
    1
}
