//! The sending side, for programs.

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

/// Sends files and directories, each verified by its BLAKE3 hash at the receiver.
///
/// Without options it sends what is named and all that is in it, resumes files of which the receiver has kept the beginning, has nothing deleted
/// and follows no link. The same sender may serve several sessions: after one that broke, another one with the same roots goes on.
#[derive(Clone, Default)]
pub struct Sender {
    options: SendOptions,
    observer: Option<Arc<dyn Observer>>,
}

impl Sender {
    /// Without options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Resumes files of which the receiver has the beginning: yes unless told otherwise.
    #[must_use]
    pub fn resume(mut self, resume: bool) -> Self {
        self.options.resume = resume;
        self
    }

    /// Compares files with those of the receiver by hash, not by length and time.
    #[must_use]
    pub fn checksum(mut self, checksum: bool) -> Self {
        self.options.checksum = checksum;
        self
    }

    /// Sends only the changed parts of large files which the receiver has in an older version, and may replace.
    #[must_use]
    pub fn delta(mut self, delta: bool) -> Self {
        self.options.delta = delta;
        self
    }

    /// Sends nothing, and asks what would be sent ([`EntryOutcome::is_wanted`](crate::EntryOutcome::is_wanted)).
    #[must_use]
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.options.dry_run = dry_run;
        self
    }

    /// Asks the receiver to delete what is in the sent directories there and not here. It has to permit that
    /// ([`StoreOptions::allow_delete`](crate::store::StoreOptions::allow_delete)).
    #[must_use]
    pub fn delete(mut self, delete: bool) -> Self {
        self.options.delete = delete;
        self
    }

    /// Sends symbolic links that lead inside of what is sent, and further names of files, as links.
    #[must_use]
    pub fn links(mut self, links: bool) -> Self {
        self.options.links = links;
        self
    }

    /// Sends what a symbolic link inside a directory leads to, under the link's name, where `follow` permits it: it is asked about the link's path.
    /// Such a link is not sent as a link, whatever [`Sender::links`] says. A directory that is met again within itself is left out, and nothing is
    /// deleted in directories behind links.
    #[must_use]
    pub fn follow(mut self, follow: impl Into<Permission>) -> Self {
        self.options.follow = follow.into();
        self
    }

    /// Counts anything that is left out as a failure.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.options.strict = strict;
        self
    }

    /// Leaves out files and directories by patterns.
    #[must_use]
    pub fn exclude(mut self, exclude: Exclude) -> Self {
        self.options.exclude = Arc::new(exclude);
        self
    }

    /// The receiver has called, and this side listens.
    #[must_use]
    pub fn to_caller(mut self) -> Self {
        self.options.service = Service::FilesToCaller;
        self
    }

    /// Tells `observer` everything before it becomes an event. It is called from several threads, and may end the session
    /// ([`Observer::is_recorded`]).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Begins to send everything below `roots` over `session`, which nothing was written to or read from yet. It ends when the receiver has
    /// confirmed each hash, or said why not.
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
