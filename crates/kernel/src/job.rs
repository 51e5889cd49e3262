//! Job of a guest and its answer: files in a directory shared by guest and host.

use std::path::PathBuf;

use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::Scenario;
use dfcp_lab::trace::{FlowSummary, LinkSummary};
use serde::{Deserialize, Serialize};

/// File with the [`Job`] as JSON.
pub(crate) const JOB_FILE: &str = "job.json";

/// File with the [`Answer`] as JSON. It is written under another name and renamed, so a stopped guest leaves none.
pub(crate) const ANSWER_FILE: &str = "answer.json";

/// Files with the output of a [`Task::Execute`]: standard output and standard error at the sender's host, and both at the receiver's.
pub(crate) const OUTPUT_FILES: [&str; 3] = ["stdout", "stderr", "peer"];

/// A guest's job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Network with its changes, and flows.
    pub(crate) scenario: Scenario,
    /// Seed of netem's losses, and of the random numbers of DFCP and quinn.
    pub(crate) seed: u64,
    /// Task to do in the network.
    pub(crate) task: Task,
}

/// Task to do in a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Run the flows and measure them.
    Measure,
    /// Run the flows, and write the tables of a trace beside the answer.
    Trace {
        /// Width of the bins, ns.
        bin_ns: u64,
        /// End of the run, ns.
        end_ns: u64,
    },
    /// Run commands at the hosts of the first flow, instead of the flows.
    Execute(Commands),
}

/// Commands between two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// Program and arguments at the sender's host. The machine powers off when it ends.
    pub command: Vec<String>,
    /// Shell command at the receiver's host.
    pub peer: Option<String>,
    /// Working directory of both commands on the host, writable.
    pub directory: PathBuf,
}

/// Result of a traced run, without its tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traced {
    pub(crate) ended_ns: u64,
    pub(crate) flows: Vec<FlowSummary>,
    pub(crate) links: Vec<LinkSummary>,
}

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Measurements of the flows.
    Measured(Box<Measured>),
    /// Measurements of the flows, with a trace.
    Traced(Traced),
    /// Exit status of the command, or 128 plus the signal that ended it.
    Executed(i32),
    /// Reason for which the job failed.
    Failed(String),
}
