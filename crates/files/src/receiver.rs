//! Receiving side of the API.

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

/// Receiver of files, into a [`Store`](crate::store::Store) or a stream.
///
/// A file gets its name after its hash has matched. Options of the store permit overwriting, deleting, and keeping partial files; by
/// default all are off. One receiver may serve several sessions, also in parallel.
#[derive(Clone)]
pub struct Receiver {
    target: Target,
    scope: Arc<Scope>,
    service: Service,
    observer: Option<Arc<dyn Observer>>,
}

impl Receiver {
    /// Creates a receiver into `target`: an `Arc<Store>`, or [`Target::stream`] for one file.
    pub fn new(target: impl Into<Target>) -> Self {
        let (target, scope) = (target.into(), Arc::new(Scope::everything()));
        Self { target, scope, service: Service::Files, observer: None }
    }

    /// Receives from a listening sender that this side has called.
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

    /// Passes everything to `observer` before it becomes an event. The observer is called from several threads, and can end the session
    /// before unrecorded outcomes are confirmed ([`Observer::is_recorded`]).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Starts receiving over `session`, from which nothing has been read or written. The transfer ends when the sender has sent everything
    /// and was answered.
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
