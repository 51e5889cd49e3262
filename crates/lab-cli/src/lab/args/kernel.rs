//! Arguments of `dfcp lab kernel`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use dfcp_kernel::build::DEFAULT_VERSION;

use super::level;

/// `dfcp lab kernel`
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  dfcp lab kernel build
  dfcp lab kernel build 6.1 --jobs 4
  dfcp lab kernel list
  dfcp lab kernel exec --topology S1 --at loss=0.01 --peer 'iperf3 -s -1' -- sh -c 'sleep 1; iperf3 -c $DFCP_PEER'")]
pub struct KernelArgs {
    /// Command to run.
    #[command(subcommand)]
    pub command: KernelCommand,
}

/// Commands for kernels.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// Build a Linux kernel that runs as a program, in virtual time
    Build(BuildArgs),
    /// List the kernels; the first one is the default
    List(ListArgs),
    /// Run any program between two hosts of a plan, in virtual time
    Exec(ExecArgs),
}

/// `dfcp lab kernel build`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab kernel build
  dfcp lab kernel build 6.1 --jobs 4

The source comes from Debian's package linux-source-VERSION, and tools which are missing (flex, bison, bc, ..) from Debian's \
packages, too: downloaded, and neither installed nor kept. gcc, make and libc6-dev must be installed. It takes minutes, and \
2 GB of disk meanwhile; the kernel has 7 MB. Root is not needed.

Kernels are kept in dfcp/kernel in the user's cache directory ($XDG_CACHE_HOME or ~/.cache). To build one anew, remove its \
directory there.")]
pub struct BuildArgs {
    /// Version of Debian's source package
    #[arg(value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub source_version: String,
    /// Concurrent compilers [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Keep the source and build files beside a newly built kernel (about 0.7 GB)
    #[arg(long)]
    pub keep: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// `dfcp lab kernel list`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  dfcp lab kernel list --json")]
pub struct ListArgs {
    /// Print JSON instead of text, one line per kernel
    #[arg(long)]
    pub json: bool,
}

/// `dfcp lab kernel exec`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dfcp lab kernel exec --topology S1 --at loss=0.01 --small -- ping -c 3 '$DFCP_PEER'
  dfcp lab kernel exec --topology my-link --plans my-plans --peer 'iperf3 -s -1' -- sh -c 'sleep 1; iperf3 -c $DFCP_PEER'

The command runs at the host of the plan's first sender, what --peer says at that of its receiver; in both DFCP_HERE is the \
address of its own host and DFCP_PEER that of the other ($DFCP_PEER in an argument of the command is replaced, too). The plan's \
own flows do not run; its changes over time happen. It ends with the command, and with its status.

Programs see this machine's files, and may write in the present directory, /tmp and /run (the last two are empty at the start, and \
lost). Time passes only when every program waits: one which looks again and again whether something has happened never ends.")]
pub struct ExecArgs {
    /// Id of the plan whose network is used
    #[arg(long, value_name = "PLAN")]
    pub topology: String,
    /// Label of a series; optional if the plan has only one
    #[arg(long, value_name = "LABEL")]
    pub series: Option<String>,
    /// Value of a swept parameter; once for each parameter with several values
    #[arg(long, value_name = "NAME=VALUE", value_parser = level)]
    pub at: Vec<(String, String)>,
    /// Use the form of the plan with no link above 200 Mbit/s
    #[arg(long)]
    pub small: bool,
    /// Shell command to run on the other host
    #[arg(long, value_name = "COMMAND LINE")]
    pub peer: Option<String>,
    /// Seed of the losses
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Kernel: a built release such as 6.12, or the path of one [default: the newest]
    #[arg(long, value_name = "RELEASE|PATH")]
    pub kernel: Option<String>,
    /// Directory of plans (*.toml) to use instead of the project's own
    #[arg(long, value_name = "DIR")]
    pub plans: Option<PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
