//! Events of a transfer.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::entry::EntryOutcome;
use crate::observer::Observer;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Event of a transfer, delivered by [`Transfer`](crate::Transfer).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// An entry has its outcome: it was stored and verified, was already there, or failed.
    Entry(EntryOutcome),
    /// A sender has skipped an entry or sends it in another form, or a receiver has kept an entry instead of deleting
    /// it.
    Skipped {
        /// Path of the entry, escaped for a terminal.
        name: String,
        /// Reason.
        what: Skipped,
    },
    /// A file was sent completely, but the session ended before its verdict. The next session receives the verdict.
    Unanswered {
        /// Name of the file, escaped for a terminal.
        name: String,
    },
    /// Periodic statistics, every [`REPORT_INTERVAL`](crate::limits::REPORT_INTERVAL).
    Progress(Box<Snapshot>),
}

/// Observer that emits each call as an event, after passing it to another observer.
pub(crate) struct Events {
    events: mpsc::UnboundedSender<Event>,
    first: Option<Arc<dyn Observer>>,
}

impl Events {
    /// Creates the observer and the receiving end of its events. The channel is unbounded: between two polls, a session
    /// produces few events, except for the walk of the sender's file tree, which runs ahead.
    pub(crate) fn new(first: Option<Arc<dyn Observer>>) -> (Arc<Self>, mpsc::UnboundedReceiver<Event>) {
        let (events, out) = mpsc::unbounded_channel();
        (Arc::new(Self { events, first }), out)
    }

    fn send(&self, event: impl FnOnce() -> Event) {
        if !self.events.is_closed() {
            // An error means that the receiving end was dropped and needs no events.
            let _ = self.events.send(event());
        }
    }
}

impl Observer for Events {
    fn entry(&self, outcome: &EntryOutcome) {
        if let Some(first) = &self.first {
            first.entry(outcome);
        }
        self.send(|| Event::Entry(outcome.clone()));
    }

    fn is_recorded(&self) -> bool {
        self.first.as_ref().is_none_or(|first| first.is_recorded())
    }

    fn skipped(&self, name: &str, what: Skipped) {
        if let Some(first) = &self.first {
            first.skipped(name, what);
        }
        self.send(|| Event::Skipped { name: name.to_owned(), what });
    }

    fn unanswered(&self, name: &str) {
        if let Some(first) = &self.first {
            first.unanswered(name);
        }
        self.send(|| Event::Unanswered { name: name.to_owned() });
    }

    fn progress(&self, snapshot: &Snapshot) {
        if let Some(first) = &self.first {
            first.progress(snapshot);
        }
        self.send(|| Event::Progress(Box::new(*snapshot)));
    }
}
