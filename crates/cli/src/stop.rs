//! Stop requests of the user.

use tokio::sync::watch;

/// Receiver of the request to stop the program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Creates a stop receiver with its sender.
    #[must_use]
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (ask, asked) = watch::channel(false);
        (ask, Self(asked))
    }

    /// Completes when the stop is requested; never if all senders are dropped.
    pub async fn requested(&self) {
        let mut asked = self.0.clone();
        if asked.wait_for(|&asked| asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// True after the request.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Runs `work` until it completes; `None` if the stop request aborts it first.
    pub async fn cut<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.requested() => None,
        }
    }

    /// Returns a stop receiver that never fires.
    #[must_use]
    pub fn never() -> Self {
        Self::new().1
    }
}

/// Error of an interrupted command: what was interrupted, and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Interrupted(pub String);
