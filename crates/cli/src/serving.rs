//! The accept loop that `receive` and `perf server` share: many peers at once, but not more than allowed.

pub mod places;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use dfcp::AddressPrefix;
use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::frame::Service;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::places::{Place, Places};
use crate::admission::Admission;
use crate::admission::opening::Opening;
use crate::limits::REFUSALS_MAX;
use crate::stop::Stop;
use crate::transfer::receive::refuse;
use crate::transport::{Acceptor, Transport};

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

/// Runs `session` for every connection that is admitted until the acceptor fails, or with `once` until the first session
/// ends; returns whether that one succeeded. Without an `admission` everyone is admitted. When nobody can be admitted any
/// more, the sessions under way go on to their end first: no stranger ends them by guessing. When the program is to `stop`,
/// nobody is let in any more, and each session is left to tell its peer.
///
/// # Errors
/// The acceptor's; or nobody can be admitted any more.
pub async fn serve<A, F, S>(
    mut acceptor: A,
    serving: Serving,
    admission: Option<Admission>,
    stop: &Stop,
    session: F,
) -> io::Result<bool>
where
    A: Acceptor,
    F: Fn(Opening<A::Connection>, String) -> S,
    S: Future<Output = bool> + Send + 'static,
{
    let admission = admission.map(Arc::new);
    let places = Arc::new(Places::default());
    let peers = Arc::new(Semaphore::new(serving.peers_max));
    let mut refusals = Refusals::new(serving.service);
    // Dropped with this future: aborts what still runs when the program is interrupted.
    let (mut entering, mut sessions) = (JoinSet::new(), JoinSet::new());
    loop {
        let closed = admission.as_ref().is_some_and(|admission| admission.is_closed());
        // A connection that is entering may have been admitted before the last wrong guess.
        if closed && entering.is_empty() && sessions.is_empty() {
            return Err(io::Error::other(
                "nobody can be admitted any more after too many wrong codes; start again with another port, or admit by keys",
            ));
        }
        let (connection, peer) = tokio::select! {
            accepted = acceptor.accept() => {
                let (connection, peer) = accepted?;
                let prefix = connection.peer_address().map(AddressPrefix::from);
                match if closed { None } else { places.take(prefix) } {
                    Some(place) => {
                        entering.spawn(enter(admission.clone(), connection, peer, place));
                    }
                    None => refusals.turn_away(connection, &peer),
                }
                continue;
            }
            Some(entered) = entering.join_next() => match entered {
                Ok(Some(admitted)) => admitted,
                _ => continue,
            },
            Some(_ended) = sessions.join_next() => continue,
            Some(_told) = refusals.tasks.join_next() => continue,
            () = stop.requested() => {
                while sessions.join_next().await.is_some() {}
                return Err(io::ErrorKind::Interrupted.into());
            }
        };
        if serving.once {
            let succeeded = session(connection, peer).await;
            if let Some(admission) = &admission {
                admission.settle().await;
            }
            return Ok(succeeded);
        }
        if let Ok(permit) = Arc::clone(&peers).try_acquire_owned() {
            let session = session(connection, peer);
            sessions.spawn(async move {
                session.await;
                drop(permit);
            });
        } else {
            refusals.turn_away(connection, &peer);
        }
    }
}

/// Lets a connection in, if it is admitted, and unless it loses its place before.
async fn enter<T: Transport>(
    admission: Option<Arc<Admission>>,
    connection: T,
    peer: String,
    mut place: Place,
) -> Option<(Opening<T>, String)> {
    let Some(admission) = admission else { return Some((Opening::new(connection), peer)) };
    let speaks = place.voice();
    let opening = tokio::select! {
        biased;
        opening = admission.admit(connection, &peer, speaks) => opening?,
        () = place.lost() => {
            tracing::info!(peer, "not admitted yet, and gone to make room");
            return None;
        }
    };
    Some((opening, peer))
}

/// Peers being told that there is no room.
struct Refusals {
    service: Service,
    tasks: JoinSet<()>,
}

impl Refusals {
    fn new(service: Service) -> Self {
        Self { service, tasks: JoinSet::new() }
    }

    /// Tells a peer, unless too many are being told.
    fn turn_away<T: Transport>(&mut self, connection: T, peer: &str) {
        if self.tasks.len() >= REFUSALS_MAX {
            return;
        }
        tracing::info!(peer, "turned away: busy");
        let busy = Failure::new(FailureCode::Busy, "it serves as many peers as it may; try again later");
        self.tasks.spawn(refuse(connection, self.service, busy));
    }
}
