//! A run's task and its process's answer: a line of JSON each.

use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// Task of a run's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The network, what changes in it, and the flows.
    pub(crate) scenario: Scenario,
    /// Seed of the links' random events, and of the draws of DFCP and quinn.
    pub(crate) seed: u64,
}

/// Answer of a run's process: measurements, or the reason of a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The flows were run.
    Measured(Box<Measured>),
    /// The job failed, for this reason.
    Failed(String),
}
