//! Statistics of a listener's open and refused connections, printed on request and at the end.

use dfcp::{Endpoint, EndpointStats};
use serde_json::json;

use crate::{output, units};

/// Prints a listener's statistics on SIGUSR1 (on Unix), and in JSON output also when dropped.
#[derive(Debug)]
pub struct StatsLine {
    endpoint: Endpoint,
    json: bool,
    #[cfg(unix)]
    asked: Option<tokio::signal::unix::Signal>,
}

impl StatsLine {
    /// Creates the printer for this endpoint. From now on SIGUSR1 no longer ends the program.
    #[must_use]
    pub fn new(endpoint: Endpoint, json: bool) -> Self {
        #[cfg(unix)]
        let asked = {
            use tokio::signal::unix::{SignalKind, signal};
            signal(SignalKind::user_defined1()).inspect_err(|error| tracing::warn!(%error, "no SIGUSR1")).ok()
        };
        Self {
            endpoint,
            json,
            #[cfg(unix)]
            asked,
        }
    }

    /// Prints at each signal until `work` completes.
    pub async fn during<R>(&mut self, work: impl Future<Output = R>) -> R {
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.asked() => self.print(),
            }
        }
    }

    #[cfg(unix)]
    async fn asked(&mut self) {
        if let Some(asked) = &mut self.asked
            && asked.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }

    #[cfg(not(unix))]
    async fn asked(&mut self) {
        std::future::pending().await
    }

    fn print(&self) {
        let stats = self.endpoint.stats();
        if self.json {
            output::json(&json!({
                "event": "stats", "connections": stats.connections, "half_open": stats.half_open,
                "half_open_bytes": stats.half_open_bytes, "cookies_sent": stats.cookies_sent,
                "refused": stats.refused,
            }));
        } else {
            output::always(&describe(&stats));
        }
    }
}

impl Drop for StatsLine {
    fn drop(&mut self) {
        if self.json {
            self.print();
        }
    }
}

fn describe(stats: &EndpointStats) -> String {
    format!(
        "stats: connections {}, half open {} ({}), cookies sent {}, refused {}",
        stats.connections,
        stats.half_open,
        units::human_bytes(stats.half_open_bytes as u64),
        stats.cookies_sent,
        stats.refused
    )
}
