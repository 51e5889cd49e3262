//! Handle of a transfer in progress.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::{mpsc, watch};

use crate::error::TransferError;
use crate::event::Event;
use crate::report::Report;

/// Future that runs a whole session.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Report, TransferError>> + Send>>;

/// Session of a transfer: a stream of [`Event`]s that ends with a [`Report`].
///
/// The transfer proceeds only while it is polled: by [`Transfer::next`], as a [`Stream`], or by [`Transfer::finish`].
/// Dropping it early resets the connection. Complete files then stay at the receiver, which may also keep partial
/// files. To give the other side a reason, cancel by [`Transfer::canceller`].
pub struct Transfer {
    work: Option<Work>,
    outcome: Option<Result<Report, TransferError>>,
    events: mpsc::UnboundedReceiver<Event>,
    canceller: Canceller,
}

/// Handle that cancels a transfer from any thread. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<watch::Sender<bool>>);

impl Canceller {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Cancels the transfer. A receiver confirms complete files and tells its sender that it was stopped
    /// ([`TransferError::Stopped`]). A sender aborts its connection ([`TransferError::Cancelled`]). In both cases,
    /// another session may resume.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Completes when [`Canceller::cancel`] was called.
    pub(crate) async fn cancelled(&self) {
        // The watch sender is a field of this value, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|&asked| asked).await;
    }
}

impl Transfer {
    pub(crate) fn new(work: Work, events: mpsc::UnboundedReceiver<Event>, canceller: Canceller) -> Self {
        Self { work: Some(work), outcome: None, events, canceller }
    }

    /// Runs the transfer up to its next event. `None` at the end; [`Transfer::finish`] then returns the result.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Polls for the next event; see [`Transfer::next`].
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Some(event));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if let Poll::Ready(outcome) = work.as_mut().poll(cx) {
            (self.work, self.outcome) = (None, Some(outcome));
            return Poll::Ready(self.events.try_recv().ok());
        }
        // The session may have sent an event during this poll.
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Runs the transfer to its end, discarding events.
    ///
    /// # Errors
    /// Fails if the session broke, was refused or was cancelled. Confirmed files stay stored; files without an outcome
    /// may be stored or not. Failures of single files are part of the report instead. [`TransferError::may_be_resumed`]
    /// tells whether another session may continue.
    pub async fn finish(mut self) -> Result<Report, TransferError> {
        self.events.close();
        while self.events.try_recv().is_ok() {}
        match (self.outcome, self.work) {
            (Some(outcome), _) => outcome,
            (None, Some(work)) => work.await,
            // Unreachable: either the work or its outcome is always present.
            (None, None) => Err(TransferError::DiskThread),
        }
    }

    /// Runs the transfer to its end as [`Transfer::finish`] does. If `stop` completes first, the transfer is cancelled.
    ///
    /// # Errors
    /// Fails as [`Transfer::finish`] does.
    pub async fn finish_unless(self, stop: impl Future<Output = ()>) -> Result<Report, TransferError> {
        let canceller = self.canceller.clone();
        let finish = self.finish();
        tokio::pin!(finish, stop);
        tokio::select! {
            outcome = &mut finish => outcome,
            () = &mut stop => {
                canceller.cancel();
                finish.await
            }
        }
    }

    /// Returns a handle that cancels this transfer.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }
}

impl Stream for Transfer {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(cx)
    }
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("outcome", &self.outcome).finish_non_exhaustive()
    }
}
