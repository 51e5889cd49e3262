//! What `dfcp lab` prints.

use dfcp_lab::Verdict;
use dfcp_lab::plan::Source;
use serde_json::json;

use super::JudgedPlan;
use crate::output;

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

pub(super) fn verdicts(judged: &[JudgedPlan], is_json: bool) {
    let mut counts = [0_usize; 4];
    for (plan, claims) in judged {
        for claim in claims {
            counts[place(&claim.verdict)] += 1;
            if is_json {
                output::json(&json!({ "plan": plan, "claim": claim }));
                continue;
            }
            output::line(&format!(
                "{:<7} {}\n        {}: {}",
                claim.id,
                claim.says,
                word(&claim.verdict),
                claim.measured
            ));
            if let Verdict::NotReproducible(because) = &claim.verdict {
                output::line(&format!("        because {because}"));
            }
        }
    }
    if !is_json {
        let [reproduced, differ, not_reproducible, not_run] = counts;
        output::line(&format!(
            "\n{reproduced} claims reproduced, {differ} differ, {not_reproducible} not reproducible, {not_run} not run"
        ));
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

const fn word(verdict: &Verdict) -> &'static str {
    ["reproduced", "differs", "not reproducible", "not run"][place(verdict)]
}
