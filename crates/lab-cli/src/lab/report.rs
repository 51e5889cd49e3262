//! Command `dfcp lab report`: writes the HTML page of all figures from existing records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use dfcp_lab::report::{Report, html};
use dfcp_lab::{Form, Origin, Record, SideBySide, agreement, experiments, figures, legend};

use super::{JudgedPlan, Kept, table};

/// Writes the page into `results` and returns its path.
///
/// # Errors
/// Fails if records cannot be read, or the page cannot be written.
pub(super) fn write(plans: &[SideBySide], kept: Kept<'_>, results: &Path, form: Form) -> anyhow::Result<PathBuf> {
    let mut report = Report { title: "DFCP: the experiments".to_owned(), form, ..Report::default() };
    report.date = date();
    report.tables = legend();
    if let Kept::Archive(directory) = kept {
        report.tables.extend(agreement::table(&agreement::read(directory)?));
    }
    // Records stay valid until the code that made them changes, so they may come from several commits.
    let (mut commits, mut platforms) = (BTreeSet::new(), BTreeSet::new());
    for SideBySide { source, runs, refusals } in plans {
        let all = kept.of(&source.plan.id, runs)?;
        let records: BTreeMap<String, Record> = runs
            .iter()
            .filter_map(|run| all.get(&run.hash))
            .map(|record| (record.hash.clone(), record.clone()))
            .collect();
        if let Some(record) = records.values().next() {
            (report.host, report.version) = (record.host.clone(), record.version.clone());
        }
        platforms.extend(records.values().map(|record| record.platform.clone()));
        commits.extend(records.values().map(|record| record.commit.clone()));
        report.wall_s += records.values().map(|record| record.wall_s).sum::<f64>();
        let mut figures = figures(source, runs, &records);
        if let Some(first) = figures.first_mut() {
            first.notes.extend(refusals.iter().map(|sentence| format!("Not run: {sentence}.")));
        }
        report.figures.extend(figures);
    }
    report.platform = platforms.into_iter().collect::<Vec<_>>().join(", ");
    report.commit = commits.into_iter().collect::<Vec<_>>().join(", ");
    if matches!(kept, Kept::Archive(_)) {
        report.commit += &format!(" (the page: {})", Origin::here().commit);
    }
    let path = results.join("report.html");
    fs::create_dir_all(results)
        .and_then(|()| fs::write(&path, html(&report)))
        .with_context(|| format!("cannot write {}; give another directory with --results", path.display()))?;
    Ok(path)
}

/// Writes tables of all measurements and descriptions of all plans beside the page.
///
/// # Errors
/// Fails if the tables cannot be written.
pub(super) fn write_tables(plans: &[SideBySide], judged: &[JudgedPlan<'_>], results: &Path) -> anyhow::Result<()> {
    let cells = judged.iter().flat_map(|JudgedPlan { plan, overviews, .. }| table::text(plan, overviews));
    let sources: Vec<_> = plans.iter().map(|plan| plan.source.clone()).collect();
    for (name, text) in [("cells.txt", cells.collect::<Vec<_>>().join("\n")), ("experiments.md", experiments(&sources))]
    {
        let path = results.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns today's date in UTC, formatted as 2026-11-21.
fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    day((seconds / 86_400) as i64)
}

/// Formats the date `days` after 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn day(days: i64) -> String {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn known_days() {
        for (days, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_778, "2026-11-21")] {
            assert_eq!(day(days), date);
        }
    }
}
