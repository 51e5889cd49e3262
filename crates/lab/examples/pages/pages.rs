//! Pages of `docs/` generated from plans and compared points, as a whole or in part.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use dfcp_lab::agreement::{Count, Outcome, read};
use dfcp_lab::plan::{Source, Tag};
use dfcp_lab::{legend, markdown};

/// Most important plans that repeat the source documents.
const PLANS: [&str; 10] = ["S1", "S3", "S4", "S6", "S13", "F2a", "F5a", "D3", "D10", "B1"];

/// A page: path from the root of the repository, and text.
pub(crate) type Page = (&'static str, String);

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the pages that need no run: generated from the plans, and from the points compared by `dfcp lab agree`.
pub(crate) fn of_plans(root: &Path, sources: &[Source]) -> Result<Vec<Page>> {
    let agreement = "docs/measurements/agreement.md";
    let filled = fill(&fs::read_to_string(root.join(agreement))?, "points", &agreement_counts(root)?)?;
    Ok(vec![("docs/experiments.md", experiments(sources)), (agreement, filled)])
}

/// Replaces the text in `page` between the begin and end marks of `name` with `block`.
pub(crate) fn fill(page: &str, name: &str, block: &str) -> Result<String> {
    let (begin, end) = (
        format!("<!-- {name}: by `cargo run --release -p dfcp-lab --example pages` -->\n"),
        format!("<!-- /{name} -->\n"),
    );
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("a page has no place for {name}"))?;
    Ok(format!("{before}{begin}\n{block}\n{end}{after}"))
}

/// Escapes text for a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Counts claims by kind of source: numbers, statements, derivations.
fn kinds<'a>(tags: impl Iterator<Item = &'a Tag>) -> [usize; 3] {
    tags.fold([0; 3], |mut counts, tag| {
        counts[match tag {
            Tag::N => 0,
            Tag::Q => 1,
            Tag::D => 2,
        }] += 1;
        counts
    })
}

/// Returns the whole page `docs/experiments.md`.
fn experiments(sources: &[Source]) -> String {
    let tags = |source: &'_ Source| source.plan.claims.iter().map(|claim| claim.get_ref().tag).collect::<Vec<_>>();
    let of = |group: &str| sources.iter().filter(|source| source.plan.id.starts_with(group)).collect::<Vec<_>>();
    let all: Vec<Tag> = sources.iter().flat_map(tags).collect();
    let [numbers, statements, derived] = kinds(all.iter());
    let mut page = format!(
        "# Experiments\n\n\
         <!-- By `cargo run --release -p dfcp-lab --example pages`: change the plans, not this page. -->\n\n\
         The laboratory has {} plans with {} claims: {numbers} numbers (N) and {statements} statements (Q) of the documents, and {derived} derivations\n\
         of ours (D). [lab.md](measurements/lab.md) says what came of them, and [plans.md](plans.md) how to write a plan.\n\n\
         ```sh\n\
         dfcp lab list                              # every plan in a line\n\
         dfcp lab report --recorded lab/recorded    # everything, from the recorded runs, in seconds\n\
         ```\n\n\
         `report` writes into `lab-results`: `report.html`, with every figure, claim and verdict; `experiments.md`, with the parameters and claims of every plan, and\n\
         all metrics and parameters; and `cells.txt`, with what was measured at every point. `dfcp lab run S1` makes the runs of a plan.\n\n\
         | id | plans | | N | Q | D |\n|---|---|---|---|---|---|\n",
        sources.len(),
        all.len()
    );
    let legend = legend();
    let groups = legend.iter().filter(|table| table.title == "Plans").flat_map(|table| &table.rows);
    for row in groups {
        let [group, text] = &row[..] else { continue };
        let plans = of(group);
        let tags: Vec<Tag> = plans.iter().flat_map(|source| tags(source)).collect();
        let [numbers, statements, derived] = kinds(tags.iter());
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {group} | {} | {text} | {numbers} | {statements} | {derived} |", plans.len());
    }
    page += "\n## Ten plans\n\n| plan | question | in the documents |\n|---|---|---|\n";
    for source in PLANS.iter().filter_map(|id| sources.iter().find(|source| source.plan.id == *id)) {
        let plan = &source.plan;
        let _ = writeln!(page, "| {} | {} | {} |", plan.id, cell(&plan.question), plan.source);
    }
    legend.iter().filter(|table| table.title != "Plans").for_each(|table| page += &markdown(table));
    page
}

/// Returns the numbers of compared points: in total, and for each plan with a differing point.
fn agreement_counts(root: &Path) -> Result<String> {
    let points = read(&root.join("lab/recorded"))?;
    let [without, with] = [false, true].map(|has_loss| Count::of_compared(&points, has_loss));
    let share = |count: Count| 100.0 * count.agree as f64 / (count.agree + count.differ) as f64;
    let mut out = format!(
        "**Of the points which are sure, {} of {} without random loss agree ({:.1} %, target 95 %), and {} of {} with it ({:.1} %, target 90 %).\n\
         {} and {} are not sure.**\n\n",
        without.agree,
        without.agree + without.differ,
        share(without),
        with.agree,
        with.agree + with.differ,
        share(with),
        without.not_sure,
        with.not_sure
    );
    let mut plans: Vec<(&str, [usize; 3])> = Vec::new();
    for point in &points {
        if plans.last().is_none_or(|(plan, _)| *plan != point.plan) {
            plans.push((&point.plan, [0; 3]));
        }
        let Some((_, counts)) = plans.last_mut() else { continue };
        counts[match point.outcome {
            Outcome::Agrees => 0,
            Outcome::Differs => 1,
            Outcome::NotSure => 2,
        }] += 1;
    }
    let whole = plans.iter().filter(|(_, [_, differ, not_sure])| differ + not_sure == 0).count();
    let _ = writeln!(out, "In {whole} of {} plans every point agrees. The others:\n", plans.len());
    let parts = plans.iter().filter(|(_, [_, differ, not_sure])| differ + not_sure > 0);
    let part = |(plan, [agree, differ, not_sure]): &(&str, [usize; 3])| {
        let differ = if *differ > 0 { format!(", {differ} differ") } else { String::new() };
        let not_sure = if *not_sure > 0 { format!(", {not_sure} not sure") } else { String::new() };
        format!("{plan} {agree} agree{differ}{not_sure}")
    };
    let _ = writeln!(out, "{}.", parts.map(part).collect::<Vec<_>>().join("; "));
    Ok(out)
}
