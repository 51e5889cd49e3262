//! When the user asks the program to end.

/// Completes on Ctrl-C, or where there are signals on SIGTERM. Whoever is dropped then removes what it left unfinished.
pub async fn requested() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                () = interrupt() => {}
            }
            return;
        }
    }
    interrupt().await;
}

async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        // The system's own handling of the signal remains then; only the cleaning up is lost.
        tracing::warn!(%error, "cannot listen for Ctrl-C");
        std::future::pending::<()>().await;
    }
}
