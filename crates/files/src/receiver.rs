//! The receiving side, for programs.

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

/// Receives what senders send, into a [`Store`](crate::store::Store) or a stream.
///
/// A file gets its name after its hash has matched. What may be overwritten or deleted, and whether unfinished files are kept to be resumed, are
/// options of the store: without them nothing is. The same receiver may serve several sessions, one after the other or at once.
#[derive(Clone)]
pub struct Receiver {
    target: Target,
    scope: Arc<Scope>,
    service: Service,
    observer: Option<Arc<dyn Observer>>,
}

impl Receiver {
    /// Into `target`: an `Arc<Store>`, or [`Target::stream`] for one file.
    pub fn new(target: impl Into<Target>) -> Self {
        let (target, scope) = (target.into(), Arc::new(Scope::everything()));
        Self { target, scope, service: Service::Files, observer: None }
    }

    /// This side has called the sender, which listens.
    #[must_use]
    pub fn from_called(mut self) -> Self {
        self.service = Service::FilesToCaller;
        self
    }

    /// Takes only names that `scope` permits.
    #[must_use]
    pub fn within(mut self, scope: Arc<Scope>) -> Self {
        self.scope = scope;
        self
    }

    /// Tells `observer` everything before it becomes an event. It is called from several threads, and may end the session before anything
    /// that it has not recorded is confirmed ([`Observer::is_recorded`]).
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Begins to receive over `session`, which nothing was written to or read from yet. It ends when the sender has sent everything and was
    /// answered.
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
