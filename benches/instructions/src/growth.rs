//! Check that the cost of a datagram does not grow with the items that its sender has created.

use std::fmt::Write as _;

use anyhow::Result;

use crate::callgrind::Valgrind;
use crate::cases::growth::{FILLED, KINDS, Kind};
use crate::counts;

/// Greatest permitted ratio of a datagram's cost to its cost without items. The margin covers deeper trees and a
/// constant additional cost.
const FACTOR_MAX: f64 = 1.5;

/// Instructions per datagram of one kind of item.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    kind: Kind,
    instructions: [f64; FILLED.len()],
}

/// Counts all kinds.
///
/// # Errors
/// Fails if a case cannot be counted.
pub(crate) fn count(valgrind: &Valgrind) -> Result<Vec<Row>> {
    let cases: Vec<_> = KINDS.iter().flat_map(|kind| kind.cases).collect();
    let counts = counts::of(valgrind, &cases)?;
    let of = |name: &str| counts.instructions.get(name).copied().unwrap_or(f64::NAN);
    Ok(KINDS.iter().map(|kind| Row { kind: *kind, instructions: kind.cases.map(|case| of(case.name)) }).collect())
}

impl Row {
    fn filled(&self, at: usize) -> u32 {
        FILLED[at].min(self.kind.limit)
    }

    /// Fault of this row, if there is one.
    fn complaint(&self) -> Option<String> {
        let [least, ..] = self.instructions;
        let grown = (0..FILLED.len()).find(|&at| {
            let permitted = least * FACTOR_MAX + self.kind.per_item * f64::from(self.filled(at));
            // NaN counts as too much.
            !self.instructions[at].le(&permitted)
        })?;
        let (what, filled, count) = (self.kind.what, self.filled(grown), self.instructions[grown]);
        Some(format!("a datagram costs {count:.0} instructions with {filled} ({what}), and {least:.0} with none"))
    }
}

/// Sentences on the kinds whose cost grows.
pub(crate) fn complaints(rows: &[Row]) -> Vec<String> {
    rows.iter().filter_map(Row::complaint).collect()
}

/// Formats the rows as a table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut out =
        "| filled before | instructions per datagram: 0 | 1000 | 100 000, or the limit |\n|---|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let [none, some, all] = row.instructions;
        let limit = row.filled(FILLED.len() - 1);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} | {none:.0} | {some:.0} | {all:.0} ({limit}) |", row.kind.what);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_told() {
        let row = |instructions, per_item| Row { kind: Kind { limit: 10_000, per_item, ..KINDS[0] }, instructions };
        assert_eq!(complaints(&[row([100.0, 120.0, 149.0], 0.0), row([100.0, 1_100.0, 9_000.0], 1.0)]), [""; 0]);
        for grown in
            [row([100.0, 151.0, 90.0], 0.0), row([100.0, 100.0, 10_151.0], 1.0), row([100.0, f64::NAN, 1.0], 0.0)]
        {
            assert_eq!(complaints(&[grown]).len(), 1);
        }
    }

    #[test]
    fn every_case_runs() {
        for case in KINDS.iter().flat_map(|kind| &kind.cases[..2]) {
            (case.run)(64).unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        }
    }
}
