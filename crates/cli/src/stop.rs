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

/// The signals by which users end a program: Ctrl-C, and where there are signals SIGTERM. Values that are dropped then leave what is
/// unfinished to be resumed, or remove it.
#[derive(Debug)]
pub struct EndSignals {
    #[cfg(unix)]
    caught: Vec<tokio::signal::unix::Signal>,
}

impl EndSignals {
    /// Catches them from now on: one that comes before anything waits for it is not lost, and does not kill.
    ///
    /// # Panics
    /// Outside of tokio's runtime.
    #[must_use]
    pub fn catch() -> Self {
        Self {
            #[cfg(unix)]
            caught: {
                use tokio::signal::unix::{SignalKind, signal};
                let caught = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
                // The system's own handling of a signal remains without; only the cleaning up is lost.
                caught
                    .into_iter()
                    .filter_map(|one| one.inspect_err(|error| tracing::warn!(%error, "cannot catch a signal")).ok())
                    .collect()
            },
        }
    }

    /// Completes with the next of them.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let comes = self.caught.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if comes { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// Completes with the next of them.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "cannot listen for Ctrl-C");
            std::future::pending::<()>().await;
        }
    }
}
