//! Duration and number of a plan's runs, and the required agreement between platforms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The table `[run]` of a plan.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// Duration, in simulated seconds.
    #[serde(default = "duration_s")]
    pub duration_s: f64,
    /// Length of the warm-up, s, which is excluded from goodput.
    #[serde(default = "warm_up_s")]
    pub warm_up_s: f64,
    /// Length of the warm-up in longest round-trip times, if that is longer than `warm_up_s`.
    #[serde(default)]
    pub warm_up_rtts: f64,
    /// Number of runs per point, each with another seed.
    #[serde(default = "seeds")]
    pub seeds: u32,
    /// Statistic of a point's runs with which claims are tested.
    #[serde(default)]
    pub judge_by: JudgeBy,
}

/// Statistic of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgeBy {
    /// Mean of the runs.
    #[default]
    Mean,
    /// Median of the runs.
    Median,
}

/// The table `[spread]`: random variation drawn from a run's seed, in addition to losses. It prevents results that
/// depend on one phase of the flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Greatest delay of a flow's start, in multiples of its round-trip time; uniformly distributed.
    #[serde(default)]
    pub start_rtts: f64,
    /// Greatest relative deviation of access links' round-trip times from the plan's; uniformly distributed.
    #[serde(default)]
    pub rtt: f64,
}

// Default of the source documents.
fn duration_s() -> f64 {
    60.0
}

fn warm_up_s() -> f64 {
    15.0
}

fn seeds() -> u32 {
    5
}

/// The tables `[quick]` and `[small]`: shorter forms of the plan, which must show the same results.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shorter {
    /// Duration of a run, s. Default: the value of `[run]`.
    pub duration_s: Option<f64>,
    /// Length of the warm-up, s. Default: the value of `[run]`.
    pub warm_up_s: Option<f64>,
    /// Number of runs per point. Default: the value of `[run]`.
    pub seeds: Option<u32>,
    /// Parameters set in this form, by name.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Only in `[small]`: rate to which the fastest link is scaled, Mbit/s, if it exceeds this rate. Default: 100, if a
    /// link exceeds 200.
    pub fastest_mbps: Option<f64>,
    /// Note about results that the shorter form cannot show.
    #[serde(default)]
    pub note: String,
}

/// Greatest relative difference of two platforms' means with random loss, as a share of the reference.
pub const TOLERANCE_WITH_LOSS: f64 = 0.2;

/// The table `[agreement]`: a stricter tolerance than the default of all plans.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Tolerance with random loss, as a share, at most [`TOLERANCE_WITH_LOSS`], which is the default.
    pub tolerance_with_loss: Option<f64>,
}
