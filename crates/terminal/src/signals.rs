//! Signals by which the user ends the program.

/// Receiver of Ctrl-C and, on Unix, SIGTERM. Handling these signals lets destructors run, which keep unfinished work
/// for resumption, or remove it.
#[derive(Debug)]
pub struct EndSignals {
    #[cfg(unix)]
    caught: Vec<tokio::signal::unix::Signal>,
}

impl EndSignals {
    /// Catches the signals from now on. A signal before the first call of [`next`](Self::next) is kept, and does not
    /// kill the process.
    ///
    /// # Panics
    /// Panics outside of tokio's runtime.
    #[must_use]
    pub fn catch() -> Self {
        Self {
            #[cfg(unix)]
            caught: {
                use tokio::signal::unix::{SignalKind, signal};
                let caught = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
                // If a handler cannot be set, the system's default action remains, without the clean-up.
                caught
                    .into_iter()
                    .filter_map(|one| one.inspect_err(|error| tracing::warn!(%error, "cannot catch a signal")).ok())
                    .collect()
            },
        }
    }

    /// Completes at the next signal.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let comes = self.caught.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if comes { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        })
        .await;
    }

    /// Completes at the next signal.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::warn!(%error, "cannot listen for Ctrl-C");
            std::future::pending::<()>().await;
        }
    }
}
