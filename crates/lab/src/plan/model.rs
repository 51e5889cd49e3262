//! A plan, and those tables of its file that have no module of their own.

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

/// `source` of a plan that is not from a document.
const OURS: &str = "ours";

/// A plan: one figure, table or question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Id of the plan, on the command line and in records.
    pub id: String,
    /// Title, one line.
    pub title: String,
    /// Documents and figures; `ours` for a plan that is not from a document.
    pub source: String,
    /// Question that the plan answers.
    pub question: String,
    /// Statement of the document, in a sentence or two; for a plan of this project, background for the reader.
    #[serde(default)]
    pub says: String,
    /// Facts for the reader: details that the documents do not state, choices, known traps.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Duration and repetitions.
    pub run: RunTable,
    /// Changes in the quick form (`--quick`).
    #[serde(default)]
    pub quick: Shorter,
    /// Additional changes in the small form (`--small`).
    #[serde(default)]
    pub small: Shorter,
    /// Values drawn from the seed of a run, in addition to losses.
    #[serde(default)]
    pub spread: Spread,
    /// Required agreement of platforms.
    #[serde(default)]
    pub agreement: Agreement,
    /// Network of the plan.
    pub topology: Spanned<Topology>,
    /// Flows over the network, the same for every series. Default: one flow.
    #[serde(default = "one_flow")]
    pub flows: Vec<Spanned<Flows>>,
    /// Compared series.
    pub series: Vec<Spanned<Series>>,
    /// Swept parameters; the first is the x axis.
    #[serde(default)]
    pub sweep: Vec<Spanned<Axis>>,
    /// Changes of bottlenecks during a run.
    #[serde(default)]
    pub time: Vec<Spanned<Change>>,
    /// Rates that follow a random walk during a run.
    #[serde(default)]
    pub walks: Vec<Spanned<Walk>>,
    /// Rates from recorded traces.
    #[serde(default)]
    pub rates: Vec<Spanned<Rates>>,
    /// Times during which a bottleneck delivers nothing.
    #[serde(default)]
    pub outages: Vec<Spanned<Outage>>,
    /// Metrics measured.
    pub metrics: Metrics,
    /// Axes of the plots.
    #[serde(default)]
    pub axes: Axes,
    /// Claims of the documents.
    #[serde(default)]
    pub claims: Vec<Spanned<Claim>>,
}

impl Plan {
    /// True if the plan is not from a document.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let source = self.source.trim();
        source.is_empty() || source.eq_ignore_ascii_case(OURS)
    }

    /// Note for every figure with a sender that is given its fair share.
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
    /// Parameters that differ for this series, by name.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Points of the series: a value, a list or a range for each swept parameter. Default: all points.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Number of runs of each point in the full form, if it differs from that of `[run]`.
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

/// A table `[[outages]]` of a plan: a time during which a bottleneck delivers nothing, in both directions.
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

/// A table `[[time]]` of a plan: a change of a bottleneck, in the direction of data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time of the change, s.
    pub at_s: f64,
    /// Number of the bottleneck, from 1. Default 1.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Rate from then on, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// One-way delay from then on, ms.
    pub delay_ms: Option<f64>,
    /// Probability of independent loss from then on.
    pub loss: Option<f64>,
}

/// A table `[[walks]]` of a plan: a random walk of a bottleneck's rate between two shares of its nominal rate, different for each seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Number of the bottleneck, from 1. Default 1.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Time between steps, ms.
    pub every_ms: f64,
    /// Least share of the nominal rate.
    pub lowest: f64,
    /// Greatest share of the nominal rate.
    pub highest: f64,
    /// Greatest step, as a share of the nominal rate; steps are uniformly distributed up to it, in both directions.
    pub step: f64,
}

fn first() -> usize {
    1
}
