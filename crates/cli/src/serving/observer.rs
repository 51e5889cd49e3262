//! Observer of one file session of a listener, in either direction.

use std::sync::Arc;

use dfcp_files::{EntryOutcome, Observer, Report, Skipped, Snapshot, TransferError};
use indicatif::MultiProgress;
use serde_json::json;

use super::ending::SessionEnd;
use crate::flags;
use crate::monitor::{self, Outcome};
use crate::output;
use crate::progress::Display;

/// Displays a session, counts it and logs it.
#[derive(Debug)]
pub struct SessionObserver {
    display: Display,
    told: monitor::Session,
    json: bool,
}

impl SessionObserver {
    /// Creates the observer of a started session; with `files`, each file's outcome is displayed.
    #[must_use]
    pub fn new(told: monitor::Session, bars: &MultiProgress, json: bool, files: bool) -> Arc<Self> {
        Arc::new(Self { display: Display::new(bars, told.peer(), json, files), told, json })
    }

    /// Runs the session until it ends, or until a newer session of its peer displaces it.
    ///
    /// # Errors
    /// Passes on the session's error.
    pub async fn watch(
        &self,
        session: impl Future<Output = Result<Report, TransferError>>,
    ) -> Result<Report, TransferError> {
        tokio::select! {
            outcome = session => outcome,
            () = self.told.displaced() => Err(TransferError::Displaced),
        }
    }

    /// Records the end of the session; fewer than `stored_min` stored entries make it incomplete.
    pub fn end(&self, outcome: &Result<Report, TransferError>, stored_min: u64) -> SessionEnd {
        match outcome {
            Ok(report) => {
                self.display.finish(report);
                let is_done = report.is_complete() && report.stored >= stored_min;
                let details = json!({
                    "stored": report.stored, "directories": report.directories, "links": report.links, "unchanged": report.unchanged,
                    "deleted": report.deleted, "failed": report.failed, "bytes": report.bytes,
                });
                self.told.end(if is_done { Outcome::Complete } else { Outcome::Incomplete }, details);
                is_done.into()
            }
            Err(error) => {
                self.display.abandon();
                let message = flags::describe(error);
                self.told.fail(&message);
                let peer = self.told.peer();
                if self.json {
                    output::json(&json!({ "event": "error", "peer": peer, "message": message }));
                } else {
                    output::always(&format!("{peer}: {message}"));
                }
                SessionEnd::of(error)
            }
        }
    }
}

impl Observer for SessionObserver {
    fn entry(&self, outcome: &EntryOutcome) {
        self.told.entry(outcome);
        self.display.entry(outcome);
    }

    fn is_recorded(&self) -> bool {
        self.told.is_recorded()
    }

    fn skipped(&self, name: &str, what: Skipped) {
        self.display.skipped(name, what);
    }

    fn progress(&self, snapshot: &Snapshot) {
        self.told.note_silence(snapshot.unheard);
        self.display.progress(snapshot);
    }
}
