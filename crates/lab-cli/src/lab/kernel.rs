//! Command `dfcp lab kernel`: builds and lists kernels, and runs programs on them.

use std::io::{Write, stderr, stdout};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow};
use dfcp_kernel::build::{Build, BuildInfo, Built, Progress, Step, Tell};
use dfcp_kernel::{Cache, Commands, Kernel};
use dfcp_lab::trace::{Wanted, choose};
use dfcp_lab::{Choice, Form, expand};
use dfcp_terminal::output;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::args::PlansArg;
use super::args::kernel::{BuildArgs, ExecArgs, KernelArgs, KernelCommand, ListArgs};
use super::{StopOnDrop, has_id, platforms, sources, unknown};

/// Runs a subcommand.
///
/// # Errors
/// Fails if the build fails, the cache of kernels cannot be read, or a program cannot be run.
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
        // The program has printed its own errors, so only its exit status is passed on.
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

/// Words the origin of a kernel: source package, compiler and build time.
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

/// Display of a build's progress: the current step with its time on a terminal, and a line per finished step.
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
        let command = <KernelArgs as clap::Args>::augment_args(clap::Command::new("kernel"));
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
