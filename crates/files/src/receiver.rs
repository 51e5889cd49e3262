//! Public interface of the receiving side.

use std::fmt;
use std::sync::Arc;

use dfcp_framing::frame::Service;

use crate::event::Events;
use crate::observer::Observer;
use crate::receive;
use crate::scope::Scope;
use crate::target::Target;
use crate::transfer::{Canceller, Transfer};
use crate::transport::Transport;

/// Receiver of files into a [`Store`](crate::store::Store), or of one file into a stream.
///
/// A file gets its final name only after its hash was verified. Options of the store permit overwriting, deleting, and
/// keeping partial files; all are off by default. One receiver may serve several sessions, also in parallel.
#[derive(Clone)]
pub struct Receiver {
    target: Target,
    scope: Arc<Scope>,
    service: Service,
    observer: Option<Arc<dyn Observer>>,
}

impl Receiver {
    /// Creates a receiver into `target`: an `Arc<Store>`, or [`Target::stream`] for a single file.
    pub fn new(target: impl Into<Target>) -> Self {
        let (target, scope) = (target.into(), Arc::new(Scope::everything()));
        Self { target, scope, service: Service::Files, observer: None }
    }

    /// Receives from a listening sender to which this side has connected.
    #[must_use]
    pub fn from_called(mut self) -> Self {
        self.service = Service::FilesToCaller;
        self
    }

    /// Accepts only names that `scope` permits.
    #[must_use]
    pub fn within(mut self, scope: Arc<Scope>) -> Self {
        self.scope = scope;
        self
    }

    /// Passes everything to `observer` before it becomes an event. The observer is called from several threads. It can
    /// end the session before outcomes that it could not record are confirmed ([`Observer::is_recorded`]).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts receiving over `session`, from which nothing may have been read or written yet. The transfer ends once
    /// the sender has sent everything and received all answers.
    pub fn receive<T: Transport>(&self, session: T) -> Transfer {
        let (observer, events) = Events::new(self.observer.clone());
        let canceller = Canceller::new();
        let cancelled = canceller.clone();
        let to = (self.target.clone(), Arc::clone(&self.scope));
        let service = self.service;
        let work = async move {
            receive::receive_within(session, service, to, observer, async move { cancelled.cancelled().await }).await
        };
        Transfer::new(Box::pin(work), events, canceller)
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("target", &self.target).field("scope", &self.scope).finish_non_exhaustive()
    }
}
