//! Observer of one session of files that a listener serves, in either direction.

use std::sync::Arc;

use indicatif::MultiProgress;
use serde_json::json;

use super::ending::SessionEnd;
use crate::monitor::{self, Outcome};
use crate::output;
use crate::progress::Display;
use crate::transfer::error::TransferError;
use crate::transfer::{EntryOutcome, Observer, Report, Skipped, Snapshot};

/// Shows a session, counts it and writes it down.
#[derive(Debug)]
pub struct SessionObserver {
    display: Display,
    told: monitor::Session,
    json: bool,
}

impl SessionObserver {
    /// The observer of a session that was told to begin. The outcome of each file is shown as well, if `files`.
    #[must_use]
    pub fn new(told: monitor::Session, bars: &MultiProgress, json: bool, files: bool) -> Arc<Self> {
        Arc::new(Self { display: Display::new(bars, told.peer(), json, files), told, json })
    }

    /// Runs the session until it ends, or is displaced by another one of its peer.
    ///
    /// # Errors
    /// The session's.
    pub async fn watch(
        &self,
        session: impl Future<Output = Result<Report, TransferError>>,
    ) -> Result<Report, TransferError> {
        tokio::select! {
            outcome = session => outcome,
            () = self.told.displaced() => Err(TransferError::Displaced),
        }
    }

    /// The session has ended; it was complete only if at least `stored_min` entries were stored.
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
                self.told.fail(error);
                let peer = self.told.peer();
                if self.json {
                    output::json(&json!({ "event": "error", "peer": peer, "message": error.to_string() }));
                } else {
                    output::always(&format!("{peer}: {error}"));
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
