//! Events of a transfer.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::entry::EntryOutcome;
use crate::observer::Observer;
use crate::skipped::Skipped;
use crate::snapshot::Snapshot;

/// Something that has happened in a transfer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A file, directory or link was stored and verified at the receiver, or failed, or needed nothing.
    Entry(EntryOutcome),
    /// A sender has left something out, or sends it as something else; or a receiver has not deleted it.
    Skipped {
        /// Its path, fit for a terminal.
        name: String,
        /// Why.
        what: Skipped,
    },
    /// The session has ended before it was known if a file arrived that was sent as a whole. Another session tells.
    Unanswered {
        /// The file's name, fit for a terminal.
        name: String,
    },
    /// Figures, every [`REPORT_INTERVAL`](crate::limits::REPORT_INTERVAL).
    Progress(Box<Snapshot>),
}

/// Observer that passes on what it hears as events, and to another observer before.
pub(crate) struct Events {
    events: mpsc::UnboundedSender<Event>,
    first: Option<Arc<dyn Observer>>,
}

impl Events {
    /// With the end at which the events come out. There are no more than the session makes between two polls: nothing of it goes on
    /// without them, except that a sender's search of its own tree runs ahead.
    pub(crate) fn new(first: Option<Arc<dyn Observer>>) -> (Arc<Self>, mpsc::UnboundedReceiver<Event>) {
        let (events, out) = mpsc::unbounded_channel();
        (Arc::new(Self { events, first }), out)
    }

    fn send(&self, event: impl FnOnce() -> Event) {
        if !self.events.is_closed() {
            // A receiver that goes away meanwhile wants none.
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
