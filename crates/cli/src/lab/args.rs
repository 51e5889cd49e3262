//! `dfcp lab`: the command line.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `dfcp lab`
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Example:
  dfcp lab list
  dfcp lab run S1 S3 --quick
  dfcp lab report

Plans are TOML files; write your own and give their directory with --plans. How: docs/plans.md.")]
pub struct LabArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What to do in the laboratory.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Show the plans there are
    List(ListArgs),
    /// Run plans on the simulator and judge their claims; what has been run already is kept
    Run(RunArgs),
    /// Judge the claims of all plans by the records there are, and write the report
    Report(ReportArgs),
}

/// Which plans.
#[derive(Debug, Clone, Args)]
pub struct PlansArg {
    /// Directory of plans (*.toml) to use instead of the project's own
    #[arg(long, value_name = "DIR")]
    pub plans: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// `dfcp lab list`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dfcp lab list\n  dfcp lab list --plans my-plans")]
pub struct ListArgs {
    /// Which plans.
    #[command(flatten)]
    pub which: PlansArg,
}

/// Which runs.
#[derive(Debug, Clone, Args)]
pub struct RunsArg {
    /// The short form of every plan: fewer points, shorter, one seed
    #[arg(long)]
    pub quick: bool,
    /// Runs of every point, instead of the plan's number
    #[arg(long, value_name = "N")]
    pub seeds: Option<NonZeroU32>,
    /// Directory of the records
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
}

/// What makes the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Platform {
    /// The simulator.
    Sim,
}

/// `dfcp lab run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab run S1 --quick
  dfcp lab run all --quick --jobs 4
  dfcp lab run V6 F5a --quick --check
  dfcp lab run my-link --plans my-plans

Every run is written down when it ends, so an interrupted sweep goes on where it was; remove the directory to start anew.")]
pub struct RunArgs {
    /// Ids of plans, or `all`
    #[arg(value_name = "ID", required = true, num_args = 1..)]
    pub ids: Vec<String>,
    /// Which runs.
    #[command(flatten)]
    pub runs: RunsArg,
    /// What makes the runs
    #[arg(long, value_enum, default_value = "sim")]
    pub platform: Platform,
    /// Runs at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Exit with 1 if a claim differs, as a check of changes does
    #[arg(long)]
    pub check: bool,
    /// Which plans.
    #[command(flatten)]
    pub which: PlansArg,
}

/// `dfcp lab report`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dfcp lab report --quick --results lab-results")]
pub struct ReportArgs {
    /// Which runs.
    #[command(flatten)]
    pub runs: RunsArg,
    /// Which plans.
    #[command(flatten)]
    pub which: PlansArg,
}
