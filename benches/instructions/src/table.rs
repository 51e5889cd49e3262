//! Comparison of counts with the recorded ones.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cases::Case;
use crate::counts::{Build, Counts, part_name};
use crate::recorded::Recorded;

/// Recorded and present count of a case or part; either may be missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Name of the case and part.
    pub(crate) name: String,
    recorded: Option<f64>,
    now: Option<f64>,
    change_percent: Option<f64>,
}

/// Comparison of all counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Comparison {
    recorded: Build,
    now: Build,
    valgrind: String,
    tolerance_percent: f64,
    rows: Vec<Row>,
}

impl Comparison {
    pub(crate) fn new(recorded: &Recorded, counts: &Counts) -> Self {
        let mut names: Vec<&String> = recorded.instructions.keys().chain(counts.instructions.keys()).collect();
        names.sort();
        names.dedup();
        let rows = names.into_iter().map(|name| {
            let (before, now) = (recorded.instructions.get(name).copied(), counts.instructions.get(name).copied());
            let change = before.zip(now).map(|(before, now)| (now / before - 1.0) * 100.0);
            Row { name: name.clone(), recorded: before, now, change_percent: change }
        });
        Self {
            recorded: recorded.build.clone(),
            now: counts.build.clone(),
            valgrind: counts.valgrind.clone(),
            tolerance_percent: recorded.tolerance_percent,
            rows: rows.collect(),
        }
    }

    /// Sentences on the counts that differ from the record.
    pub(crate) fn complaints(&self) -> Vec<String> {
        const RECORD: &str = "`benches/instructions/run.sh record` records it";
        let complaint = |row: &Row| {
            let name = &row.name;
            let Some(change) = row.change_percent else {
                let what = if row.now.is_some() { "is not recorded" } else { "is recorded, and there is no such case" };
                return Some(format!("{name} {what}: {RECORD}"));
            };
            // NaN counts as different.
            if change.abs() <= self.tolerance_percent {
                None
            } else if change < 0.0 {
                Some(format!("{name} takes {:.1} % fewer instructions than recorded, well done: {RECORD}", -change))
            } else {
                Some(format!(
                    "{name} takes {change:.1} % more instructions than recorded: find out why, `instructions profile` helps; if it has to be, {RECORD}"
                ))
            }
        };
        self.rows.iter().filter_map(complaint).collect()
    }

    /// Formats the comparison as a table, in the order of the cases.
    pub(crate) fn table(&self, cases: &[Case]) -> String {
        let mut out = format!(
            "{}, {}, kernel {}, valgrind {}; tolerance {} %\n\n",
            self.now.rustc, self.now.settings, self.now.kernel, self.valgrind, self.tolerance_percent
        );
        out += "| case | instructions per | recorded | now | change |\n|---|---|---:|---:|---:|\n";
        for case in cases {
            out += &self.line(case.name, case.unit);
            case.parts.iter().for_each(|(part, _)| out += &self.line(&part_name(case, part), case.unit));
        }
        out
    }

    fn line(&self, name: &str, unit: &str) -> String {
        let Some(row) = self.rows.iter().find(|row| row.name == name) else { return String::new() };
        let show = |count: Option<f64>| count.map_or_else(|| "–".to_owned(), |count| format!("{count:.1}"));
        let change = row.change_percent.map_or_else(|| "–".to_owned(), |change| format!("{change:+.2} %"));
        format!("| {name} | {unit} | {} | {} | {change} |\n", show(row.recorded), show(row.now))
    }
}

/// Lists the cases, without counting.
pub(crate) fn list(cases: &[Case]) -> String {
    let mut out = String::new();
    for case in cases {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{:<18} per {}: {}", case.name, case.unit, case.what);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(before: &[(&str, f64)], now: &[(&str, f64)]) -> Comparison {
        let build = Build::current("avx2".to_owned());
        let map = |counts: &[(&str, f64)]| counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let recorded = Recorded {
            build: build.clone(),
            valgrind: String::new(),
            tolerance_percent: 3.0,
            instructions: map(before),
        };
        Comparison::new(&recorded, &Counts { build, valgrind: String::new(), instructions: map(now) })
    }

    #[test]
    fn what_is_as_recorded_passes_and_everything_else_is_told() {
        let within = comparison(&[("a", 100.0), ("b", 50.0)], &[("a", 102.9), ("b", 48.6)]);
        assert_eq!(within.complaints(), Vec::<String>::new());
        for (before, now, words) in [
            ([("a", 100.0)], [("a", 103.1)], "a takes 3.1 % more instructions"),
            ([("a", 100.0)], [("a", 96.0)], "a takes 4.0 % fewer instructions"),
            ([("a", 0.0)], [("a", 1.0)], "a takes"),
            ([("a", 0.0)], [("a", 0.0)], "a takes"),
        ] {
            let complaints = comparison(&before, &now).complaints();
            assert!(complaints.len() == 1 && complaints[0].contains(words), "{complaints:?}");
        }
        let complaints = comparison(&[("a", 1.0)], &[("b", 1.0)]).complaints();
        assert_eq!(complaints.len(), 2, "{complaints:?}");
    }
}
