//! Text output of `dfcp lab`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use dfcp_framing::printable;
use dfcp_lab::metrics::METRICS;
use dfcp_lab::plan::{Source, Tag};
use dfcp_lab::{Judged, Verdict};
use dfcp_terminal::output;
use serde_json::json;

use super::{JudgedPlan, table};

pub(super) fn list(sources: &[Source], is_json: bool) {
    for source in sources {
        let plan = &source.plan;
        if is_json {
            output::json(&json!({
                "id": plan.id, "title": plan.title, "source": plan.source, "question": plan.question,
                "claims": plan.claims.len(),
            }));
        } else {
            output::line(&format!("{:<5} {:<58} {}", plan.id, plan.title, plan.source));
        }
    }
}

/// Prints the metrics with `word` in their name or description; all metrics without `word`.
pub(super) fn metrics(word: Option<&str>, is_json: bool) -> anyhow::Result<()> {
    let lower = word.unwrap_or_default().to_lowercase();
    let found = METRICS.iter().filter(|(name, text)| name.contains(&lower) || text.to_lowercase().contains(&lower));
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        bail!("no metric has `{}` in its name or description; `dfcp lab metrics` shows them all", printable(&lower));
    }
    for (name, text) in found {
        if is_json {
            output::json(&json!({ "metric": name, "description": text }));
        } else {
            output::line(&format!("{name:<26}  {text}"));
        }
    }
    Ok(())
}

/// Number of claims for each verdict, by platform and kind of source.
type Counts = BTreeMap<(String, Tag), [usize; 4]>;

/// Prints the verdicts of all claims; with `with_tables`, also each plan's table.
pub(super) fn outcome(plans: &[JudgedPlan<'_>], is_json: bool, with_tables: bool) {
    let mut counts = Counts::new();
    for JudgedPlan { plan, overviews, claims } in plans {
        if with_tables {
            if is_json {
                table::values(plan, overviews).iter().for_each(output::json);
            } else {
                table::text(plan, overviews).iter().for_each(|line| output::line(line));
            }
        }
        for claim in claims {
            counts.entry((claim.platform.clone(), claim.tag)).or_default()[place(&claim.verdict)] += 1;
            verdict(&plan.id, claim, is_json);
        }
        if with_tables && !is_json && !claims.is_empty() {
            output::line("");
        }
    }
    if !is_json {
        let gap = if with_tables { "" } else { "\n" };
        let changing = plans.iter().flat_map(|plan| &plan.claims).filter(|claim| !claim.changes.is_empty()).count();
        output::line(&format!("{gap}{}{}", counted(&counts), changes(changing)));
    }
}

/// Words the numbers of claims by verdict: in total, by kind of source, and by platform if there are several.
fn counted(counts: &Counts) -> String {
    let is_one = counts.keys().map(|(platform, _)| platform).collect::<BTreeSet<_>>().len() < 2;
    let line = |what: &str, [reproduced, differ, not_reproducible, not_run]: [usize; 4]| {
        format!(
            "{reproduced} {what} reproduced, {differ} differ, {not_reproducible} not reproducible, {not_run} not run"
        )
    };
    let all = counts.values().fold([0; 4], |sum, counts| std::array::from_fn(|place| sum[place] + counts[place]));
    let of = |((platform, tag), counts): (&(String, Tag), &[usize; 4])| {
        let what = match tag {
            Tag::N => "numbers of the documents",
            Tag::Q => "statements of the documents",
            Tag::D => "derivations of ours",
        };
        let line = line(what, *counts);
        if is_one { line } else { format!("{platform}: {line}") }
    };
    let parts = if counts.len() > 1 { counts.iter().map(of).collect() } else { Vec::new() };
    [vec![line("claims", all)], parts].concat().join("\n  ")
}

/// Words the number of verdicts that would change; empty for 0.
fn changes(verdicts: usize) -> String {
    match verdicts {
        0 => String::new(),
        1 => "\n  1 verdict changes when a fifth of the runs is left out".to_owned(),
        more => format!("\n  {more} verdicts change when a fifth of the runs is left out"),
    }
}

fn verdict(plan: &str, claim: &Judged, is_json: bool) {
    if is_json {
        output::json(&json!({ "plan": plan, "claim": claim }));
        return;
    }
    output::line(&format!("{:<7} {}\n        {}: {}", claim.id, claim.says, claim.verdict.word(), claim.measured));
    if let Verdict::NotReproducible(because) = &claim.verdict {
        output::line(&format!("        because {because}"));
    }
}

const fn place(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Reproduced => 0,
        Verdict::Differs => 1,
        Verdict::NotReproducible(_) => 2,
        Verdict::NotRun => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_counted_apart_by_where_they_come_from_and_by_platform() {
        let of = |platform: &str, tag: Tag| (platform.to_owned(), tag);
        let one = Counts::from([(of("sim", Tag::N), [2, 1, 0, 0])]);
        assert_eq!(counted(&one), "2 claims reproduced, 1 differ, 0 not reproducible, 0 not run");
        let both = Counts::from([(of("sim", Tag::N), [2, 0, 0, 0]), (of("sim", Tag::D), [0, 0, 1, 0])]);
        assert_eq!(
            counted(&both).lines().collect::<Vec<_>>()[1..],
            [
                "  2 numbers of the documents reproduced, 0 differ, 0 not reproducible, 0 not run",
                "  0 derivations of ours reproduced, 0 differ, 1 not reproducible, 0 not run",
            ]
        );
        let platforms = Counts::from([(of("kernel-6.12", Tag::N), [0, 1, 0, 0]), (of("sim", Tag::N), [1, 0, 0, 0])]);
        assert_eq!(
            counted(&platforms),
            "1 claims reproduced, 1 differ, 0 not reproducible, 0 not run\n  \
             kernel-6.12: 0 numbers of the documents reproduced, 1 differ, 0 not reproducible, 0 not run\n  \
             sim: 1 numbers of the documents reproduced, 0 differ, 0 not reproducible, 0 not run"
        );
    }
}
