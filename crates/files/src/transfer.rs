//! A transfer under way.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::{mpsc, watch};

use crate::error::TransferError;
use crate::event::Event;
use crate::report::Report;

/// Future of a whole session.
pub(crate) type Work = Pin<Box<dyn Future<Output = Result<Report, TransferError>> + Send>>;

/// One session of a transfer: a stream of [`Event`]s, and its [`Report`] at the end.
///
/// Nothing happens unless it is polled, by [`Transfer::next`] (or as a [`Stream`]) or [`Transfer::finish`]. Dropped before its end, it resets its
/// connection: what is complete stays at the receiver, which may also keep the beginnings of files to be resumed. To tell the other side why,
/// use [`Transfer::canceller`].
pub struct Transfer {
    work: Option<Work>,
    outcome: Option<Result<Report, TransferError>>,
    events: mpsc::UnboundedReceiver<Event>,
    canceller: Canceller,
}

/// Ends a transfer from anywhere. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<watch::Sender<bool>>);

impl Canceller {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Asks the transfer to end: a receiver confirms what is complete and tells its sender that it was stopped
    /// ([`TransferError::Stopped`]), a sender breaks its connection off ([`TransferError::Cancelled`]). Either may be resumed by another session.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Completes once it was asked for.
    pub(crate) async fn cancelled(&self) {
        // The sender of the request lives as long as this.
        let _ = self.0.subscribe().wait_for(|&asked| asked).await;
    }
}

impl Transfer {
    pub(crate) fn new(work: Work, events: mpsc::UnboundedReceiver<Event>, canceller: Canceller) -> Self {
        Self { work: Some(work), outcome: None, events, canceller }
    }

    /// Goes on with the transfer until its next event; `None` when it has ended, as [`Transfer::finish`] then says.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// As [`Transfer::next`].
    pub fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Poll::Ready(Some(event)) = self.events.poll_recv(cx) {
            return Poll::Ready(Some(event));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if let Poll::Ready(outcome) = work.as_mut().poll(cx) {
            (self.work, self.outcome) = (None, Some(outcome));
            return Poll::Ready(self.events.try_recv().ok());
        }
        // The work may have sent an event just now.
        match self.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Some(event)),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    /// Goes on to the end without further events.
    ///
    /// # Errors
    /// The session broke, was refused or cancelled. What was confirmed before stays; nothing is known of files without an outcome.
    /// Files which failed on their own are in the report instead. [`TransferError::may_be_resumed`] says if another session may go on.
    pub async fn finish(mut self) -> Result<Report, TransferError> {
        self.events.close();
        while self.events.try_recv().is_ok() {}
        match (self.outcome, self.work) {
            (Some(outcome), _) => outcome,
            (None, Some(work)) => work.await,
            // One of the two is there from the beginning to the end.
            (None, None) => Err(TransferError::DiskThread),
        }
    }

    /// As [`Transfer::finish`]; once `stop` completes, the transfer is cancelled.
    ///
    /// # Errors
    /// As [`Transfer::finish`].
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

    /// Ends this transfer from elsewhere.
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
