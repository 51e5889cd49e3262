//! The job of a guest and its answer: files in a directory that guest and host share.

use std::path::PathBuf;

use dfcp_lab::metrics::Measured;
use dfcp_lab::scenario::Scenario;
use dfcp_lab::trace::{FlowSummary, LinkSummary};
use serde::{Deserialize, Serialize};

/// The file with the [`Job`], JSON.
pub(crate) const JOB_FILE: &str = "job.json";

/// The file with the [`Answer`], JSON. It is written under another name first: a guest which was stopped leaves none.
pub(crate) const ANSWER_FILE: &str = "answer.json";

/// The files with what the commands of a [`Task::Execute`] write: that at the sender's host, standard output and standard error;
/// and both of that at the receiver's.
pub(crate) const OUTPUT_FILES: [&str; 3] = ["stdout", "stderr", "peer"];

/// A guest's job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The network, what changes in it, and the flows.
    pub(crate) scenario: Scenario,
    /// Seed of netem's losses, and of the draws of DFCP and quinn.
    pub(crate) seed: u64,
    /// The use of the network.
    pub(crate) task: Task,
}

/// The use of a network.
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
    /// Program and arguments at the sender's host. The machine ends with it.
    pub command: Vec<String>,
    /// Command for a shell at the receiver's host.
    pub peer: Option<String>,
    /// Working directory of both, one of the host's; they may write there.
    pub directory: PathBuf,
}

/// Result of a traced run, beside its tables.
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
    /// The flows were run.
    Measured(Box<Measured>),
    /// The flows were run and traced.
    Traced(Traced),
    /// The command ended with this status, or 128 and the signal which ended it.
    Executed(i32),
    /// The job failed, for this reason.
    Failed(String),
}
