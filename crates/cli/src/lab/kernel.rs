//! `dfcp lab kernel`: kernels for the laboratory are built and listed.

use std::io::{Write, stderr, stdout};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand};
use dfcp_kernel::build::{Build, BuildInfo, Built, DEFAULT_VERSION, Progress, Step, Tell};
use dfcp_kernel::{Cache, Commands, Kernel};
use dfcp_lab::trace::{Wanted, choose};
use dfcp_lab::{Choice, Form, expand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::args::PlansArg;
use super::{StopOnDrop, has_id, platforms, sources, unknown};
use crate::output;

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
    /// The command to run.
    #[command(subcommand)]
    pub command: KernelCommand,
}

/// Commands for kernels.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// Build a Linux kernel which runs as a program, in virtual time
    Build(BuildArgs),
    /// Show the kernels there are; the first is the default
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
    /// Compilers at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
    /// Keep the source beside a kernel that is built now, with all that was compiled (about 0.7 GB)
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
    /// Print JSON instead of text, a line for each kernel
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
    /// Id of the plan whose network is built
    #[arg(long, value_name = "PLAN")]
    pub topology: String,
    /// Label of a series; may be left out if the plan has one alone
    #[arg(long, value_name = "LABEL")]
    pub series: Option<String>,
    /// A swept parameter's value; once for each which has several
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::args::level)]
    pub at: Vec<(String, String)>,
    /// The form of the plan with no link above 200 Mbit/s
    #[arg(long)]
    pub small: bool,
    /// A command line for the other host's shell
    #[arg(long, value_name = "COMMAND LINE")]
    pub peer: Option<String>,
    /// Seed of the losses
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Kernel: a release that was built, such as 6.12, or the path of one [default: the newest]
    #[arg(long, value_name = "RELEASE|PATH")]
    pub kernel: Option<String>,
    /// Directory of plans (*.toml) to use instead of the project's own
    #[arg(long, value_name = "DIR")]
    pub plans: Option<std::path::PathBuf>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// No kernel can be built, or the cache cannot be read.
pub(super) async fn run(args: KernelArgs) -> anyhow::Result<()> {
    match args.command {
        KernelCommand::Build(args) => build(args).await,
        KernelCommand::List(args) => list(&args),
        KernelCommand::Exec(args) => execute(args).await,
    }
}

async fn execute(args: ExecArgs) -> anyhow::Result<()> {
    let all = sources(&PlansArg { plans: args.plans, json: false })?;
    let source = all.iter().find(|source| has_id(source, &args.topology));
    let source = source.ok_or_else(|| anyhow!(unknown(&all, &args.topology)))?;
    let form = if args.small { Form::Small } else { Form::Full };
    let runs = expand(source, Choice { form, seeds: Some(1) })?;
    let scenario = choose(&runs, &Wanted { series: args.series, at: args.at })?.scenario.clone();
    let platform = platforms::kernel(args.kernel.as_deref())?;
    let directory = std::env::current_dir().context("the present directory cannot be found; go to another one")?;
    let commands = Commands { command: args.command, peer: args.peer, directory };
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop.0);
    let work = tokio::task::spawn_blocking(move || {
        let outputs: [&mut (dyn Write + Send); 3] = [&mut stdout(), &mut stderr(), &mut stderr()];
        platform.execute(&scenario, args.seed, commands, outputs, &flag)
    });
    let status = work.await.context("the guest's host ended in a panic")?.map_err(|why| anyhow!(why))?;
    if status != 0 {
        // The command has said what was wrong; a script wants to know its own status.
        std::process::exit(status);
    }
    Ok(())
}

async fn build(args: BuildArgs) -> anyhow::Result<()> {
    let cache = Cache::of_user()?;
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop.0);
    let work = tokio::task::spawn_blocking(move || {
        let steps = Steps::new(args.json);
        let tell: Tell = Arc::new(move |progress| steps.show(progress));
        Build { version: &args.source_version, jobs, keeps_source: args.keep, cache: &cache }.run(&flag, &tell)
    });
    let built = work.await.context("the build ended in a panic")??;
    if args.json {
        output::json(&build_json(&built));
        return Ok(());
    }
    let Built { kernel, info, is_new, source } = &built;
    let how = if *is_new {
        format!("was built in {}", output::human_seconds(info.seconds))
    } else {
        "is there already, built from the same source and options".to_owned()
    };
    output::note(&format!("Linux {} ({}) {how}", kernel.release(), kernel.id()));
    if let Some(source) = source {
        output::note(&format!("its source is in {}", source.display()));
    }
    output::line(&kernel.path().display().to_string());
    Ok(())
}

fn build_json(built: &Built) -> Value {
    let mut value = kernel_json(&built.kernel, Some(&built.info));
    value["is_new"] = json!(built.is_new);
    value["source"] = json!(built.source);
    value
}

fn kernel_json(kernel: &Kernel, info: Option<&BuildInfo>) -> Value {
    json!({ "id": kernel.id(), "release": kernel.release(), "path": kernel.path(), "build": info })
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let cache = Cache::of_user()?;
    let entries = cache.entries()?;
    let mut is_first = true;
    for cached in &entries {
        let kernel = match &cached.kernel {
            Ok(kernel) => kernel,
            Err(error) => {
                output::always(&format!("not usable: {error}"));
                continue;
            }
        };
        if args.json {
            let mut value = kernel_json(kernel, cached.info.as_ref());
            value["is_default"] = json!(is_first);
            output::json(&value);
        } else {
            let default = if is_first { "  (default)" } else { "" };
            output::line(&format!("{}  {}{default}", kernel.id(), kernel.path().display()));
            output::line(&format!("    {}", origin(cached.info.as_ref())));
        }
        is_first = false;
    }
    if is_first && !args.json {
        output::always(&format!("no kernel is in {}; run: dfcp lab kernel build", cache.path().display()));
    }
    Ok(())
}

/// Origin of a kernel, in words.
fn origin(info: Option<&BuildInfo>) -> String {
    match info {
        Some(info) => format!(
            "from {} {} by {} in {}",
            info.package,
            info.package_version,
            info.compiler,
            output::human_seconds(info.seconds)
        ),
        None => "of unknown origin: its build.json is missing or damaged".to_owned(),
    }
}

/// Shows the steps of a build: on a terminal the one at hand, with its time; a line for each that has ended.
struct Steps {
    bar: ProgressBar,
    is_hidden: bool,
}

impl Steps {
    fn new(is_hidden: bool) -> Self {
        let bar = output::bar(None, is_hidden);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, is_hidden }
    }

    fn show(&self, progress: Progress) {
        match progress {
            Progress::Began(step) => {
                self.bar.reset_elapsed();
                self.bar.set_message(name(step));
            }
            Progress::Compiled(files) => self.bar.set_message(format!("{}: {files} files", name(Step::Compile))),
            Progress::Ended(step, took) if !self.is_hidden => {
                let line = format!("{}: {}", name(step), output::human_seconds(took.as_secs_f64()));
                self.bar.suspend(|| output::note(&line));
            }
            Progress::Ended(..) => {}
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Wait => "waiting for another build of this kernel",
        Step::Tools => "tools",
        Step::Source => "source",
        Step::Configure => "configuration",
        Step::Compile => "compilation",
        Step::Check => "check",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_defaults() {
        let command = KernelArgs::augment_args(clap::Command::new("kernel"));
        let matches = command.clone().try_get_matches_from(["kernel", "build"]).unwrap();
        let (_, build) = matches.subcommand().unwrap();
        assert_eq!(build.get_one::<String>("source_version").unwrap(), "6.12");
        assert!(!build.get_flag("keep") && !build.get_flag("json"));
        assert!(command.clone().try_get_matches_from(["kernel", "build", "6.1", "--jobs", "0"]).is_err());
        assert!(command.try_get_matches_from(["kernel"]).is_err());
    }

    #[test]
    fn a_kernels_origin_is_told_or_that_it_is_unknown() {
        assert!(origin(None).contains("build.json is missing or damaged"));
        let info = BuildInfo {
            release: "6.12.1".to_owned(),
            package: "linux-source-6.12".to_owned(),
            package_version: "6.12.1-1".to_owned(),
            hash: "0123".to_owned(),
            options: Vec::new(),
            compiler: "gcc 12".to_owned(),
            seconds: 245.0,
        };
        assert_eq!(origin(Some(&info)), "from linux-source-6.12 6.12.1-1 by gcc 12 in 4 min 05 s");
    }
}
