//! Messages between the laboratory and a run's process, each a line of JSON.

use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::Scenario;
use serde::{Deserialize, Serialize};

/// Description of a run, sent to its process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Network with its changes, and flows.
    pub(crate) scenario: Scenario,
    /// Seed of the links' random events, and of DFCP's and quinn's random draws.
    pub(crate) seed: u64,
}

/// Result of a run's process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Measurements of the run.
    Measured(Box<Measured>),
    /// Reason of the failure.
    Failed(String),
}
