//! Sensitivity of verdicts to single runs: claims are tested again with a fifth of the runs left out.

use std::mem::discriminant;

use serde::Serialize;

use super::{Judged, Verdict, judge_once};
use crate::plan::{Claim, Plan};
use crate::table::Table;

/// Number of repeated tests. Each leaves out a different fifth of the runs, so that every run is left out once.
const TURNS: usize = 5;

/// Fewest runs of a point from which some are left out. With two, the single remaining run would have no standard
/// deviation.
const RUNS_MIN: usize = 3;

/// Verdict of a claim after some runs were left out, if it differs from the verdict on all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Number of the first run left out, from 1, in the order of the records. Every fifth run after it was left out,
    /// too.
    pub without_run: usize,
    /// Verdict without these runs.
    pub verdict: Verdict,
}

/// Tests all claims of `plan` on `table`. Repeats the tests five times, each time without a fifth of the runs of each
/// point.
#[must_use]
pub fn judge(plan: &Plan, table: &Table) -> Vec<Judged> {
    let mut judged = judge_once(plan, table);
    let runs = table.cells.iter().map(|cell| cell.measured.len()).max().unwrap_or(0);
    if runs < RUNS_MIN || judged.is_empty() {
        return judged;
    }
    for turn in 0..TURNS.min(runs) {
        let others = judge_once(plan, &without(table, turn));
        for (claim, other) in judged.iter_mut().zip(others) {
            if claim.verdict != Verdict::NotRun && discriminant(&claim.verdict) != discriminant(&other.verdict) {
                claim.changes.push(Change { without_run: turn + 1, verdict: other.verdict });
            }
        }
    }
    for (judged, claim) in judged.iter_mut().zip(&plan.claims) {
        judged.measured += &told(&judged.changes, runs_of(claim.get_ref(), table));
    }
    judged
}

/// Returns a copy of `table` without every fifth run, beginning with run `turn` (from 0).
fn without(table: &Table, turn: usize) -> Table {
    let mut left = table.clone();
    for cell in left.cells.iter_mut().filter(|cell| cell.measured.len() >= RUNS_MIN) {
        let mut place = 0;
        cell.measured.retain(|_| {
            place += 1;
            (place - 1) % TURNS != turn
        });
    }
    left
}

/// Returns the greatest number of runs per point in the claim's series.
fn runs_of(claim: &Claim, table: &Table) -> usize {
    let of = |series| table.of_series(series).map(|cell| cell.measured.len()).max().unwrap_or(0);
    claim.to.iter().map(|series| of(series)).fold(of(&claim.series), usize::max)
}

/// Words the verdicts that change if some runs are left out, to be appended to the measured result.
fn told(changes: &[Change], runs: usize) -> String {
    let mut words: Vec<(&str, Vec<String>)> = Vec::new();
    for change in changes {
        let (word, run) = (change.verdict.word(), change.without_run.to_string());
        match words.iter_mut().find(|(other, _)| *other == word) {
            Some((_, turns)) => turns.push(run),
            None => words.push((word, vec![run])),
        }
    }
    let one = |(word, turns): &(&str, Vec<String>)| {
        let turns = match turns.split_last() {
            Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
            _ => turns.concat(),
        };
        if runs <= TURNS {
            format!("; without run {turns}: {word}")
        } else {
            format!("; without every fifth run, beginning with run {turns}: {word}")
        }
    };
    words.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{FlowMeasured, Measured};
    use crate::reading::parse;
    use crate::table::Cell;

    /// Tests a claim of 9 to 11 Mbit/s on runs with these goodputs, Mbit/s.
    fn judged(runs: &[f64]) -> Judged {
        let text = "id = \"t\"\ntitle = \"\"\nsource = \"\"\nquestion = \"\"\n[run]\n[topology]\n[[series]]\nlabel = \"A\"\ntransport = \"modern\"\n\
                    [metrics]\nplot = [\"goodput_mbps\"]\n[[claims]]\nid = \"1\"\nsays = \"\"\ntag = \"D\"\nkind = \"value\"\nseries = \"A\"\n\
                    within = [9, 11]";
        let measured = |mbps: &f64| Measured {
            flows: vec![FlowMeasured { goodput_bps: mbps * 1e6, ..FlowMeasured::default() }],
            ..Measured::default()
        };
        let measured = runs.iter().map(measured).collect();
        let cell = Cell { series: "A".to_owned(), point: Vec::new(), warm_up_s: 0.0, scale: 1.0, measured };
        judge(&parse("t.toml", text).unwrap().plan, &Table { cells: vec![cell] }).remove(0)
    }

    #[test]
    fn a_verdict_names_the_runs_without_which_it_is_another() {
        let of = |runs: &[f64]| {
            let claim = judged(runs);
            (
                claim.verdict.differs(),
                claim.changes.iter().map(|change| change.without_run).collect::<Vec<_>>(),
                claim.measured,
            )
        };
        assert_eq!(of(&[10.0; 5]), (false, vec![], "10.0".to_owned()));
        // Without the second run the mean of the first case is 11.0, within the claim, and of the second case 11.25,
        // above it.
        assert_eq!(of(&[12.0, 6.0, 11.0, 11.0, 10.0]), (false, vec![], "10.0".to_owned()));
        assert_eq!(of(&[12.0, 5.0, 11.0, 11.0, 11.0]), (false, vec![2], "10.0; without run 2: differs".to_owned()));
        assert_eq!(of(&[20.0, 10.0, 10.0, 10.0, 10.0]), (true, vec![1], "12.0; without run 1: reproduced".to_owned()));
        assert_eq!(of(&[0.0, 10.0, 20.0]).2, "10.0; without run 1 or 3: differs");
        assert_eq!(of(&[0.0, 20.0]), (false, vec![], "10.0".to_owned()), "one run alone would be left");
        assert_eq!(of(&[]).1, [0; 0]);
        let many = [[12.0, 5.0, 11.0, 11.0, 11.0]; 4].concat();
        assert_eq!(of(&many).2, "10.0; without every fifth run, beginning with run 2: differs");
    }
}
