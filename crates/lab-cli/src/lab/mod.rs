//! Command `dfcp lab`: runs plans on the simulator and other platforms, and judges their claims.

#[cfg(target_os = "linux")]
mod agree;
mod archive;
pub mod args;
#[cfg(target_os = "linux")]
pub mod guest;
mod jobs;
#[cfg(target_os = "linux")]
pub mod kernel;
mod paths;
mod platforms;
mod progress;
mod report;
mod show;
mod table;
mod trace;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use dfcp_framing::printable;
use dfcp_lab::archive::unpack;
use dfcp_lab::plan::{Plan, Source};
use dfcp_lab::reading::{builtin, read_directory};
use dfcp_lab::{
    Choice, Form, Judged, Overview, Platform, Record, Run, Settings, SideBySide, Table, agreement, expand, judge,
    overviews, read, run_all, side_by_side, write_csv,
};
use dfcp_terminal::output;

use self::args::{LabArgs, LabCommand, PlansArg, ReportArgs, RunArgs, RunsArg};
use self::platforms::Platforms;

/// Hidden command with which the program starts itself for a testbed run.
pub const TESTBED_RUN: &str = "testbed-run";

/// Executes the testbed run described on standard input. The process must be single-threaded.
///
/// # Errors
/// Fails if the outcome cannot be printed.
#[cfg(target_os = "linux")]
pub fn testbed_run() -> anyhow::Result<std::process::ExitCode> {
    dfcp_testbed::serve()?;
    Ok(std::process::ExitCode::SUCCESS)
}

/// Runs a subcommand.
///
/// # Errors
/// Fails if a plan is invalid, a file cannot be used, or a run is impossible.
pub async fn run(args: LabArgs) -> anyhow::Result<()> {
    match args.command {
        LabCommand::List(args) => {
            let sources = sources(&args.which)?;
            show::list(&sources, args.which.json);
            Ok(())
        }
        LabCommand::Metrics(args) => show::metrics(args.word.as_deref(), args.json),
        LabCommand::Run(args) => run_plans(args).await,
        LabCommand::Report(args) => write_report(&args),
        LabCommand::Archive(args) => archive::run(&args),
        LabCommand::Jobs(args) => jobs::list(&args),
        LabCommand::Job(args) => jobs::run(args).await,
        LabCommand::Collect(args) => jobs::collect(&args),
        #[cfg(target_os = "linux")]
        LabCommand::Agree(args) => agree::run(args).await,
        LabCommand::Paths(args) => paths::run(args).await,
        LabCommand::Trace(args) => trace::run(args).await,
        #[cfg(target_os = "linux")]
        LabCommand::Guest(args) => guest::run(&args),
        #[cfg(target_os = "linux")]
        LabCommand::Kernel(args) => kernel::run(args).await,
    }
}

fn sources(which: &PlansArg) -> anyhow::Result<Vec<Source>> {
    let Some(directory) = &which.plans else { return Ok(builtin()?) };
    let sources = read_directory(directory)?;
    if sources.is_empty() {
        bail!("there is no plan (*.toml) in {}; give the directory which has some", directory.display());
    }
    Ok(sources)
}

fn has_id(source: &Source, id: &str) -> bool {
    source.plan.id.eq_ignore_ascii_case(id)
}

/// Words the error for an unknown plan `id`, with a list of the known plans.
fn unknown(sources: &[Source], id: &str) -> String {
    let all: Vec<_> = sources.iter().map(|source| source.plan.id.as_str()).collect();
    format!("there is no plan {}; choose from {}", printable(id), all.join(", "))
}

/// Returns the plans with these ids, in the order of `sources`.
fn chosen(sources: Vec<Source>, ids: &[String]) -> anyhow::Result<Vec<Source>> {
    if ids.iter().any(|id| id == "all") {
        return Ok(sources);
    }
    if let Some(id) = ids.iter().find(|id| !sources.iter().any(|source| has_id(source, id))) {
        bail!("{} or say all", unknown(&sources, id));
    }
    Ok(sources.into_iter().filter(|source| ids.iter().any(|id| has_id(source, id))).collect())
}

fn choice(runs: &RunsArg) -> Choice {
    // On a real-time platform, `--quick` selects the small form: links of the quick form can be too fast.
    let form = match (runs.quick, runs.small || runs.quick && runs.platforms.is_in_real_time()) {
        (_, true) => Form::Small,
        (true, false) => Form::Quick,
        (false, false) => Form::Full,
    };
    Choice { form, seeds: runs.seeds.map(std::num::NonZeroU32::get) }
}

/// Expands plans into runs on all `platforms`, and prints which series a platform cannot run.
fn lay_out(sources: &[Source], runs: &RunsArg, platforms: &Platforms) -> anyhow::Result<Vec<SideBySide>> {
    let platforms: Vec<&dyn Platform> = platforms.iter().map(|platform| &**platform).collect();
    let lay_out = |source: &Source| {
        let plan = side_by_side(source, &expand(source, choice(runs))?, &platforms);
        plan.refusals.iter().for_each(|sentence| output::always(&format!("{}: {sentence}", source.plan.id)));
        Ok(plan)
    };
    sources.iter().map(lay_out).collect()
}

/// Guard that stops the worker threads when a command is interrupted.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn run_plans(args: RunArgs) -> anyhow::Result<()> {
    let sources = chosen(sources(&args.which)?, &args.ids)?;
    let platforms = platforms::of(&args.runs.platforms)?;
    let plans = lay_out(&sources, &args.runs, &platforms)?;
    let runs = plans.iter().flat_map(|plan| plan.runs.iter().cloned()).collect();
    let is_json = args.which.json;
    make(runs, platforms, &args.runs, args.jobs, is_json).await?;
    let judged = judge_all(&plans, Kept::Results(&args.runs.results), &args.runs.results)?;
    show::outcome(&judged, is_json, true);
    let differ: Vec<_> = judged.iter().flat_map(|plan| &plan.claims).filter(|claim| claim.verdict.differs()).collect();
    if args.check && !differ.is_empty() {
        let ids: Vec<_> = differ.iter().map(|claim| claim.id.as_str()).collect();
        bail!("{} differ from what their plans claim; see above what was measured", ids.join(", "));
    }
    Ok(())
}

/// Executes the runs without a record, one platform after the other.
async fn make(
    runs: Vec<Run>,
    platforms: Arc<Platforms>,
    which: &RunsArg,
    jobs: Option<NonZeroUsize>,
    is_json: bool,
) -> anyhow::Result<()> {
    let jobs = jobs.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop.0);
    let (results, form) = (which.results.clone(), choice(which).form);
    let work = tokio::task::spawn_blocking(move || {
        for platform in platforms.iter() {
            let runs: Vec<Run> = runs.iter().filter(|run| run.engine == *platform.engine()).cloned().collect();
            let mut bar = progress::Bar::new(is_json);
            let settings = Settings { platform: &**platform, results: &results, form, jobs, stop: &flag };
            run_all(&runs, settings, |progress| bar.show(progress))?;
        }
        Ok::<_, anyhow::Error>(())
    });
    work.await.context("the runs ended in a panic")?
}

/// Place from which records are read.
#[derive(Clone, Copy, Debug)]
enum Kept<'path> {
    /// Directory of results; only records made by the current code are used.
    Results(&'path Path),
    /// Directory of archives; records made by any version of the code are used.
    Archive(&'path Path),
}

impl Kept<'_> {
    /// Reads the records of a plan, keyed by the hash of the run.
    fn of(self, plan: &str, runs: &[Run]) -> anyhow::Result<BTreeMap<String, Record>> {
        Ok(match self {
            Self::Results(directory) => read(directory, plan)?,
            Self::Archive(directory) => unpack(directory, plan, runs)?,
        })
    }
}

/// A plan with its measurements and judged claims.
struct JudgedPlan<'plan> {
    plan: &'plan Plan,
    overviews: Vec<Overview>,
    claims: Vec<Judged>,
}

/// Judges the claims of all plans by their records, and writes a CSV file for each plan with records.
fn judge_all<'plan>(
    plans: &'plan [SideBySide],
    kept: Kept<'_>,
    results: &Path,
) -> anyhow::Result<Vec<JudgedPlan<'plan>>> {
    let mut judged = Vec::new();
    for SideBySide { source, runs, .. } in plans {
        let id = &source.plan.id;
        let records = kept.of(id, runs)?;
        let of_plan = runs.iter().filter_map(|run| records.get(&run.hash));
        if let Some(run) = runs.iter().find(|run| records.contains_key(&run.hash)) {
            write_csv(results, id, of_plan, run.scenario.warm_up_ns as f64 / 1e9)?;
        }
        let table = Table::gather(runs, &records);
        table.late().iter().for_each(|sentence| output::always(&format!("{id}: {sentence}")));
        table.failures().iter().for_each(|sentence| output::always(&format!("{id}: {sentence}")));
        table.idle_seeds().iter().for_each(|sentence| output::always(&format!("{id}: {sentence}")));
        let plan = &source.plan;
        let mut claims = judge(plan, &table);
        claims.extend(agreement::judged(id, runs, &records));
        judged.push(JudgedPlan { plan, overviews: overviews(plan, &table), claims });
    }
    Ok(judged)
}

fn write_report(args: &ReportArgs) -> anyhow::Result<()> {
    let sources = sources(&args.which)?;
    let plans = lay_out(&sources, &args.runs, &*platforms::of(&args.runs.platforms)?)?;
    let results = &args.runs.results;
    let kept = args.recorded.as_deref().map_or(Kept::Results(results), Kept::Archive);
    fs::create_dir_all(results).with_context(|| format!("cannot make {}", results.display()))?;
    let judged = judge_all(&plans, kept, results)?;
    let path = report::write(&plans, kept, results, choice(&args.runs).form)?;
    report::write_tables(&plans, &judged, results)?;
    show::outcome(&judged, args.which.json, false);
    output::note(&format!(
        "the report is in {}; cells.txt and experiments.md beside it have every cell and every plan",
        path.display()
    ));
    Ok(())
}
