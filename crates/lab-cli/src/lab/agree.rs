//! Command `dfcp lab agree`: compares the simulator with another platform.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use anyhow::{Context, bail};
use dfcp_framing::printable;
use dfcp_lab::agreement::{
    Count, Estimate, FILE, Pair, RUNS_MAX, SHARE, SHARE_WITH_LOSS, TOLERANCE, TOLERANCE_WITH_LOSS, csv, gather, pairs,
    runs_needed,
};
use dfcp_lab::{Engine, Run, SideBySide, digits, read};
use dfcp_terminal::output;
use serde_json::json;

use super::args::{self, AgreeArgs, PlatformsArg, RunsArg};
use super::{chosen, lay_out, make, platforms, sources};

/// Maximum number of rounds that add runs. After the first runs, the estimate of the required number hardly changes.
const ROUNDS_MAX: usize = 4;

/// Runs plans on both platforms until all means are precise, writes the compared points as CSV, and prints them.
///
/// # Errors
/// Fails if a plan is invalid, the platform is unavailable or a run fails. With `--check`, also fails if too few points
/// agree.
pub(super) async fn run(args: AgreeArgs) -> anyhow::Result<()> {
    let sources = chosen(sources(&args.which)?, &args.ids)?;
    let runs = RunsArg {
        quick: false,
        small: true,
        platforms: PlatformsArg {
            platform: vec![args::Platform::Sim, args.platform.into()],
            kernel: args.kernel.iter().cloned().collect(),
        },
        seeds: Some(NonZeroU32::MIN),
        results: args.results.clone(),
    };
    let platforms = platforms::of(&runs.platforms)?;
    let plans = lay_out(&sources, &runs, &platforms)?;
    let [ours, reference] = &platforms[..] else { bail!("there are not two platforms to compare") };
    for _ in 0..ROUNDS_MAX {
        let most = args.runs.map_or(RUNS_MAX, NonZeroU32::get);
        let wanted = wanted(&plans, &args.results, &[ours.engine(), reference.engine()], most)?;
        if wanted.is_empty() {
            break;
        }
        make(wanted, platforms.clone(), &runs, args.jobs, args.which.json).await?;
    }
    let mut all = Vec::new();
    for plan in &plans {
        let id = &plan.source.plan.id;
        let table = gather(&plan.runs, &read(&args.results, id)?);
        table.late().iter().for_each(|sentence| output::always(&format!("{id}: {sentence}")));
        all.extend(pairs(&plan.runs, &table, ours.engine(), reference.engine()));
    }
    let path = args.results.join(FILE);
    fs::write(&path, csv(&all)).with_context(|| format!("cannot write {}", path.display()))?;
    show(&all, &reference.engine().platform, args.which.json);
    if args.check && [false, true].iter().any(|&has_loss| !Count::of(&all, has_loss).is_reached(has_loss)) {
        bail!("fewer points agree than should; see above which differ");
    }
    Ok(())
}

/// Returns the runs that are missing for precise means. `most` limits the runs per point on the other platform.
fn wanted(plans: &[SideBySide], results: &Path, platforms: &[&Engine], most: u32) -> anyhow::Result<Vec<Run>> {
    let mut wanted = Vec::new();
    for plan in plans {
        let known = read(results, &plan.source.plan.id)?;
        let table = gather(&plan.runs, &known);
        for run in &plan.runs {
            let most = if run.engine.is_sim() { RUNS_MAX } else { most };
            let needed = runs_needed(run, &table, platforms, most);
            let repeated = (1..=needed).map(|repetition| run.repeated(repetition));
            wanted.extend(repeated.filter(|run| !known.contains_key(&run.hash)));
        }
    }
    Ok(wanted)
}

fn point(pair: &Pair) -> String {
    let levels = pair.point.iter().map(|(name, level)| format!("{name} {level}"));
    levels.collect::<Vec<_>>().join(", ")
}

fn estimate(estimate: &Estimate) -> String {
    let error = estimate.standard_error_mbps.map_or_else(String::new, |error| format!(" ±{}", digits(error)));
    let late = if estimate.late_runs > 0 { format!(", {} LATE", estimate.late_runs) } else { String::new() };
    format!("{}{error} ({}{late})", digits(estimate.mean_mbps), estimate.runs)
}

fn show(pairs: &[Pair], reference: &str, is_json: bool) {
    if is_json {
        pairs.iter().for_each(|pair| output::json(&json!({ "pair": pair, "ratio": pair.ratio() })));
        for has_loss in [false, true] {
            let count = Count::of(pairs, has_loss);
            output::json(&json!({ "has_loss": has_loss, "count": count, "is_reached": count.is_reached(has_loss) }));
        }
        return;
    }
    let mut plan = "";
    for pair in pairs {
        if pair.plan != plan {
            plan = &pair.plan;
            let stricter = pairs.iter().find(|pair| pair.plan == *plan && pair.has_loss).map(|pair| pair.tolerance);
            let stricter = stricter.filter(|&tolerance| tolerance < TOLERANCE_WITH_LOSS);
            let stricter = stricter.map_or_else(String::new, |share| format!(", within {} % with loss", 100.0 * share));
            output::line(&format!(
                "\n{}: aggregate goodput, Mbit/s: mean ± standard error (runs){stricter}\n{:<34} {:<28} {:>20} {:>20} {:>7}",
                printable(plan),
                "series",
                "point",
                "sim",
                reference,
                "ratio"
            ));
        }
        output::line(&format!(
            "{:<34} {:<28} {:>20} {:>20} {:>7.3}  {}",
            printable(&pair.series),
            printable(&point(pair)),
            estimate(&pair.ours),
            estimate(&pair.reference),
            pair.ratio(),
            pair.outcome.word()
        ));
    }
    output::line("");
    for (has_loss, what, tolerance, share) in
        [(false, "without random loss", TOLERANCE, SHARE), (true, "with it", TOLERANCE_WITH_LOSS, SHARE_WITH_LOSS)]
    {
        let count = Count::of(pairs, has_loss);
        let sure = count.agree + count.differ;
        output::line(&format!(
            "{what}: {} of {sure} points agree within {} %{} (target: {} %), {} are not sure",
            count.agree,
            100.0 * tolerance,
            if has_loss && pairs.iter().any(|pair| pair.has_loss && pair.tolerance < tolerance) {
                " or less"
            } else {
                ""
            },
            100.0 * share,
            count.not_sure
        ));
    }
}
