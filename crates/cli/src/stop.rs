//! Requests of the user to end the program.

use tokio::sync::watch;

/// Request to end this program, which has peers to tell so. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// A signal and its sender.
    #[must_use]
    pub fn new() -> (watch::Sender<bool>, Self) {
        let (ask, asked) = watch::channel(false);
        (ask, Self(asked))
    }

    /// Completes on the request; never if all senders of the request are gone.
    pub async fn requested(&self) {
        let mut asked = self.0.clone();
        if asked.wait_for(|&asked| asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// True once it was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// The outcome of `work`; none if it is broken off because the program is to end.
    pub async fn cut<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.requested() => None,
        }
    }

    /// It is not asked for.
    #[must_use]
    pub fn never() -> Self {
        Self::new().1
    }
}

/// The program was told to end while something was under way, or before what it had to do: what that was, and the next step.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Interrupted(pub String);
