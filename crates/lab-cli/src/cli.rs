//! Command line of the program `dfcp-lab`.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};
use dfcp_terminal::{man, output};

use crate::demo::{self, DemoArgs};
use crate::lab;
#[cfg(target_os = "linux")]
use crate::lab::TESTBED_RUN;
use crate::lab::args::LabArgs;

/// Commands of `dfcp` that this program implements; `dfcp` starts it with its own arguments.
#[derive(Debug, Parser)]
#[command(name = "dfcp", bin_name = "dfcp", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// Print nothing but errors, warnings, codes and results
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a real file over emulated lossy paths, by DFCP and by QUIC
    Demo(DemoArgs),
    /// Reproduce the experiments on the simulator, or run your own
    Lab(LabArgs),
    /// Write the man pages of these commands; called by `dfcp generate man`
    #[command(hide = true)]
    Man {
        /// Directory for the man pages; created if missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// One testbed run; `lab run --platform testbed` starts a process with this for each run.
    #[cfg(target_os = "linux")]
    #[command(name = TESTBED_RUN, hide = true)]
    TestbedRun,
}

impl Command {
    /// Runs the command to its end.
    ///
    /// # Errors
    /// Fails unless the command did and verified everything requested.
    pub async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Demo(args) => demo::run(args).await,
            Self::Lab(args) => lab::run(args).await,
            Self::Man { directory } => {
                // The page of `dfcp` itself is written by the program `dfcp`.
                let count = man::write_below(Cli::command(), &directory)?;
                output::note(&format!("{count} pages in {}", directory.display()));
                Ok(())
            }
            #[cfg(target_os = "linux")]
            Self::TestbedRun => Ok(()), // has been run before there were threads
        }
    }
}
