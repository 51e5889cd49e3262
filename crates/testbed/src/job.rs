//! Messages to and from a run's process: a line of JSON each.

use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// Task of a run's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Network, its changes, and the flows.
    pub(crate) scenario: Scenario,
    /// Seed of the links' random events, and of DFCP's and quinn's random draws.
    pub(crate) seed: u64,
}

/// Answer of a run's process: measurements, or the reason of a failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Measurements of the run.
    Measured(Box<Measured>),
    /// Reason of the failure.
    Failed(String),
}
