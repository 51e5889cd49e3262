//! Instructions per repetition of every case, with the build that was counted.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::callgrind::{Executed, Valgrind};
use crate::cases::{self, Case};

/// Build settings of `.ci/run` and `run.sh`, as passed by the build script.
const SETTINGS_RECORDED: &str = "profile=release lto=off codegen_units=16";

/// Build properties that affect counts, except the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Build {
    /// Version of the compiler.
    pub(crate) rustc: String,
    /// Overridden settings of the profile.
    pub(crate) settings: String,
    /// Target architecture.
    pub(crate) architecture: String,
    /// Kernel chosen by the codec under valgrind.
    pub(crate) kernel: String,
}

impl Build {
    /// Build of this program.
    pub(crate) fn current(kernel: String) -> Self {
        let (rustc, settings) = (env!("DFCP_RUSTC").to_owned(), env!("DFCP_SETTINGS").to_owned());
        Self { rustc, settings, architecture: std::env::consts::ARCH.to_owned(), kernel }
    }

    pub(crate) fn has_recorded_settings(&self) -> bool {
        self.settings == SETTINGS_RECORDED
    }

    /// Returns why counts are not comparable, if the cause is the build settings.
    pub(crate) fn differs_by_settings(&self, now: &Self) -> Option<String> {
        (self.settings != now.settings).then(|| {
            format!(
                "the counts recorded are for the settings `{}`, and this was built with `{}`",
                self.settings, now.settings
            )
        })
    }

    /// Returns why counts are not comparable, if the cause is the compiler or the machine.
    pub(crate) fn differs_by_machine(&self, now: &Self) -> Option<String> {
        let machine = |build: &Self| format!("{}, {}, kernel {}", build.rustc, build.architecture, build.kernel);
        (machine(self) != machine(now))
            .then(|| format!("the counts recorded are for {}, and this is {}", machine(self), machine(now)))
    }
}

/// Counts of all cases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) build: Build,
    pub(crate) valgrind: String,
    /// Instructions per unit, by case, and by case and part.
    pub(crate) instructions: BTreeMap<String, f64>,
}

/// Name of a part in the records.
pub(crate) fn part_name(case: &Case, part: &str) -> String {
    format!("{}: {part}", case.name)
}

/// Counts every case, as many at a time as there are processors: each is a separate process, and counts do not depend on time.
///
/// # Errors
/// Fails if a case cannot be counted.
pub(crate) fn all(valgrind: &Valgrind) -> Result<Counts> {
    of(valgrind, &cases::all())
}

/// Counts these cases in parallel.
///
/// # Errors
/// Fails if a case cannot be counted.
pub(crate) fn of(valgrind: &Valgrind, cases: &[Case]) -> Result<Counts> {
    // The longest cases are last in the list, and started first.
    let (next, counted) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(case) = cases.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)).map(|at| &cases[at]) {
            let result = one(valgrind, case);
            counted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(result);
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(cases.len());
        (0..workers).for_each(|_| _ = scope.spawn(work));
    });
    let (mut instructions, mut kernel) = (BTreeMap::new(), None);
    for result in counted.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        let (counts, used) = result?;
        instructions.extend(counts);
        let known = kernel.get_or_insert_with(|| used.clone());
        ensure!(*known == used, "the cases did not all choose the same kernel");
    }
    let build = Build::current(kernel.context("there are no cases")?);
    Ok(Counts { build, valgrind: valgrind.version.clone(), instructions })
}

/// Instructions per repetition of one case and of its parts, and the kernel.
fn one(valgrind: &Valgrind, case: &Case) -> Result<(Vec<(String, f64)>, String)> {
    let executed = valgrind.execute(case)?;
    Ok((per_repetition(case, &executed), executed.kernel))
}

/// Counts per repetition. A case with parts is their sum: other instructions belong to the measurement.
fn per_repetition(case: &Case, executed: &Executed) -> Vec<(String, f64)> {
    // Counts are rounded to a tenth of an instruction.
    let per_repetition = |count: u64| (count as f64 * 10.0 / case.repetitions as f64).round() / 10.0;
    let whole = if case.parts.is_empty() { executed.total } else { executed.parts.iter().sum() };
    let parts = case.parts.iter().zip(&executed.parts);
    let parts = parts.map(|((part, _), count)| (part_name(case, part), per_repetition(*count)));
    std::iter::once((case.name.to_owned(), per_repetition(whole))).chain(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_the_sum_of_its_parts_if_it_has_any() {
        let case = Case {
            name: "x",
            unit: "y",
            what: "z",
            repetitions: 10,
            parts: &[("a", "A"), ("b", "B")],
            run: |_| Ok(()),
        };
        let executed = Executed { total: 300, parts: vec![135, 16], kernel: String::new() };
        let counts = per_repetition(&case, &executed);
        assert_eq!(counts, [("x".to_owned(), 15.1), ("x: a".to_owned(), 13.5), ("x: b".to_owned(), 1.6)]);
        let alone = Case { parts: &[], ..case };
        assert_eq!(per_repetition(&alone, &Executed { parts: vec![], ..executed }), [("x".to_owned(), 30.0)]);
    }
}
