//! Length and number of a plan's runs, and the required agreement of platforms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `[run]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// Simulated seconds.
    #[serde(default = "duration_s")]
    pub duration_s: f64,
    /// Seconds at the start which goodput leaves out.
    #[serde(default = "warm_up_s")]
    pub warm_up_s: f64,
    /// Warm-up in round trips of the slowest flow, where that is longer.
    #[serde(default)]
    pub warm_up_rtts: f64,
    /// Runs of every point.
    #[serde(default = "seeds")]
    pub seeds: u32,
    /// Statistic of a point's runs that claims are judged by.
    #[serde(default)]
    pub judge_by: JudgeBy,
}

/// Statistic of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgeBy {
    /// Their mean.
    #[default]
    Mean,
    /// Their median.
    Median,
}

/// `[spread]`: what the seed of a run draws beside losses, so that a result does not hang on one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Flows start later by up to this many of their round trips, evenly distributed.
    #[serde(default)]
    pub start_rtts: f64,
    /// Round-trip times of access links differ from the plan's by up to this share, evenly distributed.
    #[serde(default)]
    pub rtt: f64,
}

// The documents' common settings.
fn duration_s() -> f64 {
    60.0
}

fn warm_up_s() -> f64 {
    15.0
}

fn seeds() -> u32 {
    5
}

/// `[quick]` and `[small]`: a shorter form, which must show the same.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shorter {
    /// Duration instead of the run's, s.
    pub duration_s: Option<f64>,
    /// Warm-up instead of the run's, s.
    pub warm_up_s: Option<f64>,
    /// Number of seeds instead of the run's.
    pub seeds: Option<u32>,
    /// Parameters by name.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// `[small]` alone: what the fastest link comes down to, instead of 100 Mbit/s where the plan's is above 200.
    pub fastest_mbps: Option<f64>,
    /// Loss of meaning by the shorter form.
    #[serde(default)]
    pub note: String,
}

/// Greatest difference of two platforms' means if packets are lost at random, as a share of the reference.
pub const TOLERANCE_WITH_LOSS: f64 = 0.2;

/// `[agreement]`: a plan can ask for more than every plan must keep to, never for less.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// Instead of [`TOLERANCE_WITH_LOSS`].
    pub tolerance_with_loss: Option<f64>,
}
