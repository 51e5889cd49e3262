//! Arguments of `dfcp lab`.

#[cfg(target_os = "linux")]
pub mod kernel;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use dfcp_terminal::units;

/// `dfcp lab`
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Example:
  dfcp lab list
  dfcp lab metrics
  dfcp lab run S1 S3 --quick
  dfcp lab report
  dfcp lab trace S1 --series CUBIC --at loss=0.01

Plans are TOML files; write your own and give their directory with --plans. How: docs/plans.md.")]
pub struct LabArgs {
    /// Command to run.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// Commands of the laboratory.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List the plans
    List(ListArgs),
    /// List the metrics that plans and claims may name
    Metrics(MetricsListArgs),
    /// Run plans on the simulator, a Linux kernel, or this machine in real time; print the measurements, and judge the claims. Existing
    /// records are reused
    Run(RunArgs),
    /// Judge the claims of all plans by the existing records, and write the report
    Report(ReportArgs),
    /// Archive the records of plans, compressed, as a source for reports
    Archive(ArchiveArgs),
    /// List the runs without a record, one line of JSON each, for other machines
    Jobs(JobsArgs),
    /// Make a run listed by `jobs`, and print its record as a line of JSON
    Job(JobArgs),
    /// Add records that other machines have made
    Collect(CollectArgs),
    /// Compare the simulator with another platform: run the small form of plans on both until the mean of every point is precise
    #[cfg(target_os = "linux")]
    Agree(AgreeArgs),
    /// Compare the automatic rate on random paths with DFCP at a given rate, BBR and CUBIC, and count the paths where it falls short
    Paths(PathsArgs),
    /// Show one run in detail: goodput, windows, queues and drops over time, and the packets
    Trace(TraceArgs),
    /// Run a job as the first process of a kernel in virtual time; started by that kernel only
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Guest(GuestArgs),
    /// Build and list Linux kernels for runs in virtual time, and run a program on such a kernel
    #[cfg(target_os = "linux")]
    Kernel(kernel::KernelArgs),
}

/// Directory of the plans, and output format.
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
    /// Directory of the plans, and output format.
    #[command(flatten)]
    pub which: PlansArg,
}

/// `dfcp lab metrics`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab metrics
  dfcp lab metrics queue

In a plan:

  [metrics]
  plot = [\"goodput_mbps\", \"queue_p95_ms\"]")]
pub struct MetricsListArgs {
    /// Only metrics with this word in their name or description
    #[arg(value_name = "WORD")]
    pub word: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Form, platforms and directory of the runs.
#[derive(Debug, Clone, Args)]
pub struct RunsArg {
    /// Use the quick form of every plan: fewer points, shorter, one seed; on the testbed equal to --small
    #[arg(long, conflicts_with = "small")]
    pub quick: bool,
    /// Use the small form: no link above 200 Mbit/s, for every platform; faster plans are scaled down
    #[arg(long)]
    pub small: bool,
    /// Platforms of the runs.
    #[command(flatten)]
    pub platforms: PlatformsArg,
    /// Runs of every point, instead of the plan's number
    #[arg(long, value_name = "N")]
    pub seeds: Option<NonZeroU32>,
    /// Directory of the records
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
}

/// Platform of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Platform {
    /// The simulator.
    Sim,
    /// A Linux kernel in virtual time, with its own TCP and queues; see `dfcp lab kernel`.
    #[cfg(target_os = "linux")]
    Kernel,
    /// This machine in real time: its TCP, and DFCP with the full cost of coding, over emulated links; one run at a time.
    #[cfg(target_os = "linux")]
    Testbed,
}

/// `dfcp lab run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab run S1 --quick
  dfcp lab run all --quick --jobs 4
  dfcp lab run V6 F5a --quick --check
  dfcp lab run S1 --small --platform sim,kernel
  dfcp lab run S3 --small --platform sim,testbed
  dfcp lab run my-link --plans my-plans

A table for each metric has a row for each point and a column for each series: the mean of the runs ± their standard \
deviation. !n marks a result of which one run lost only n packets at random, fewer than 30.

Every run is written down when it ends, so an interrupted sweep goes on where it was; remove the directory to start anew.")]
pub struct RunArgs {
    /// Ids of plans, or `all`
    #[arg(value_name = "ID", required = true, num_args = 1..)]
    pub ids: Vec<String>,
    /// Form, platforms and directory of the runs.
    #[command(flatten)]
    pub runs: RunsArg,
    /// Concurrent runs [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Exit with 1 if a claim has the verdict "differs", for use in checks
    #[arg(long)]
    pub check: bool,
    /// Directory of the plans, and the format of the output.
    #[command(flatten)]
    pub which: PlansArg,
}

/// `dfcp lab report`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dfcp lab report --quick --results lab-results\n  dfcp lab report --recorded lab/recorded"
)]
pub struct ReportArgs {
    /// Form, platforms and directory of the runs.
    #[command(flatten)]
    pub runs: RunsArg,
    /// Directory of archived records to use instead of --results, even if the code that made them has changed
    #[arg(long, value_name = "DIR")]
    pub recorded: Option<PathBuf>,
    /// Directory of the plans, and the format of the output.
    #[command(flatten)]
    pub which: PlansArg,
}

/// `dfcp lab archive`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dfcp lab run S1 && dfcp lab archive S1 --to lab/recorded")]
pub struct ArchiveArgs {
    /// Ids of plans, or `all`
    #[arg(value_name = "ID", required = true, num_args = 1..)]
    pub ids: Vec<String>,
    /// Directory of the archives: one PLAN.jsonl.gz per plan, in which records of other runs are kept
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Form, platforms and directory of the runs.
    #[command(flatten)]
    pub runs: RunsArg,
    /// Directory of the plans.
    #[command(flatten)]
    pub plans: DirectoryArg,
}

/// Directory of plans.
#[derive(Debug, Clone, Args)]
pub struct DirectoryArg {
    /// Directory of plans (*.toml) to use instead of the project's own
    #[arg(long, value_name = "DIR")]
    pub plans: Option<PathBuf>,
}

impl DirectoryArg {
    pub(super) fn which(&self) -> PlansArg {
        PlansArg { plans: self.plans.clone(), json: true }
    }
}

/// `dfcp lab jobs`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab jobs all > jobs.jsonl
  dfcp lab job < jobs.jsonl | dfcp lab collect
  python3 lab/distribute/with_dask.py --workers 4 jobs.jsonl | dfcp lab collect
  sbatch --array=1-$(wc -l < jobs.jsonl) --wrap 'sed -n ${SLURM_ARRAY_TASK_ID}p jobs.jsonl | dfcp lab job > $SLURM_ARRAY_TASK_ID.jsonl'

With the same program and plans, a run gives the same on every machine, except for the time it takes. More: lab/distribute.")]
pub struct JobsArgs {
    /// Ids of plans, or `all`
    #[arg(value_name = "ID", required = true, num_args = 1..)]
    pub ids: Vec<String>,
    /// Also omit runs with a record in this archive directory
    #[arg(long, value_name = "DIR")]
    pub recorded: Option<PathBuf>,
    /// Form, platforms and directory of the runs.
    #[command(flatten)]
    pub runs: RunsArg,
    /// Directory of the plans.
    #[command(flatten)]
    pub plans: DirectoryArg,
}

/// Platforms that make jobs.
#[derive(Debug, Clone, Args)]
pub struct PlatformsArg {
    /// Platform of the runs; several are compared: --platform sim,kernel
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME", default_value = "sim")]
    pub platform: Vec<Platform>,
    /// Kernel: a built release such as 6.12, or the path of one; several are compared [default: the newest]
    #[arg(long, value_name = "RELEASE|PATH")]
    pub kernel: Vec<String>,
}

impl PlatformsArg {
    /// True if some platforms run in real time.
    #[must_use]
    pub fn is_in_real_time(&self) -> bool {
        self.platform.iter().any(|platform| match platform {
            #[cfg(target_os = "linux")]
            Platform::Testbed => true,
            _ => false,
        })
    }
}

/// `dfcp lab job`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab jobs D3 --quick | head -n 1 | dfcp lab job > record.jsonl
  dfcp lab job D3.quick.1.0123456789abcdef0123456789abcdef")]
pub struct JobArgs {
    /// Id of a job; without it, jobs are read from standard input, one per line
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Platform of the run.
    #[command(flatten)]
    pub platforms: PlatformsArg,
    /// Directory of the plans.
    #[command(flatten)]
    pub plans: DirectoryArg,
}

/// `dfcp lab collect`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab collect *.jsonl
  dfcp lab collect --results lab-results < records.jsonl

Taken is what this program would have written with the same plans: a record of other settings is refused. Records which are there \
already are passed over.")]
pub struct CollectArgs {
    /// Files of records, one per line [default: standard input]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Platforms that may have made the records.
    #[command(flatten)]
    pub platforms: PlatformsArg,
    /// Directory of the records
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
    /// Directory of the plans.
    #[command(flatten)]
    pub plans: DirectoryArg,
}

/// Platform to compare the simulator with.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reference {
    /// A Linux kernel in virtual time.
    Kernel,
    /// This machine in real time.
    Testbed,
}

#[cfg(target_os = "linux")]
impl From<Reference> for Platform {
    fn from(reference: Reference) -> Self {
        match reference {
            Reference::Kernel => Self::Kernel,
            Reference::Testbed => Self::Testbed,
        }
    }
}

/// Controller of an automatic rate, as a series of random paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RateSeries {
    /// The product's controller.
    #[default]
    Auto,
    /// The controller that is judged by delivery, in trial.
    Delivery,
}

impl RateSeries {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Auto => "Auto",
            Self::Delivery => "Delivery",
        }
    }
}

/// `dfcp lab paths`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab paths
  dfcp lab paths --seed 7 --count 1000 --short --judges judges
  dfcp lab trace R1-7-42 --series Auto

Each path has a rate of 56 kbit/s to 1 Gbit/s, a round-trip time of 2 to 800 ms and a buffer; some have losses, jitter, batches, \
a policer, RED, CoDel or a narrow way back. A shortfall counts if chance does not explain it (four standard errors).")]
pub struct PathsArgs {
    /// Seed of all paths
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of paths
    #[arg(long, value_name = "N", default_value = "400")]
    pub count: NonZeroU32,
    /// Number of the first path
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first: u64,
    /// Short runs of about 1 Gbit, to compare versions of the controller
    #[arg(long)]
    pub short: bool,
    /// Directory with the records of the judges (told, BBR, CUBIC), reused even if the code has changed; completed if
    /// runs are missing
    #[arg(long, value_name = "DIR")]
    pub judges: Option<PathBuf>,
    /// Series whose worst paths are listed, and which --check judges
    #[arg(long, value_enum, value_name = "NAME", default_value = "auto")]
    pub series: RateSeries,
    /// Paths listed, the worst first
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub worst: usize,
    /// Only write the paths as plans to this directory
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Directory of the records
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
    /// Concurrent runs [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Exit with 1 if the automatic rate falls short on too many paths
    #[arg(long)]
    pub check: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// `dfcp lab agree`
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab agree S1 V7
  dfcp lab agree all --jobs 2 --check
  dfcp lab agree V1 V2 --platform testbed --runs 3

Of every point the mean aggregate goodput is compared. Runs are added, up to 40, until the standard error of both means is at \
most a quarter of what they may be apart: 5 % where nothing is lost at random, 20 % where something is, or less if the plan \
says so. How much a run varies is judged by the runs of both. Points which vary too much are listed and not counted, and so are those \
of which a run on the testbed was LATE.")]
pub struct AgreeArgs {
    /// Ids of plans, or `all`
    #[arg(value_name = "ID", required = true, num_args = 1..)]
    pub ids: Vec<String>,
    /// Platform to compare the simulator with
    #[arg(long, value_enum, value_name = "NAME", default_value = "kernel")]
    pub platform: Reference,
    /// Kernel: a built release such as 6.12, or the path of one [default: the newest]
    #[arg(long, value_name = "RELEASE|PATH")]
    pub kernel: Option<String>,
    /// Limit on runs per point on a slow platform [default: 40]
    #[arg(long, value_name = "N")]
    pub runs: Option<NonZeroU32>,
    /// Directory of the records
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
    /// Concurrent runs [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Exit with 1 if fewer than 95 % of the points without random loss agree, or fewer than 90 % of the points with random loss
    #[arg(long)]
    pub check: bool,
    /// Directory of the plans, and the format of the output.
    #[command(flatten)]
    pub which: PlansArg,
}

/// Parses a swept parameter and its value, such as `loss=0.01`.
pub(super) fn level(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write a swept parameter and its value, like loss=0.01".to_owned()),
    }
}

/// `dfcp lab trace`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab trace S1 --series CUBIC --at loss=0.01 --quick
  dfcp lab trace S1 --series \"DFCP modern\" --at loss=0.1 --duration 5s --pcap --output lossy
  tshark -r lossy/packets.pcapng -q -z io,phs
  dfcp lab trace S1 --series CUBIC --at loss=0.01 --small --platform kernel

In the directory are then flows.csv (a line for each bin and flow), queues.csv (for each bin and bottleneck, in data's \
direction) and packets.pcapng, if asked for: what the senders send and get, an interface for each. A capture ends at \
200 MB. What the columns mean: docs/plans.md.")]
pub struct TraceArgs {
    /// Id of a plan
    #[arg(value_name = "ID")]
    pub id: String,
    /// Label of a series; optional if the plan has only one
    #[arg(long, value_name = "LABEL")]
    pub series: Option<String>,
    /// Value of a swept parameter; once for each parameter with several values
    #[arg(long, value_name = "NAME=VALUE", value_parser = level)]
    pub at: Vec<(String, String)>,
    /// Number of the run at that point, from 1
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed_number: NonZeroU32,
    /// Use the quick form of the plan: fewer points, shorter
    #[arg(long, conflicts_with = "small")]
    pub quick: bool,
    /// Use the small form: no link above 200 Mbit/s, for every platform
    #[arg(long)]
    pub small: bool,
    /// Platform of the run
    #[arg(long, value_enum, value_name = "NAME", default_value = "sim")]
    pub platform: Platform,
    /// Kernel: a built release such as 6.12, or the path of one [default: the newest]
    #[arg(long, value_name = "RELEASE|PATH")]
    pub kernel: Option<String>,
    /// Width of a time bin
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::duration)]
    pub bin: Duration,
    /// Simulated time, instead of the plan's
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Output directory
    #[arg(long, value_name = "DIR", default_value = "lab-trace")]
    pub output: PathBuf,
    /// Also write the packets, up to 200 MB; only on the simulator
    #[arg(long)]
    pub pcap: bool,
    /// Directory of the plans, and the format of the output.
    #[command(flatten)]
    pub which: PlansArg,
}

/// `dfcp lab guest`
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub struct GuestArgs {
    /// Directory of the host with the job
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_says_the_limit_of_a_capture() {
        let help = TraceArgs::augment_args(clap::Command::new("trace")).render_help().to_string();
        let limit = format!("{} MB", dfcp_lab::trace::CAPTURE_BYTES_MAX / 1_000_000);
        assert!(help.matches(&limit).count() >= 2, "{help}");
    }

    #[test]
    fn the_help_explains_the_table() {
        let help = RunArgs::augment_args(clap::Command::new("run")).render_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let few = format!("fewer than {}.", dfcp_lab::FEW_LOSSES);
        assert!(help.contains("the mean of the runs ± their standard deviation") && help.contains(&few), "{help}");
    }

    #[test]
    fn a_level_has_a_name_and_a_value() {
        assert_eq!(level("loss=0.01"), Ok(("loss".to_owned(), "0.01".to_owned())));
        for wrong in ["", "loss", "loss=", "=1"] {
            assert!(level(wrong).is_err(), "{wrong}");
        }
    }
}
