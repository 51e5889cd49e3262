//! `--metrics`: counters of a server, in the Prometheus text format.
//!
//! Counters live in the protocol crates and servers; a [`Source`] renders them on request. A peer cannot choose any
//! label, so the number of time series is fixed.

mod http;
mod of_endpoint;
#[cfg(test)]
mod tests;
pub mod text;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use self::of_endpoint::OfEndpoint;
use self::text::{Kind, Text};
use crate::args::MetricsArgs;
use crate::limits::METRICS_AGE_MAX;
use crate::output;
use crate::resolve::resolve;

/// Provider of metrics.
pub trait Source: Send + Sync {
    /// Renders the current values. Must not wait for a peer.
    fn write(&self, text: &mut Text);
}

/// Cached page, rendered at most once every [`METRICS_AGE_MAX`].
pub(crate) struct Page {
    sources: Vec<Arc<dyn Source>>,
    last: Mutex<Option<(Instant, String)>>,
}

impl Page {
    pub(crate) fn new(sources: Vec<Arc<dyn Source>>) -> Self {
        Self { sources, last: Mutex::default() }
    }

    pub(crate) fn text(&self) -> String {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, text)) = &*last
            && made.elapsed() < METRICS_AGE_MAX
        {
            return text.clone();
        }
        let mut text = Text::default();
        let version = env!("CARGO_PKG_VERSION");
        text.family(Kind::Gauge, "dfcp_build_info", "The version that runs.").labelled(&[("version", version)], 1);
        self.sources.iter().for_each(|source| source.write(&mut text));
        let text = text.finish();
        *last = Some((Instant::now(), text.clone()));
        text
    }
}

/// Metrics server, which runs until dropped.
#[derive(Debug)]
pub struct Exporter {
    address: SocketAddr,
    task: JoinHandle<std::convert::Infallible>,
}

impl Exporter {
    /// Listens at the address of `--metrics` and prints it; `None` without the option.
    ///
    /// # Errors
    /// Fails if the address cannot be used.
    pub async fn start(args: &MetricsArgs, sources: Vec<Arc<dyn Source>>, json: bool) -> anyhow::Result<Option<Self>> {
        let Some(place) = &args.metrics else { return Ok(None) };
        let listener = match resolve(place).await {
            Ok(addresses) => TcpListener::bind(&*addresses).await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        let listener = listener
            .with_context(|| format!("cannot serve --metrics at {place}, choose another port of this machine"))?;
        let address = listener.local_addr()?;
        let url = format!("http://{address}{}", http::PATH);
        if json {
            output::json(&json!({ "event": "metrics", "url": url }));
        } else {
            output::note(&format!("metrics at {url}"));
        }
        if !address.ip().is_loopback() {
            output::always(&format!("warning: everyone who can reach {address} can read the metrics"));
        }
        let task = tokio::spawn(http::serve(listener, Arc::new(Page::new(sources))));
        Ok(Some(Self { address, task }))
    }

    /// Returns the listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}
