//! The accept loop that `receive` and `perf server` share: many peers at once, but not more than allowed.

use std::io;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::admission::Admission;
use crate::admission::opening::Opening;
use crate::limits::{REFUSALS_MAX, UNADMITTED_MAX};
use crate::transfer::error::{Failure, FailureCode};
use crate::transfer::frame::Service;
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
/// ends; returns whether that one succeeded. Without an `admission` everyone is admitted.
///
/// # Errors
/// The acceptor's; or nobody can be admitted any more.
pub async fn serve<A, F, S>(
    mut acceptor: A,
    serving: Serving,
    admission: Option<Admission>,
    session: F,
) -> io::Result<bool>
where
    A: Acceptor,
    F: Fn(Opening<A::Connection>, String) -> S,
    S: Future<Output = bool> + Send + 'static,
{
    let admission = admission.map(Arc::new);
    let unadmitted = Arc::new(Semaphore::new(UNADMITTED_MAX));
    let peers = Arc::new(Semaphore::new(serving.peers_max));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    // Dropped with this future: aborts what still runs when the program is interrupted.
    let (mut entering, mut sessions) = (JoinSet::new(), JoinSet::new());
    loop {
        let (connection, peer) = tokio::select! {
            accepted = acceptor.accept() => {
                let (connection, peer) = accepted?;
                match Arc::clone(&unadmitted).try_acquire_owned() {
                    Ok(permit) => {
                        entering.spawn(enter(admission.clone(), connection, peer, permit));
                    }
                    Err(_) => turn_away(&mut sessions, &refusals, serving.service, connection, &peer),
                }
                continue;
            }
            Some(entered) = entering.join_next() => match entered {
                Ok(Some(admitted)) => admitted,
                _ if admission.as_ref().is_some_and(|admission| admission.is_closed()) => {
                    return Err(io::Error::other(
                        "nobody can be admitted any more after too many wrong codes; start again with another port, or admit \
                         by keys",
                    ));
                }
                _ => continue,
            },
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
        } else {
            turn_away(&mut sessions, &refusals, serving.service, connection, &peer);
        }
    }
}

/// Lets a connection in, if it is admitted.
async fn enter<T: Transport>(
    admission: Option<Arc<Admission>>,
    connection: T,
    peer: String,
    _permit: OwnedSemaphorePermit,
) -> Option<(Opening<T>, String)> {
    let opening = match admission {
        Some(admission) => admission.admit(connection, &peer).await?,
        None => Opening::new(connection),
    };
    Some((opening, peer))
}

/// Tells a peer that there is no room, unless too many are being told so.
fn turn_away<T: Transport>(
    sessions: &mut JoinSet<()>,
    refusals: &Arc<Semaphore>,
    service: Service,
    connection: T,
    peer: &str,
) {
    let Ok(permit) = Arc::clone(refusals).try_acquire_owned() else { return };
    tracing::info!(peer, "turned away: busy");
    let busy = Failure::new(FailureCode::Busy, "it serves as many peers as it may; try again later");
    sessions.spawn(async move {
        refuse(connection, service, busy).await;
        drop(permit);
    });
}
