//! A plan, and the tables of its file which have no room of their own.

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

/// `source` of a plan which no document has.
const OURS: &str = "ours";

/// A plan: one figure, table or question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name on the command line, and of its records.
    pub id: String,
    /// Title, in a line.
    pub title: String,
    /// Documents and figures; `ours` if no document has it.
    pub source: String,
    /// Question that the plan answers.
    pub question: String,
    /// Statement of the document, in a sentence or two; in a plan of ours, a reader's background.
    #[serde(default)]
    pub says: String,
    /// Facts for the reader: details that the documents do not state, choices, known traps.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Length and repetitions.
    pub run: RunTable,
    /// Changes by `--quick`.
    #[serde(default)]
    pub quick: Shorter,
    /// Changes by `--small` beyond that.
    #[serde(default)]
    pub small: Shorter,
    /// Values that the seed of a run draws beside losses.
    #[serde(default)]
    pub spread: Spread,
    /// Required agreement of platforms.
    #[serde(default)]
    pub agreement: Agreement,
    /// The network.
    pub topology: Spanned<Topology>,
    /// The flows over it, the same for every series; one flow unless said.
    #[serde(default = "one_flow")]
    pub flows: Vec<Spanned<Flows>>,
    /// Series compared.
    pub series: Vec<Spanned<Series>>,
    /// Parameters varied; the first is the x axis.
    #[serde(default)]
    pub sweep: Vec<Spanned<Axis>>,
    /// Changes while a run lasts.
    #[serde(default)]
    pub time: Vec<Spanned<Change>>,
    /// Rates which walk at random while a run lasts.
    #[serde(default)]
    pub walks: Vec<Spanned<Walk>>,
    /// Rates which were recorded.
    #[serde(default)]
    pub rates: Vec<Spanned<Rates>>,
    /// Times in which a bottleneck carries nothing.
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
    /// True if no document has it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let source = self.source.trim();
        source.is_empty() || source.eq_ignore_ascii_case(OURS)
    }

    /// Remark of every figure with a sender that is told its share.
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

/// `[[series]]`: one line of the figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// Transport of its flows.
    #[serde(deserialize_with = "transport::named")]
    pub transport: Carrier,
    /// Parameters by name which are different for it.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Points of the series: for each swept parameter a value, a list, or a range. Absent: everywhere.
    #[serde(default)]
    pub at: BTreeMap<String, Where>,
    /// Runs of each of its points in the full form, where that is another number than `[run]` has.
    pub seeds: Option<u32>,
}

/// `[[sweep]]`: what is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// A parameter's name.
    pub parameter: String,
    /// Its values.
    pub values: Vec<toml::Value>,
    /// Its values in a quick run, each of which is in `values`.
    pub quick: Option<Vec<toml::Value>>,
    /// Its values in a small run, each of which is in `values`; unless given, those of a quick one.
    pub small: Option<Vec<toml::Value>>,
}

/// `[[outages]]`: a time in which a bottleneck carries nothing, either way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// Its beginning.
    pub at_s: f64,
    /// Its length.
    pub lasts_s: f64,
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
}

/// `[[time]]`: a change of a bottleneck, in data's direction.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Time of the change, s.
    pub at_s: f64,
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Rate from then on, Mbit/s.
    pub rate_mbps: Option<f64>,
    /// One-way delay from then on, ms.
    pub delay_ms: Option<f64>,
    /// Independent loss from then on.
    pub loss: Option<f64>,
}

/// `[[walks]]`: the rate of a bottleneck walks at random between two shares of what it is, by another way for every seed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Number of the bottleneck, from 1, the default.
    #[serde(default = "first")]
    pub bottleneck: usize,
    /// Time between two steps, ms.
    pub every_ms: f64,
    /// The least share.
    pub lowest: f64,
    /// The greatest share.
    pub highest: f64,
    /// The longest step, as a share; steps are evenly distributed up to it, both ways.
    pub step: f64,
}

fn first() -> usize {
    1
}
