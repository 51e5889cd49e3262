//! Parts of pages of `docs/` generated from recorded runs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use dfcp_lab::archive::unpack;
use dfcp_lab::plan::{Source, Tag};
use dfcp_lab::{Choice, Judged, Table, Verdict, expand, judge};

use super::pages::{Page, Result, cell, fill};

/// Most important claims of the source documents.
const CLAIMS: [&str; 10] = ["S1.3", "S1.4", "S3.5", "S4.1", "S6.3", "S13.1", "F2a.3", "F5a.1", "D3.7", "D10.5"];

/// Most important claims about the automatic rate.
const RATE_CLAIMS: [&str; 10] =
    ["A1.1", "A1.5", "A3.3", "A10.2", "A12.1", "A12.4", "A14.1", "A14.3", "A15a.1", "A17.2"];

/// Returns the pages that show recorded runs, with the verdict on every claim.
pub(crate) fn of_records(root: &Path, sources: &[Source]) -> Result<Vec<Page>> {
    let mut plans = Vec::new();
    let mut runs = 0;
    for source in sources {
        let all = expand(source, Choice::default())?;
        let records = unpack(&root.join("lab/recorded"), &source.plan.id, &all)?;
        runs += records.len();
        plans.push((source, judge(&source.plan, &Table::gather(&all, &records))));
    }
    let claims: Vec<&Judged> = plans.iter().flat_map(|(_, claims)| claims).collect();
    let (lab, rate) = ("docs/measurements/lab.md", "docs/measurements/auto-rate.md");
    let page = fill(&fs::read_to_string(root.join(lab))?, "counts", &counts(plans.len(), runs, &claims))?;
    let lab_page = fill(&page, "claims", &rows(&claims, &CLAIMS)?)?;
    let page = fill(&fs::read_to_string(root.join(rate))?, "plans", &rate_plans(&plans))?;
    let rate_page = fill(&page, "claims", &rows(&claims, &RATE_CLAIMS)?)?;
    Ok(vec![(lab, lab_page), (rate, rate_page)])
}

/// Returns a table of claims by kind and verdict.
fn counts(plans: usize, runs: usize, claims: &[&Judged]) -> String {
    let mut out = format!(
        "{plans} plans, {runs} runs.\n\n| claims | reproduced | differ | not reproducible, cause known | not run |\n|---|---|---|---|---|\n"
    );
    let verdicts = |tag: Option<Tag>| {
        let mut counts = [0; 4];
        for claim in claims.iter().filter(|claim| tag.is_none_or(|tag| claim.tag == tag)) {
            counts[match claim.verdict {
                Verdict::Reproduced => 0,
                Verdict::Differs => 1,
                Verdict::NotReproducible(_) => 2,
                Verdict::NotRun => 3,
            }] += 1;
        }
        counts
    };
    for (tag, what) in [
        (Some(Tag::N), "N, numbers of the documents"),
        (Some(Tag::Q), "Q, their statements"),
        (Some(Tag::D), "D, our derivations"),
        (None, "all"),
    ] {
        let [reproduced, differ, not_reproducible, not_run] = verdicts(tag);
        let _ = writeln!(out, "| {what} | {reproduced} | {differ} | {not_reproducible} | {not_run} |");
    }
    let changing = claims.iter().filter(|claim| !claim.changes.is_empty()).count();
    let _ = writeln!(out, "\n{changing} verdicts change when a fifth of the runs is left out.");
    out
}

/// Returns a table with a row for each claim in `ids`.
fn rows(claims: &[&Judged], ids: &[&str]) -> Result<String> {
    let mut out = String::from("| claim | | measured | verdict |\n|---|---|---|---|\n");
    for id in ids {
        let claim = claims.iter().find(|claim| claim.id == *id).ok_or_else(|| format!("there is no claim {id}"))?;
        let (says, measured) = (cell(&claim.says), cell(&claim.measured));
        let _ = writeln!(out, "| {id} | {says} | {measured} | {} |", claim.verdict.word());
    }
    Ok(out)
}

/// Returns a table of the plans about the automatic rate, with the verdicts on their claims.
fn rate_plans(plans: &[(&Source, Vec<Judged>)]) -> String {
    let mut out = String::from("| plan | | claims reproduced | claims that differ |\n|---|---|---|---|\n");
    for (source, claims) in plans.iter().filter(|(source, _)| source.plan.id.starts_with(['A', 'R'])) {
        let id = &source.plan.id;
        let of = |has: fn(&Verdict) -> bool| claims.iter().filter(move |claim| has(&claim.verdict));
        let reproduced = of(|verdict| *verdict == Verdict::Reproduced).count();
        let numbers = |has| {
            let numbers = of(has).map(|claim| claim.id.strip_prefix(id.as_str()).unwrap_or(&claim.id).to_owned());
            numbers.collect::<Vec<_>>().join(", ")
        };
        let mut differ = numbers(|verdict| !matches!(verdict, Verdict::Reproduced | Verdict::NotRun));
        let not_run = numbers(|verdict| *verdict == Verdict::NotRun);
        if !not_run.is_empty() {
            let _ = write!(differ, "{}not run: {not_run}", if differ.is_empty() { "" } else { "; " });
        }
        let _ = writeln!(out, "| {id} | {} | {reproduced} | {differ} |", source.plan.title);
    }
    out
}
