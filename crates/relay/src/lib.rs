//! UDP relay over an emulated path, in both directions.
//!
//! Clients send to the relay's address. Each client has its own socket towards the target, which receives the replies
//! (like behind a NAT). Each direction is one [`Link`] shared by all clients, a common bottleneck.

#![forbid(unsafe_code)]

mod batch;
mod clients;
mod engine;
mod limits;
mod socket;
mod stats;
mod told;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use dfcp_netem::{Link, LinkConfig, Schedule};
use tokio::task::JoinHandle;

pub use stats::{Datagrams, DirectionStats, RelayStats};
pub use told::is_of_the_past;

use engine::Engine;
use socket::{Local, Socket};

/// Configuration of a relay.
#[derive(Clone, Debug, PartialEq)]
pub struct RelayConfig {
    /// Listening address for clients; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Target to which clients' datagrams are relayed.
    pub to: SocketAddr,
    /// Link from the clients to the target.
    pub forward: LinkConfig,
    /// Link from the target to the clients.
    pub backward: LinkConfig,
    /// Events on the path; their times count from the first client datagram.
    pub schedule: Schedule,
    /// Seed of all random events; each direction has its own random sequence.
    pub seed: u64,
}

impl RelayConfig {
    /// Returns a configuration with equal links in both directions and an empty schedule.
    #[must_use]
    pub fn symmetric(listen: SocketAddr, to: SocketAddr, link: LinkConfig, seed: u64) -> Self {
        Self { listen, to, forward: link.clone(), backward: link, schedule: Schedule::default(), seed }
    }
}

/// A running relay. Dropping it stops the relay.
#[derive(Debug)]
pub struct Relay {
    local_addr: SocketAddr,
    shared: Arc<Mutex<RelayStats>>,
    task: JoinHandle<io::Error>,
}

impl Relay {
    /// Binds the listening socket, and starts relaying on the current tokio runtime.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, or with [`io::ErrorKind::InvalidInput`] if a link's configuration is
    /// invalid.
    pub async fn start(config: RelayConfig) -> io::Result<Self> {
        let link = |link: LinkConfig, seed| {
            let link = link.clone().with_held_bytes_max(link.held_bytes_max.min(limits::HELD_BYTES_MAX));
            Link::new(link, seed).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
        };
        let links = [link(config.forward, config.seed)?, link(config.backward, !config.seed)?];
        let listener = Socket::bind(config.listen, Local::Any)?;
        let local_addr = listener.local_addr()?;
        let (receive_buffer_bytes, send_buffer_bytes) = listener.buffer_bytes()?;
        let shared = Arc::new(Mutex::new(RelayStats {
            receive_buffer_bytes: receive_buffer_bytes as u64,
            send_buffer_bytes: send_buffer_bytes as u64,
            ..RelayStats::default()
        }));
        let engine = Engine::new(listener, config.to, (links, config.schedule), Arc::clone(&shared));
        // A relay polls every client's socket in each round, which exceeds tokio's cooperative budget of 128
        // operations. Its task yields by itself.
        let task = tokio::spawn(tokio::task::unconstrained(engine.run()));
        Ok(Self { local_addr, shared, task })
    }

    /// Returns the listening address for clients.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the counters, as of the relay's last activity.
    #[must_use]
    pub fn stats(&self) -> RelayStats {
        self.counters().stats()
    }

    /// Returns the shared counters, which may outlive the relay.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters(Arc::clone(&self.shared))
    }

    /// Waits until the relay fails, which happens only when its listening socket fails.
    pub async fn failed(&mut self) -> io::Error {
        (&mut self.task).await.unwrap_or_else(io::Error::other)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Handle on the counters of a relay. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Counters(Arc<Mutex<RelayStats>>);

impl Counters {
    /// Returns the counters, as of the relay's last activity.
    #[must_use]
    pub fn stats(&self) -> RelayStats {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
