//! Resolved web traffic of a flow: pages drawn from the seed.

use dfcp_sim::{WebConfig, WebConnection};
use dfcp_time::Time;
use serde::{Deserialize, Serialize};

use super::quantity::{ns, positive};
use crate::draw::Draw;
use crate::plan::{Carrier, Flows};

/// Maximum number of connections per page.
const CONNECTIONS_MAX: u32 = 1_000;
/// Greatest mean size of a connection, bytes: about a film.
const CONNECTION_BYTES_MAX: u64 = 10_000_000_000;
/// Maximum number of connections in a run: all are kept in memory to the end.
const ALL_CONNECTIONS_MAX: f64 = 1e6;

/// Web user that loads pages, each over several connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebSpec {
    /// Connections per page, all opened at the same time.
    pub connections: u32,
    /// Mean bytes per connection.
    pub connection_bytes: u64,
    /// Mean time between pages, ns.
    pub page_every_ns: u64,
    /// Connections drawn from the seed; empty before [`Scenario::drawn`](super::Scenario::drawn).
    #[serde(skip)]
    pub drawn: Vec<WebConnection>,
}

/// Resolves the web traffic of `group`; `None` if it has none. `carrier` must be a model of TCP.
pub(super) fn web(group: &Flows, carrier: &Carrier, duration_s: f64) -> Result<Option<WebSpec>, String> {
    let Some(table) = group.web else { return Ok(None) };
    let name = carrier.name();
    if !carrier.kind.is_tcp() {
        return Err(format!("the transport {name:?} has no web traffic; use a TCP, or remove [flows.web]"));
    }
    if group.bytes.is_some() {
        return Err("flows of web traffic have no `bytes` of their own; remove them, or [flows.web]".to_owned());
    }
    if !(1..=CONNECTIONS_MAX).contains(&table.connections) {
        return Err(format!("a page has {} connections, but 1 to {CONNECTIONS_MAX} are possible", table.connections));
    }
    if !(1..=CONNECTION_BYTES_MAX).contains(&table.connection_bytes) {
        let bytes = table.connection_bytes;
        return Err(format!("connection_bytes is {bytes}, but lies between 1 and {CONNECTION_BYTES_MAX}"));
    }
    let page_every_s = positive("page_every_s", table.page_every_s, 1e5)?;
    if duration_s / page_every_s * f64::from(table.connections) > ALL_CONNECTIONS_MAX {
        return Err(format!(
            "web traffic makes more than {ALL_CONNECTIONS_MAX} connections in the run; raise page_every_s"
        ));
    }
    Ok(Some(WebSpec {
        connections: table.connections,
        connection_bytes: table.connection_bytes,
        page_every_ns: ns(page_every_s).max(1),
        drawn: Vec::new(),
    }))
}

/// Draws an exponentially distributed number with mean `mean`.
fn exponential(random: &mut Draw, mean: f64) -> f64 {
    -mean * (1.0 - random.unit()).ln()
}

impl WebSpec {
    /// Draws all connections that open between `start_ns` and `end_ns`. Does nothing if they have been drawn before.
    pub(super) fn draw(&mut self, random: &mut Draw, (start_ns, end_ns): (u64, u64)) {
        if !self.drawn.is_empty() {
            return;
        }
        let mut page_ns = start_ns as f64;
        loop {
            page_ns += exponential(random, self.page_every_ns as f64).max(1.0);
            if page_ns >= end_ns as f64 {
                break;
            }
            for _ in 0..self.connections {
                let bytes = exponential(random, self.connection_bytes as f64).ceil().max(1.0) as u64;
                self.drawn.push(WebConnection { start: Time::from_ns(page_ns as u64), bytes });
            }
        }
    }

    /// Returns the settings for the simulator.
    pub(super) fn to_sim(&self, tcp: dfcp_sim::tcp::Config) -> WebConfig {
        WebConfig { tcp, connections: self.drawn.clone() }
    }
}
