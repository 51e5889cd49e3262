//! CSV file of compared points: written by `dfcp lab agree`, and kept beside the archived records.

use std::fs;
use std::io;
use std::path::Path;

use super::{Count, Estimate, Outcome, Pair};
use crate::claims::digits;
use crate::plan::name;
use crate::report::Table;

/// Name of the file, in the directory of the records.
pub const FILE: &str = "agreement.csv";

const HEAD: &str = "plan,series,point,has_loss,sim_mbps,sim_standard_error_mbps,sim_runs,reference_mbps,\
                    reference_standard_error_mbps,reference_runs,reference_late_runs,ratio,outcome";

/// A compared point, as read from the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Id of the plan.
    pub plan: String,
    /// Label of the series.
    pub series: String,
    /// Values of the swept parameters, as text.
    pub point: String,
    /// True if packets can be lost at random at this point.
    pub has_loss: bool,
    /// Estimate on the simulator.
    pub ours: Estimate,
    /// Estimate on the other platform, the reference.
    pub reference: Estimate,
    /// Simulator's mean divided by the reference's mean.
    pub ratio: f64,
    /// Outcome of the comparison.
    pub outcome: Outcome,
}

/// Error of reading the file.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// Path of the file.
        path: String,
        /// Reason.
        error: io::Error,
    },
    /// A line of the file is invalid.
    #[error("{path}, line {line} is not what `dfcp lab agree` writes; copy its {FILE} there again")]
    Line {
        /// Path of the file.
        path: String,
        /// Number of the line, from 1.
        line: usize,
    },
}

/// Formats `pairs` as CSV: a header line, then one line per point.
#[must_use]
pub fn csv(pairs: &[Pair]) -> String {
    let mut text = format!("{HEAD}\r\n");
    let quoted = |field: &str| format!("\"{}\"", field.replace('"', "\"\""));
    let error = |estimate: &Estimate| estimate.standard_error_mbps.map_or_else(String::new, |error| error.to_string());
    for pair in pairs {
        let (ours, reference) = (&pair.ours, &pair.reference);
        text += &format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n",
            quoted(&pair.plan),
            quoted(&pair.series),
            quoted(&name(&pair.point)),
            pair.has_loss,
            ours.mean_mbps,
            error(ours),
            ours.runs,
            reference.mean_mbps,
            error(reference),
            reference.runs,
            reference.late_runs,
            pair.ratio(),
            pair.outcome.word()
        );
    }
    text
}

/// Reads the points of the file in `directory`, in file order. Empty if there is no file.
///
/// # Errors
/// Fails if the file cannot be read, or a line differs from the format of [`csv`].
pub fn read(directory: &Path) -> Result<Vec<Compared>, ReadError> {
    let path = directory.join(FILE);
    let shown = || path.display().to_string();
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| ReadError::Io { path: shown(), error })?,
    };
    let broken = |line| ReadError::Line { path: shown(), line };
    let mut lines = text.lines();
    if lines.next() != Some(HEAD) {
        return Err(broken(1));
    }
    lines.enumerate().map(|(index, line)| compared(line).ok_or_else(|| broken(index + 2))).collect()
}

fn compared(line: &str) -> Option<Compared> {
    let fields: [String; 13] = fields(line).try_into().ok()?;
    let [plan, series, point, has_loss, sim, sim_error, sim_runs, mean, error, runs, late_runs, ratio, outcome] =
        fields;
    let estimate = |mean: &str, error: &str, runs: &str, late_runs: &str| {
        Some(Estimate {
            mean_mbps: mean.parse().ok()?,
            standard_error_mbps: if error.is_empty() { None } else { Some(error.parse().ok()?) },
            runs: runs.parse().ok()?,
            late_runs: late_runs.parse().ok()?,
        })
    };
    Some(Compared {
        plan,
        series,
        point,
        has_loss: has_loss.parse().ok()?,
        ours: estimate(&sim, &sim_error, &sim_runs, "0")?,
        reference: estimate(&mean, &error, &runs, &late_runs)?,
        ratio: ratio.parse().ok()?,
        outcome: [Outcome::Agrees, Outcome::Differs, Outcome::NotSure].into_iter().find(|one| one.word() == outcome)?,
    })
}

/// Splits a line into its fields (RFC 4180, without line breaks in fields).
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

/// Returns all points as a table for the report; `None` if there are none.
#[must_use]
pub fn table(points: &[Compared]) -> Option<Table> {
    let told = |estimate: &Estimate| {
        let error = estimate.standard_error_mbps.map_or_else(String::new, |error| format!(" ± {}", digits(error)));
        format!("{}{error} ({})", digits(estimate.mean_mbps), estimate.runs)
    };
    let row = |point: &Compared| {
        vec![
            point.plan.clone(),
            point.series.clone(),
            point.point.clone(),
            told(&point.ours),
            told(&point.reference),
            format!("{:.3}", point.ratio),
            point.outcome.word().to_owned(),
        ]
    };
    let counts = [(false, "without random loss"), (true, "with it")].map(|(has_loss, what)| {
        let Count { agree, differ, not_sure } = Count::of_compared(points, has_loss);
        format!("{agree} of {} sure points {what} agree, {not_sure} are not sure", agree + differ)
    });
    (!points.is_empty()).then(|| Table {
        title: "Agreement with the other platform".to_owned(),
        text: format!(
            "Aggregate goodput of small forms in Mbit/s: mean ± standard error (runs). {}.",
            counts.join("; ")
        ),
        columns: ["plan", "series", "point", "simulator", "other platform", "ratio", "outcome"]
            .map(str::to_owned)
            .to_vec(),
        rows: points.iter().map(row).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Level;

    fn pair(outcome: Outcome) -> Pair {
        let estimate =
            |mean_mbps, standard_error_mbps| Estimate { mean_mbps, standard_error_mbps, runs: 3, late_runs: 0 };
        Pair {
            plan: "S1".to_owned(),
            series: "DFCP, \"flood\"".to_owned(),
            point: vec![("loss".to_owned(), Level::Number(0.01)), ("flows".to_owned(), Level::Number(2.0))],
            has_loss: true,
            tolerance: 0.2,
            ours: estimate(92.5, Some(0.25)),
            reference: estimate(90.0, None),
            outcome,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let pairs = [pair(Outcome::Agrees), pair(Outcome::Differs), pair(Outcome::NotSure)];
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), []);
        fs::write(directory.path().join(FILE), csv(&pairs)).unwrap();
        let points = read(directory.path()).unwrap();
        for (point, pair) in points.iter().zip(&pairs) {
            assert_eq!(
                (&point.plan, &point.series, point.point.as_str()),
                (&pair.plan, &pair.series, "loss 0.01, flows 2")
            );
            assert_eq!((point.ours, point.reference, point.outcome), (pair.ours, pair.reference, pair.outcome));
            assert_eq!((point.has_loss, point.ratio), (pair.has_loss, pair.ratio()));
        }
        assert_eq!(Count::of_compared(&points, true), Count { agree: 1, differ: 1, not_sure: 1 });
        let table = table(&points).unwrap();
        assert_eq!(table.rows[0][3..], ["92.5 ± 0.25 (3)", "90.0 (3)", "1.028", "agrees"]);
    }

    #[test]
    fn a_broken_line_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let good = csv(&[pair(Outcome::Agrees)]);
        for (text, line) in
            [("", 1), ("plan\r\n", 1), (&good.replace("agrees", "is fine"), 2), (&good.replace(",3,", ","), 2)]
        {
            fs::write(directory.path().join(FILE), text).unwrap();
            let error = read(directory.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line} is not")), "{error}");
        }
    }
}
