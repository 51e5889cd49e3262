//! Duration and number of a plan's runs, and the required agreement of platforms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The table `[run]` of a plan.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// Duration, in simulated seconds.
    #[serde(default = "duration_s")]
    pub duration_s: f64,
    /// Warm-up, s: excluded from goodput.
    #[serde(default = "warm_up_s")]
    pub warm_up_s: f64,
    /// Warm-up in round trips of the slowest flow, if that is longer.
    #[serde(default)]
    pub warm_up_rtts: f64,
    /// Number of runs of every point.
    #[serde(default = "seeds")]
    pub seeds: u32,
    /// Statistic of a point's runs that claims are compared with.
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

/// The table `[spread]`: values drawn from the seed of a run in addition to losses, so that a result does not depend on one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Greatest delay of a flow's start, in its round trips, uniformly distributed.
    #[serde(default)]
    pub start_rtts: f64,
    /// Greatest relative deviation of the access links' round-trip times from the plan's, uniformly distributed.
    #[serde(default)]
    pub rtt: f64,
}

// The documents use these settings throughout.
fn duration_s() -> f64 {
    60.0
}

fn warm_up_s() -> f64 {
    15.0
}

fn seeds() -> u32 {
    5
}

/// The tables `[quick]` and `[small]`: shorter forms of the plan that must show the same results.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shorter {
    /// Duration instead of the run's, s.
    pub duration_s: Option<f64>,
    /// Warm-up instead of the run's, s.
    pub warm_up_s: Option<f64>,
    /// Number of seeds instead of the run's.
    pub seeds: Option<u32>,
    /// Parameters of this form, by name.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Only in `[small]`: rate of the fastest link after scaling, Mbit/s, if the plan has a link above 200 Mbit/s. Default 100.
    pub fastest_mbps: Option<f64>,
    /// Note on what the shorter form does not show.
    #[serde(default)]
    pub note: String,
}

/// Greatest relative difference of two platforms' means with random loss, as a share of the reference.
pub const TOLERANCE_WITH_LOSS: f64 = 0.2;

/// The table `[agreement]`: a stricter tolerance than the one for every plan.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Tolerance instead of [`TOLERANCE_WITH_LOSS`].
    pub tolerance_with_loss: Option<f64>,
}
