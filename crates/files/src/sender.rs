//! Sending side of the API.

use std::fmt;
use std::sync::Arc;

use dfcp_framing::frame::Service;

use crate::error::TransferError;
use crate::event::Events;
use crate::exclude::Exclude;
use crate::observer::Observer;
use crate::options::SendOptions;
use crate::permission::Permission;
use crate::send;
use crate::source::Root;
use crate::transfer::{Canceller, Transfer};
use crate::transport::Transport;

/// Sender of files and directories, each verified by its BLAKE3 hash at the receiver.
///
/// By default it sends the named files and directories, resumes partial files, deletes nothing and follows no links. One sender may serve
/// several sessions: after a broken one, another with the same roots resumes.
#[derive(Clone, Default)]
pub struct Sender {
    options: SendOptions,
    observer: Option<Arc<dyn Observer>>,
}

impl Sender {
    /// Creates a sender with default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Resumes partial files of the receiver; on by default.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.options.resume = resume;
        self
    }

    /// Compares files with the receiver's by hash, not by length and time.
    #[must_use]
    pub fn checksum(mut self, checksum: bool) -> Self {
        self.options.checksum = checksum;
        self
    }

    /// Sends only the changed parts of large files, if the receiver has an older version and may replace it.
    #[must_use]
    pub fn delta(mut self, delta: bool) -> Self {
        self.options.delta = delta;
        self
    }

    /// Sends nothing; reports what would be sent ([`EntryOutcome::is_wanted`](crate::EntryOutcome::is_wanted)).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.options.dry_run = dry_run;
        self
    }

    /// Asks the receiver to delete files in the sent directories that this side does not have, if it permits that
    /// ([`StoreOptions::allow_delete`](crate::store::StoreOptions::allow_delete)).
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.options.delete = delete;
        self
    }

    /// Sends symbolic links that stay inside the sent tree, and hard links, as links.
    #[must_use]
    pub fn links(mut self, links: bool) -> Self {
        self.options.links = links;
        self
    }

    /// Sends the target of a symbolic link inside a directory under the link's name, if `follow` permits the link's path. Such a link is
    /// not sent as a link, whatever [`Sender::links`] says. A directory that contains itself is skipped there, and nothing is deleted in
    /// directories behind links.
    #[must_use]
    pub fn follow(mut self, follow: impl Into<Permission>) -> Self {
        self.options.follow = follow.into();
        self
    }

    /// Counts skipped entries as failures.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.strict = strict;
        self
    }

    /// Excludes files and directories by patterns.
    #[must_use]
    pub fn exclude(mut self, exclude: Exclude) -> Self {
        self.options.exclude = Arc::new(exclude);
        self
    }

    /// Sends to a receiver that has called this side.
    #[must_use]
    pub fn to_caller(mut self) -> Self {
        self.options.service = Service::FilesToCaller;
        self
    }

    /// Passes everything to `observer` before it becomes an event. The observer is called from several threads, and can end the session
    /// ([`Observer::is_recorded`]).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts sending everything below `roots` over `session`, from which nothing has been read or written. The transfer ends when the
    /// receiver has answered every file.
    pub fn send<T: Transport>(&self, session: T, roots: Vec<Root>) -> Transfer {
        let (observer, events) = Events::new(self.observer.clone());
        let (options, canceller) = (self.options.clone(), Canceller::new());
        let cancelled = canceller.clone();
        let work = async move {
            tokio::select! {
                outcome = send::send(session, roots, options, observer) => outcome,
                () = cancelled.cancelled() => Err(TransferError::Cancelled),
            }
        };
        Transfer::new(Box::pin(work), events, canceller)
    }
}

impl From<SendOptions> for Sender {
    fn from(options: SendOptions) -> Self {
        Self { options, observer: None }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("options", &self.options).finish_non_exhaustive()
    }
}
