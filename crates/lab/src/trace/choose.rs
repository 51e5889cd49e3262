//! Selection of one run of a plan, for a trace.

use crate::expand::Run;
use crate::plan::Level;

/// Criteria that select a run of a plan.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Label of the series; optional if there is only one.
    pub series: Option<String>,
    /// Names and values of swept parameters, as text. A parameter with a single value may be left out.
    pub at: Vec<(String, String)>,
}

/// Error of a selection that matches no run, or several. The text lists the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChoiceError(String);

/// Returns the first repetition of the selected run. All `runs` belong to one plan.
///
/// # Errors
/// Fails if no run matches, or several do.
pub fn choose<'run>(runs: &'run [Run], wanted: &Wanted) -> Result<&'run Run, ChoiceError> {
    let Some(first) = runs.first() else { return Err(ChoiceError("the plan has no runs".to_owned())) };
    let plan = &first.plan;
    let label = series(runs, plan, wanted.series.as_deref())?;
    let mut left: Vec<&Run> = runs.iter().filter(|run| run.series == label && run.repetition == 1).collect();
    for (index, (name, value)) in wanted.at.iter().enumerate() {
        let Some(axis) = first.point.iter().position(|(swept, _)| swept == name) else {
            let swept = list(first.point.iter().map(|(swept, _)| swept.clone()));
            let what = if swept.is_empty() { "nothing".to_owned() } else { format!("{swept} alone") };
            return Err(ChoiceError(format!("--at {name} is not possible, because {plan} sweeps {what}")));
        };
        if wanted.at[..index].iter().any(|(before, _)| before == name) {
            return Err(ChoiceError(format!("--at {name} is given twice; choose one value")));
        }
        let values = levels(&left, axis);
        left.retain(|run| is_same(&run.point[axis].1, value));
        if left.is_empty() {
            return Err(ChoiceError(format!("{plan} has no {name} of {value}; choose one of {values}")));
        }
    }
    if let [run] = left[..] {
        return Ok(run);
    }
    let open = (0..first.point.len()).filter(|&axis| left.iter().any(|run| run.point[axis].1 != left[0].point[axis].1));
    let open = open.map(|axis| format!("--at {}=, one of {}", first.point[axis].0, levels(&left, axis)));
    let open = open.collect::<Vec<_>>().join(", and ");
    Err(ChoiceError(format!("{} points of {plan} are left; choose by {open}", left.len())))
}

/// Returns the label of the series that matches `wanted`, ignoring case; without `wanted`, of the only series.
fn series<'run>(runs: &'run [Run], plan: &str, wanted: Option<&str>) -> Result<&'run str, ChoiceError> {
    let mut labels: Vec<&str> = Vec::new();
    for run in runs {
        if !labels.contains(&run.series.as_str()) {
            labels.push(&run.series);
        }
    }
    let all = || list(labels.iter().map(|label| format!("\"{label}\"")));
    match (wanted, &labels[..]) {
        (None, [only]) => Ok(only),
        (None, _) => Err(ChoiceError(format!("say --series; {plan} has {}", all()))),
        (Some(wanted), _) => {
            let exact = labels.iter().find(|label| **label == wanted);
            let found = exact.or_else(|| labels.iter().find(|label| label.eq_ignore_ascii_case(wanted)));
            found.copied().ok_or_else(|| {
                ChoiceError(format!("{plan} has no series \"{}\"; choose one of {}", wanted.escape_debug(), all()))
            })
        }
    }
}

fn is_same(level: &Level, text: &str) -> bool {
    match level {
        Level::Number(number) => text.parse() == Ok(*number),
        Level::Name(name) => name == text,
    }
}

/// Lists the different values of axis `axis` in the remaining runs, in order.
fn levels(left: &[&Run], axis: usize) -> String {
    let mut found: Vec<String> = Vec::new();
    for run in left {
        let level = run.point[axis].1.to_string();
        if !found.contains(&level) {
            found.push(level);
        }
    }
    list(found.into_iter())
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}
