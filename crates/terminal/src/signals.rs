//! Signals of the user to end the program.

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
