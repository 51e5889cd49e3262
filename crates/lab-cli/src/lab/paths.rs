//! Command `dfcp lab paths`: runs the automatic rate on random paths.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use dfcp_lab::archive::{pack, unpack};
use dfcp_lab::random_paths::{HALF, Length, PATHS_MAX, PathId, Row, Score, Shortfall, score};
use dfcp_lab::{Record, Run, read};
use dfcp_terminal::output;
use serde_json::{Value, json};

use super::args::{PathsArgs, PlatformsArg, RunsArg};
use super::{make, platforms};

/// Labels of the series of an automatic rate.
const CONTROLLERS: [&str; 2] = ["Auto", "Delivery"];

/// Greatest share of paths on which the automatic rate may reach less than half of the judge's goodput.
const BELOW_HALF_MAX: f64 = 0.02;
/// Greatest share of paths on which the automatic rate may reach less than 0.8 of the judge's goodput.
const BELOW_MOST_MAX: f64 = 0.06;
/// Greatest share of paths on which the automatic rate may reach less than half of the better of BBR and CUBIC.
const BELOW_RIVALS_MAX: f64 = 0.005;

/// Draws the paths, makes the runs without a record, and prints the counts.
///
/// # Errors
/// Fails if a run fails, or a file cannot be used. With `--check`, also fails if the automatic rate falls short on too
/// many paths.
pub(super) async fn run(args: PathsArgs) -> anyhow::Result<()> {
    let length = if args.short { Length::Short } else { Length::Whole };
    let end = args.first + u64::from(args.count.get());
    if end > PATHS_MAX {
        bail!("a seed has {PATHS_MAX} paths; take another --seed instead of a higher --first");
    }
    let ids: Vec<PathId> = (args.first..end).map(|number| PathId { length, seed: args.seed, number }).collect();
    if let Some(directory) = &args.write {
        return write(&ids, directory);
    }
    let runs: Vec<Vec<Run>> = ids.iter().map(|id| id.runs()).collect::<Result<_, _>>()?;
    let all: Vec<Run> = runs.iter().flatten().cloned().collect();
    let Some(plan) = all.first().map(|run| run.plan.clone()) else { bail!("there is no path to run") };
    let mut known = match &args.judges {
        Some(directory) => unpack(directory, &plan, &judges(&all))?,
        None => BTreeMap::new(),
    };
    let missing: Vec<Run> = all.iter().filter(|run| !known.contains_key(&run.hash)).cloned().collect();
    let has_new_judges = missing.iter().any(|run| !CONTROLLERS.contains(&run.series.as_str()));
    let which = RunsArg {
        quick: false,
        small: false,
        platforms: PlatformsArg { platform: vec![super::args::Platform::Sim], kernel: Vec::new() },
        seeds: None,
        results: args.results.clone(),
    };
    make(missing, platforms::of(&which.platforms)?, &which, args.jobs, args.json).await?;
    known.extend(read(&args.results, &plan)?);
    if let Some(directory) = args.judges.as_deref().filter(|_| has_new_judges) {
        keep(directory, &plan, &judges(&all), &known)?;
    }
    let rows: Vec<Row> = ids.iter().zip(&runs).filter_map(|(id, runs)| Row::gather(*id, runs, &known)).collect();
    show(&rows, args.series.label(), args.worst, args.json);
    if args.check { check(&rows, args.series.label()) } else { Ok(()) }
}

/// Returns the runs of DFCP told the rate, of BBR and of CUBIC.
fn judges(runs: &[Run]) -> Vec<Run> {
    runs.iter().filter(|run| !CONTROLLERS.contains(&run.series.as_str())).cloned().collect()
}

/// Archives the records of the judges in `directory`. Records of the seed's other paths that are there are kept.
fn keep(directory: &Path, plan: &str, runs: &[Run], records: &BTreeMap<String, Record>) -> anyhow::Result<()> {
    let packed = pack(directory, plan, runs, records)?;
    output::note(&format!("{plan}: {} records of the judges are kept in {}", packed.records, directory.display()));
    Ok(())
}

/// Writes the paths as plans, one file each.
fn write(ids: &[PathId], directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for id in ids {
        let path = directory.join(format!("{id}.toml"));
        fs::write(&path, id.path().toml(&id.to_string(), id.length))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::note(&format!("{} plans are in {}", ids.len(), directory.display()));
    Ok(())
}

fn show(rows: &[Row], judged: &str, worst: usize, is_json: bool) {
    let scores: Vec<Score> =
        [CONTROLLERS[0], CONTROLLERS[1], "BBR", "CUBIC"].iter().map(|label| score(rows, label).0).collect();
    let (_, shortfalls) = score(rows, judged);
    if is_json {
        let of = |score: &Score| {
            json!({
                "series": score.series, "paths": score.paths, "below_half": score.below_half,
                "below_0.8": score.below_most, "below_half_at_moderate_loss": score.below_half_at_moderate_loss,
                "below_half_of_rivals": score.below_half_of_rivals, "drops_too_much": score.drops,
                "mean": score.mean, "p5": score.p5, "queue_ms": score.queue_ms,
            })
        };
        let short: Vec<Value> = shortfalls.iter().filter_map(|it| as_json(rows, judged, it)).collect();
        output::json(&json!({ "scores": scores.iter().map(of).collect::<Vec<_>>(), "shortfalls": short }));
        return;
    }
    let lucky = rows.iter().filter(|row| row.told_luck < HALF).count();
    output::line(&format!(
        "{} random paths; of the runs that are told the rate, the worst is below half of the best on {lucky}\n",
        rows.len()
    ));
    table(&scores);
    by_kind(rows);
    if !shortfalls.is_empty() {
        output::line(&format!("\nWorst paths of {judged}, each with its command:"));
    }
    for it in shortfalls.iter().take(worst) {
        if let Some(row) = rows.get(it.row) {
            output::line(&describe(row, judged, it));
        }
    }
    if shortfalls.len() > worst {
        output::line(&format!("and {} more: --worst {}", shortfalls.len() - worst, shortfalls.len()));
    }
}

fn table(scores: &[Score]) {
    output::line(&format!(
        "{:<8} {:>12} {:>12} {:>13} {:>13} {:>12} {:>6} {:>6} {:>9}",
        "", "< .5 of told", "< .8 of told", "< .5 loss≤10%", "< .5 of rival", "drops > 25 %", "mean", "p5", "queue ms"
    ));
    for score in scores {
        let share = |count: usize| format!("{count} {:4.1}%", 100.0 * count as f64 / score.paths.max(1) as f64);
        output::line(&format!(
            "{:<8} {:>12} {:>12} {:>13} {:>13} {:>12} {:>6.3} {:>6.2} {:>9.1}",
            score.series,
            share(score.below_half),
            share(score.below_most),
            score.below_half_at_moderate_loss,
            share(score.below_half_of_rivals),
            score.drops,
            score.mean,
            score.p5,
            score.queue_ms
        ));
    }
}

/// Prints the counts for each kind of path.
fn by_kind(rows: &[Row]) {
    let mut kinds: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in rows {
        for kind in row.path.kinds() {
            kinds.entry(kind).or_default().push(row.clone());
        }
    }
    output::line(&format!("\n{:<18} {:>5}   below half / below .8 / drops", "paths with", "paths"));
    for (kind, rows) in kinds {
        let counts = [CONTROLLERS[0], CONTROLLERS[1], "BBR", "CUBIC"].map(|label| {
            let (score, _) = score(&rows, label);
            format!("{label} {}/{}/{}", score.below_half, score.below_most, score.drops)
        });
        output::line(&format!("{kind:<18} {:>5}   {}", rows.len(), counts.join("   ")));
    }
}

fn describe(row: &Row, judged: &str, it: &Shortfall) -> String {
    let of = |name: &str| row.series.get(name).copied().unwrap_or_default();
    let (auto, mbps) = (of(judged), |bps: f64| bps / 1e6);
    let path = &row.path;
    format!(
        "{:.2} of told, {:.1} % dropped: {:.3} Mbit/s, told {:.3}, BBR {:.3}, CUBIC {:.3}; {} Mbit/s, {} ms, {}\n    dfcp lab trace {} --series {judged}",
        it.share,
        100.0 * auto.dropped,
        mbps(auto.goodput_bps),
        mbps(row.told.goodput_bps),
        mbps(of("BBR").goodput_bps),
        mbps(of("CUBIC").goodput_bps),
        path.rate_mbps,
        path.rtt_ms,
        path.details(),
        row.id
    )
}

fn as_json(rows: &[Row], judged: &str, it: &Shortfall) -> Option<Value> {
    let row = rows.get(it.row)?;
    let auto = row.series.get(judged)?;
    Some(json!({
        "path": row.id.to_string(), "share_of_told": it.share, "drops_too_much": it.drops,
        "goodput_bps": auto.goodput_bps, "told_bps": row.told.goodput_bps, "dropped": auto.dropped,
        "rate_mbps": row.path.rate_mbps, "rtt_ms": row.path.rtt_ms, "details": row.path.details(),
    }))
}

/// Fails if the automatic rate falls short on too many paths.
fn check(rows: &[Row], judged: &str) -> anyhow::Result<()> {
    let (score, _) = score(rows, judged);
    let most = |share: f64| (share * score.paths as f64).ceil() as usize;
    let counts = [
        ("below half of told", score.below_half, most(BELOW_HALF_MAX)),
        ("below 0.8 of told", score.below_most, most(BELOW_MOST_MAX)),
        ("below half of told with at most 10 % of single losses", score.below_half_at_moderate_loss, 0),
        ("below half of the better of BBR and CUBIC", score.below_half_of_rivals, most(BELOW_RIVALS_MAX)),
        ("dropping more than 25 %", score.drops, 0),
    ];
    let missed = counts.iter().filter(|(_, count, most)| count > most);
    let missed: Vec<_> =
        missed.map(|(what, count, most)| format!("{count} paths are {what} (at most {most})")).collect();
    if missed.is_empty() { Ok(()) } else { bail!("{}; see above for traces", missed.join(", ")) }
}
