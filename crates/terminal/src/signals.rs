//! Signals with which the user ends the program.

/// Receiver of end signals: Ctrl-C, and SIGTERM on Unix. Handling them lets destructors run, which keep unfinished work for resumption, or
/// remove it.
#[derive(Debug)]
pub struct EndSignals {
    #[cfg(unix)]
    caught: Vec<tokio::signal::unix::Signal>,
}

impl EndSignals {
    /// Catches the signals from now on: an early one is neither lost nor fatal.
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
                // Without the handler, the system's default remains; only the clean-up is lost.
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
