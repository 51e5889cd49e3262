//! Public interface of the sending side.

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
/// By default, it sends the named files and directories, resumes partial files, deletes nothing and follows no links.
/// One sender may serve several sessions. After a session has broken, a new session with the same roots resumes the
/// transfer.
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

    /// Resumes partial files that the receiver has kept. On by default.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.options.resume = resume;
        self
    }

    /// Compares files with the receiver's by hash instead of length and modification time.
    #[must_use]
    pub fn checksum(mut self, checksum: bool) -> Self {
        self.options.checksum = checksum;
        self
    }

    /// Sends only the changed parts of large files. The receiver must have an older version that it may replace.
    #[must_use]
    pub fn delta(mut self, delta: bool) -> Self {
        self.options.delta = delta;
        self
    }

    /// Sends no content; reports the entries that would be sent
    /// ([`EntryOutcome::is_wanted`](crate::EntryOutcome::is_wanted)).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.options.dry_run = dry_run;
        self
    }

    /// Asks the receiver to delete files in the sent directories that this side does not have. The receiver must permit
    /// it ([`StoreOptions::allow_delete`](crate::store::StoreOptions::allow_delete)).
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.options.delete = delete;
        self
    }

    /// Sends symbolic links that stay inside the sent tree, and hard links between its files, as links.
    #[must_use]
    pub fn links(mut self, links: bool) -> Self {
        self.options.links = links;
        self
    }

    /// Follows symbolic links inside directories: if `follow` permits the path of a link, its target is sent under the
    /// link's name. Such a link is not sent as a link, regardless of [`Sender::links`]. A directory reached again
    /// within itself is skipped. In directories reached through links, nothing is deleted.
    #[must_use]
    pub fn follow(mut self, follow: impl Into<Permission>) -> Self {
        self.options.follow = follow.into();
        self
    }

    /// Treats skipped entries as failures.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.strict = strict;
        self
    }

    /// Excludes files and directories that match a pattern.
    #[must_use]
    pub fn exclude(mut self, exclude: Exclude) -> Self {
        self.options.exclude = Arc::new(exclude);
        self
    }

    /// Sends to a receiver that has connected to this side.
    #[must_use]
    pub fn to_caller(mut self) -> Self {
        self.options.service = Service::FilesToCaller;
        self
    }

    /// Passes everything to `observer` before it becomes an event. The observer is called from several threads, and can
    /// end the session ([`Observer::is_recorded`]).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts sending everything below `roots` over `session`, from which nothing may have been read or written yet.
    /// The transfer ends once the receiver has answered every file.
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
