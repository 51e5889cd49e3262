//! Combined account of all sessions of a transfer.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfcp_files::{EntryOutcome, Observer, Report, Skipped, Snapshot, TransferError};
use tokio::time::Instant;

use super::Watch;
use crate::limits::CONFIRMED_KNOWN_MAX;
use crate::progress::Display;
use crate::progress::OutageFigures;
use crate::silence::Silence;

/// Counts each confirmed entry once over all sessions, and displays all sessions as one transfer. Each session offers
/// every entry again, so only the last session's failures and skips are reported.
#[derive(Debug)]
pub struct Account {
    display: Display,
    silence: Silence,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    /// Number of sessions so far, including the current one.
    sessions: u32,
    may_take_several: bool,
    /// Outcomes confirmed over all sessions.
    total: Report,
    /// Name hashes of the confirmed entries.
    confirmed: BTreeSet<u64>,
    /// Name hashes of files that were sent completely in earlier sessions, but not confirmed.
    unanswered: BTreeSet<u64>,
    /// Bytes of content received in earlier sessions.
    earlier_bytes: u64,
    /// Bytes of the current session.
    session_bytes: u64,
    /// Minimum number of bytes left to send over all sessions; `None` while unknown.
    least_left_bytes: Option<u64>,
    has_progressed: bool,
}

impl Account {
    /// Creates the account of a transfer, shown on `display`. With `may_take_several`, the transfer may have several
    /// sessions.
    #[must_use]
    pub fn new(display: Display, may_take_several: bool) -> Arc<Self> {
        let state = State {
            began: Instant::now(),
            sessions: 0,
            may_take_several,
            total: Report::default(),
            confirmed: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            earlier_bytes: 0,
            session_bytes: 0,
            least_left_bytes: None,
            has_progressed: false,
        };
        Arc::new(Self { display, silence: Silence::default(), state: Mutex::new(state) })
    }

    /// Ends the transfer with its last session. Returns the report over all sessions.
    pub fn finish(&self, last: Report) -> Report {
        let report = self.state().sum(last);
        self.display.finish(&report);
        report
    }

    /// Ends the transfer without a report.
    pub fn abandon(&self) {
        self.display.abandon();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts an outcome, and returns it for display; `None` if an earlier session has counted it.
    fn entry(&mut self, outcome: &EntryOutcome) -> Option<EntryOutcome> {
        if outcome.failure.is_some() {
            return Some(outcome.clone());
        }
        if !self.may_take_several {
            self.total.add(outcome);
            return Some(outcome.clone());
        }
        let hash = hash(&outcome.name);
        if self.confirmed.len() < CONFIRMED_KNOWN_MAX {
            if !self.confirmed.insert(hash) {
                return None;
            }
        } else if self.confirmed.contains(&hash) {
            return None;
        }
        let was_sent = self.unanswered.remove(&hash);
        let outcome = EntryOutcome { is_unchanged: outcome.is_unchanged && !was_sent, ..outcome.clone() };
        self.total.add(&outcome);
        self.has_progressed = true;
        Some(outcome)
    }

    /// Returns the combined snapshot over all sessions.
    fn snapshot(&mut self, snapshot: &Snapshot) -> Snapshot {
        self.session_bytes = snapshot.done_bytes;
        match snapshot.total_bytes.filter(|_| snapshot.total_is_final) {
            Some(total_bytes) => {
                let left_bytes = total_bytes.saturating_sub(snapshot.done_bytes);
                // A peer that always breaks off at the same point makes no progress, even if it sends much before that
                // point.
                if self.least_left_bytes.is_none_or(|least| left_bytes < least) {
                    self.has_progressed |= snapshot.done_bytes > 0;
                    self.least_left_bytes = Some(left_bytes);
                }
            }
            None => self.has_progressed |= snapshot.done_bytes > 0,
        }
        Snapshot {
            done_bytes: self.earlier_bytes + snapshot.done_bytes,
            total_bytes: snapshot.total_bytes.map(|bytes| self.earlier_bytes + bytes),
            elapsed: self.began.elapsed(),
            ..*snapshot
        }
    }

    fn sum(&mut self, last: Report) -> Report {
        let Report { failed, skipped, left_out, is_strict, failures, unnamed, deletion_skipped, last, .. } = last;
        let total = std::mem::take(&mut self.total);
        let last = Snapshot { elapsed: self.began.elapsed(), ..last };
        let (earlier_bytes, sessions) = (self.earlier_bytes, self.sessions);
        let of_last =
            Report { failed, skipped, left_out, is_strict, failures, unnamed, deletion_skipped, last, ..total };
        Report { earlier_bytes, sessions, ..of_last }
    }
}

impl Watch for Account {
    fn begins(&self) {
        let mut state = self.state();
        state.sessions += 1;
        state.earlier_bytes += std::mem::take(&mut state.session_bytes);
        state.has_progressed = false;
        let is_first = state.sessions == 1;
        drop(state);
        self.silence.note(Duration::ZERO);
        if !is_first {
            self.display.begin_again();
        }
    }

    fn unheard(&self) -> Duration {
        self.silence.unheard()
    }

    fn has_progressed(&self) -> bool {
        self.state().has_progressed
    }

    fn lost(&self, cause: &TransferError, limit: Duration) {
        self.display.lost(cause, limit);
    }

    fn waits(&self, outage: &OutageFigures) {
        self.display.waits(outage);
    }

    fn is_back(&self, outage: &OutageFigures) {
        self.display.is_back(outage);
    }
}

impl Observer for Account {
    fn entry(&self, outcome: &EntryOutcome) {
        let shown = self.state().entry(outcome);
        if let Some(outcome) = shown {
            self.display.entry(&outcome);
        }
    }

    fn skipped(&self, name: &str, what: Skipped) {
        self.display.skipped(name, what);
    }

    fn unanswered(&self, name: &str) {
        let mut state = self.state();
        if state.unanswered.len() < CONFIRMED_KNOWN_MAX {
            state.unanswered.insert(hash(name));
        }
    }

    fn progress(&self, snapshot: &Snapshot) {
        self.silence.note(snapshot.unheard);
        let snapshot = self.state().snapshot(snapshot);
        self.display.progress(&snapshot);
    }
}

/// Hashes a name. Collisions, which count two entries as one, are no attack: names come from this user's own files or
/// are displayed to the user.
fn hash(name: &str) -> u64 {
    let mut hash = [0; 8];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut hash);
    u64::from_be_bytes(hash)
}

#[cfg(test)]
mod tests {
    use indicatif::MultiProgress;

    use super::*;

    fn account() -> Arc<Account> {
        Account::new(Display::new(&MultiProgress::new(), "there", false, false), true)
    }

    fn stored(name: &str, bytes: u64) -> EntryOutcome {
        EntryOutcome { name: name.to_owned(), bytes, ..EntryOutcome::default() }
    }

    fn unchanged(name: &str) -> EntryOutcome {
        EntryOutcome { is_unchanged: true, ..stored(name, 5) }
    }

    fn at(done_bytes: u64, total_bytes: u64) -> Snapshot {
        Snapshot { done_bytes, total_bytes: Some(total_bytes), total_is_final: true, ..Snapshot::default() }
    }

    #[test]
    fn what_an_earlier_session_has_stored_is_counted_once_and_as_stored() {
        let account = account();
        account.begins();
        account.entry(&stored("a", 5));
        account.entry(&unchanged("b"));
        account.unanswered("c");
        account.progress(&at(12, 100));
        account.begins();
        for name in ["a", "b", "c", "d"] {
            account.entry(&unchanged(name));
        }
        account.entry(&stored("e", 70));
        account.progress(&at(70, 70));
        let report = account.finish(Report { stored: 1, unchanged: 4, bytes: 70, ..Report::default() });
        assert_eq!(
            (report.stored, report.unchanged, report.bytes),
            (3, 2, 80),
            "a, c and e; b and d were there before"
        );
        assert_eq!((report.earlier_bytes, report.sessions), (12, 2));
    }

    #[test]
    fn failures_are_those_of_the_last_session() {
        let account = account();
        account.begins();
        account.entry(&EntryOutcome { failure: Some("busy".to_owned()), ..stored("a", 0) });
        account.begins();
        account.entry(&stored("a", 5));
        let report = account.finish(Report { stored: 1, ..Report::default() });
        assert_eq!((report.stored, report.failed, report.is_complete()), (1, 0, true));
    }

    #[test]
    fn what_was_left_out_is_what_the_last_session_left_out() {
        let account = account();
        account.begins();
        account.begins();
        let last = Report { skipped: 2, left_out: 2, is_strict: true, ..Report::default() };
        let report = account.finish(last);
        assert_eq!((report.skipped, report.left_out, report.is_complete()), (2, 2, false), "--strict is kept to");
    }

    #[test]
    fn a_peer_that_always_breaks_off_at_the_same_place_brings_nothing_on() {
        let account = account();
        account.begins();
        account.progress(&at(0, 100));
        assert!(!account.has_progressed());
        account.progress(&at(60, 100));
        assert!(account.has_progressed());
        // The session resumes at 50, and gets as far as before.
        account.begins();
        account.progress(&at(0, 50));
        account.progress(&at(10, 50));
        assert!(!account.has_progressed());
        account.progress(&at(11, 50));
        assert!(account.has_progressed());
        account.begins();
        account.entry(&unchanged("a"));
        assert!(account.has_progressed(), "it is known to be there now");
        account.begins();
        account.entry(&unchanged("a"));
        assert!(!account.has_progressed());
    }

    #[test]
    fn progress_goes_on_where_it_was() {
        let account = account();
        account.begins();
        account.progress(&at(60, 100));
        account.begins();
        let shown = account.state().snapshot(&at(1, 41));
        assert_eq!((shown.done_bytes, shown.total_bytes), (61, Some(101)));
    }
}
