//! The command line.

use clap::{Parser, Subcommand};

/// Counts the instructions of the hot kernels and of a datagram's life, and compares them with those recorded.
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
    /// Count a datagram's instructions where its sender has filled nothing before, 1000 and 100 000 things; fail where they grow.
    Growth,
    /// Print the cases.
    List,
    /// Leave a callgrind profile of one case, and print its top functions.
    Profile {
        /// The case, as `list` names it.
        case: String,
    },
    /// The command that the program runs under valgrind.
    #[command(hide = true)]
    Run {
        /// The case.
        case: String,
    },
}
