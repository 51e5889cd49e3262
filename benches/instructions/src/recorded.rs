//! Recorded counts (`recorded.json`), with which changes are compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::counts::{Build, Counts};

/// Maximum difference from the recorded count, per cent. Changes of other code in the same crates hardly affect a
/// count, because each crate is compiled as one unit (`Cargo.toml`, `profile.release.package`); changed inlining may.
const TOLERANCE_PERCENT: f64 = 2.0;

/// Content of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// Build that was counted.
    pub(crate) build: Build,
    /// Version of valgrind.
    pub(crate) valgrind: String,
    /// Maximum difference from the recorded count, per cent.
    pub(crate) tolerance_percent: f64,
    /// Instructions per unit, by case.
    pub(crate) instructions: BTreeMap<String, f64>,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded.json")
}

impl Recorded {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if the file is missing or invalid.
    pub(crate) fn read() -> Result<Self> {
        let path = path();
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("cannot read {}: `benches/instructions/run.sh record` writes it", path.display())
        })?;
        serde_json::from_str(&text).with_context(|| format!("{} is not what `record` writes", path.display()))
    }

    /// Writes the file, and returns its path.
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub(crate) fn write(counts: &Counts) -> Result<PathBuf> {
        let recorded = Self {
            build: counts.build.clone(),
            valgrind: counts.valgrind.clone(),
            tolerance_percent: TOLERANCE_PERCENT,
            instructions: counts.instructions.clone(),
        };
        let text = serde_json::to_string_pretty(&recorded).context("the counts cannot be written as JSON")?;
        let path = path();
        std::fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;
    use crate::counts::part_name;

    #[test]
    fn every_case_is_recorded_with_the_settings_of_ci() {
        let recorded = Recorded::read().unwrap();
        let names = cases::all().into_iter().flat_map(|case| {
            let parts = case.parts.iter().map(move |(part, _)| part_name(&case, part));
            std::iter::once(case.name.to_owned()).chain(parts)
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert!(recorded.instructions.keys().eq(&names), "`benches/instructions/run.sh record` records them");
        assert!(recorded.build.has_recorded_settings(), "{:?}", recorded.build);
    }
}
