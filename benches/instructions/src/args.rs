//! Command line.

use clap::{Parser, Subcommand};

/// Counts the instructions of the hot kernels and of a datagram's life, and compares them with the recorded counts.
///
/// Counts depend on the build: `benches/instructions/run.sh check` builds as CI does. Exit codes: 0 as recorded, 1 changed,
/// 2 no verdict (no valgrind, or other settings than recorded).
#[derive(Debug, Parser)]
#[command(name = "instructions")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Count all cases and compare them with recorded.json.
    Check {
        /// Print the comparison as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Count all cases twice and write recorded.json.
    Record,
    /// Count a datagram's instructions after its sender has created 0, 1000 and 100 000 items; fail if the count grows.
    Growth,
    /// Print the cases.
    List,
    /// Write a callgrind profile of one case, and print its top functions.
    Profile {
        /// Name of the case, as in `list`.
        case: String,
    },
    /// Run a case under valgrind (used internally).
    #[command(hide = true)]
    Run {
        /// Name of the case.
        case: String,
    },
}
