//! Summaries of many entries: one line per reason, with the number of entries and a few of their names.
//!
//! Entries end in any order, because several streams carry them. The shown names are the first in sort order.

use std::collections::BTreeSet;

use dfcp_files::{EntryKind, EntryOutcome, Skipped};

use crate::flags;
use crate::limits::{GROUPS_MAX, NAMES_SHOWN_MAX};

/// Failed and skipped entries, grouped by reason.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    failed: Vec<(String, Names)>,
    /// Number of failed entries without a group, because [`GROUPS_MAX`] other reasons have one.
    failed_beyond: u64,
    skipped: Vec<(Skipped, Names)>,
}

#[derive(Debug, Default)]
struct Names {
    count: u64,
    has_others: bool,
    /// First names in sort order, at most [`NAMES_SHOWN_MAX`].
    first: BTreeSet<String>,
}

impl Groups {
    /// Counts an entry if it failed.
    pub(crate) fn entry(&mut self, outcome: &EntryOutcome) {
        let Some(reason) = &outcome.failure else { return };
        if self.failed.len() >= GROUPS_MAX && !self.failed.iter().any(|(known, _)| known == reason) {
            self.failed_beyond += 1;
            return;
        }
        names_of(&mut self.failed, reason.clone()).add(&outcome.name, outcome.kind != EntryKind::File);
    }

    /// Counts a skipped entry.
    pub(crate) fn skipped(&mut self, name: &str, what: Skipped) {
        names_of(&mut self.skipped, what).add(name, false);
    }

    /// Returns one line per reason, for display.
    pub(crate) fn lines(&self) -> Vec<String> {
        let skipped = self
            .skipped
            .iter()
            .map(|(what, names)| format!("{}: {}", flags::skipped_counted(*what, names.count), names.list()));
        let failed = self.failed.iter().map(|(reason, names)| match names.count {
            1 => format!("failed: {}: {reason}", names.list()),
            count if names.has_others => format!("failed: {count} entries: {reason} ({})", names.list()),
            count => format!("failed: {count} files: {reason} ({})", names.list()),
        });
        let beyond =
            (self.failed_beyond > 0).then(|| format!("failed: {} more, for other reasons", self.failed_beyond));
        skipped.chain(failed).chain(beyond).collect()
    }
}

impl Names {
    fn add(&mut self, name: &str, is_other: bool) {
        self.count += 1;
        self.has_others |= is_other;
        self.first.insert(name.to_owned());
        if self.first.len() > NAMES_SHOWN_MAX {
            self.first.pop_last();
        }
    }

    fn list(&self) -> String {
        let listed = self.first.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        match self.count.saturating_sub(self.first.len() as u64) {
            0 => listed,
            more => format!("{listed} and {more} more"),
        }
    }
}

/// Returns the names under `key`; adds an empty group if there is none.
fn names_of<K: PartialEq>(groups: &mut Vec<(K, Names)>, key: K) -> &mut Names {
    let place = groups.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
        groups.push((key, Names::default()));
        groups.len() - 1
    });
    &mut groups[place].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(name: &str, reason: &str, is_directory: bool) -> EntryOutcome {
        let kind = if is_directory { EntryKind::Directory } else { EntryKind::File };
        EntryOutcome { name: name.to_owned(), kind, failure: Some(reason.to_owned()), ..EntryOutcome::default() }
    }

    #[test]
    fn each_reason_has_one_line_with_the_first_names() {
        let mut groups = Groups::default();
        for number in (1000..3000).rev() {
            groups.entry(&failed(&format!("f{number}"), "it exists", false));
        }
        groups.entry(&failed("alone", "it is odd", true));
        groups.entry(&EntryOutcome { name: "stored".to_owned(), ..EntryOutcome::default() });
        for name in ["e", "d"] {
            groups.entry(&failed(name, "it may not", true));
        }
        groups.skipped("link", Skipped::Link);
        let lines = groups.lines();
        assert_eq!(
            lines,
            [
                "1 symbolic link was skipped without --links: link",
                "failed: 2000 files: it exists (f1000, f1001, f1002, f1003, f1004 and 1995 more)",
                "failed: alone: it is odd",
                "failed: 2 entries: it may not (d, e)",
            ]
        );
    }

    #[test]
    fn a_peer_with_ever_new_reasons_is_bounded() {
        let mut groups = Groups::default();
        for number in 0..GROUPS_MAX + 10 {
            groups.entry(&failed("f", &number.to_string(), false));
        }
        groups.entry(&failed("g", "0", false));
        let lines = groups.lines();
        assert_eq!(lines.len(), GROUPS_MAX + 1);
        assert_eq!(lines.last().map(String::as_str), Some("failed: 10 more, for other reasons"));
        assert_eq!(lines[0], "failed: 2 files: 0 (f, g)");
    }
}
