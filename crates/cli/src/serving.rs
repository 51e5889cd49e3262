//! The accept loop that `receive` and `perf server` share: many peers at once, but not more than allowed.

use std::io;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::limits::REFUSALS_MAX;
use crate::transfer::error::{Failure, FailureCode};
use crate::transfer::frame::Service;
use crate::transfer::receive::refuse;
use crate::transport::Acceptor;

/// How to serve.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// What is spoken; a peer which is turned away is told in it.
    pub service: Service,
    /// Peers served at once.
    pub peers_max: usize,
    /// End after one peer.
    pub once: bool,
}

/// Runs `session` for every connection until the acceptor fails, or with `once` until the first session ends; returns
/// whether that one succeeded.
///
/// # Errors
/// The acceptor's.
pub async fn serve<A, F, S>(mut acceptor: A, serving: Serving, session: F) -> io::Result<bool>
where
    A: Acceptor,
    F: Fn(A::Connection, String) -> S,
    S: Future<Output = bool> + Send + 'static,
{
    let peers = Arc::new(Semaphore::new(serving.peers_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    // Dropped with this future: aborts what still runs when the program is interrupted.
    let mut sessions = JoinSet::new();
    loop {
        let (connection, peer) = tokio::select! {
            accepted = acceptor.accept() => accepted?,
            Some(_ended) = sessions.join_next() => continue,
        };
        if serving.once {
            return Ok(session(connection, peer).await);
        }
        if let Ok(permit) = Arc::clone(&peers).try_acquire_owned() {
            let session = session(connection, peer);
            sessions.spawn(async move {
                session.await;
                drop(permit);
            });
        } else if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
            tracing::info!(peer, "turned away: busy");
            let busy = Failure::new(FailureCode::Busy, "it serves as many peers as it may; try again later");
            sessions.spawn(async move {
                refuse(connection, serving.service, busy).await;
                drop(permit);
            });
        }
    }
}
