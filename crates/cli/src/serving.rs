//! The accept loop that `receive`, `send --listen` and `perf server` share: many peers at once, but not more than allowed.

pub mod observer;
pub mod places;
pub mod shares;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::sync::Arc;

use dfcp::AddressPrefix;
use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::frame::Service;
use tokio::task::{JoinError, JoinSet};

use self::places::{Place, Places};
use self::shares::Shares;
use crate::admission::opening::Opening;
use crate::admission::{Admission, By};
use crate::limits::REFUSALS_MAX;
use crate::monitor::{Cause, Monitor, Session};
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

/// The end of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// After one peer: whether its session succeeded.
    Once(bool),
    /// Because the program is to end: as many sessions were broken off.
    Stopped {
        /// They have told their peers.
        under_way: usize,
    },
}

/// Runs `session` for every connection that is admitted until the acceptor fails, or with `once` until the first session
/// ends. Without an `admission` everyone is admitted. When nobody can be admitted any
/// more, the sessions under way go on to their end first: no stranger ends them by guessing. When the program is to `stop`,
/// nobody is let in any more, and each session is left to tell its peer. Everything is told to `monitor`, which lets nobody in
/// while its audit log cannot be written.
///
/// # Errors
/// The acceptor's; or nobody can be admitted any more.
pub async fn serve<A, F, S>(
    mut acceptor: A,
    serving: Serving,
    admission: Option<Admission>,
    monitor: &Arc<Monitor>,
    stop: &Stop,
    session: F,
) -> io::Result<Served>
where
    A: Acceptor,
    F: Fn(Opening<A::Connection>, Session) -> S,
    S: Future<Output = bool> + Send + 'static,
{
    let admission = admission.map(Arc::new);
    let places = Arc::new(Places::default());
    // Measurements and pipes have places of their own kind: many may come from one host on purpose.
    let peers = Shares::new(serving.peers_max, serving.service.is_files());
    let mut refusals = Refusals::new(serving.service, Arc::clone(monitor));
    // Dropped with this future: aborts what still runs when the program is interrupted.
    let (mut entering, mut sessions) = (JoinSet::new(), JoinSet::new());
    let mut broken_off = 0;
    let is_broken_off = |ended: &Result<bool, JoinError>| matches!(ended, Ok(true));
    loop {
        let closed = admission.as_ref().is_some_and(|admission| admission.is_closed());
        // A connection that is entering may have been admitted before the last wrong guess.
        if closed && entering.is_empty() && sessions.is_empty() {
            return Err(io::Error::other(
                "nobody can be admitted any more after too many wrong codes; start again with another port, or admit by keys",
            ));
        }
        let (connection, peer, by) = tokio::select! {
            accepted = acceptor.accept() => {
                let (connection, peer) = accepted?;
                let prefix = connection.peer_address().map(AddressPrefix::from);
                match if closed { None } else { places.take(prefix) } {
                    Some(place) => {
                        entering.spawn(enter(admission.clone(), Arc::clone(monitor), connection, peer, place));
                    }
                    None => refusals.turn_away(connection, &peer, Cause::Busy),
                }
                continue;
            }
            Some(entered) = entering.join_next() => match entered {
                Ok(Some(admitted)) => admitted,
                _ => continue,
            },
            Some(ended) = sessions.join_next() => {
                broken_off += usize::from(is_broken_off(&ended));
                continue;
            }
            Some(_told) = refusals.tasks.join_next() => continue,
            () = stop.requested() => {
                while let Some(ended) = sessions.join_next().await {
                    broken_off += usize::from(is_broken_off(&ended));
                }
                return Ok(Served::Stopped { under_way: broken_off });
            }
        };
        let key = connection.seal().and_then(|seal| seal.peer);
        let share = peers.take(key);
        if share.is_none() && !serving.once {
            refusals.turn_away(connection, &peer, Cause::Busy);
            continue;
        }
        let Some(began) = monitor.begin(peer.clone(), key, by) else {
            refusals.tell(connection, &peer, Cause::AuditLog);
            continue;
        };
        let session = session(connection, began);
        if serving.once {
            let succeeded = session.await;
            if let Some(admission) = &admission {
                admission.settle().await;
            }
            let is_cut = !succeeded && stop.is_requested();
            return Ok(if is_cut { Served::Stopped { under_way: 1 } } else { Served::Once(succeeded) });
        }
        let stop = stop.clone();
        sessions.spawn(async move {
            let succeeded = session.await;
            drop(share);
            // Decided here: a session may hear of the end, and be over, before this loop has heard of it.
            !succeeded && stop.is_requested()
        });
    }
}

/// Lets a connection in, if it is admitted, and unless it loses its place before. Without an `admission` it is not encrypted, or it
/// does not matter who it is.
async fn enter<T: Transport>(
    admission: Option<Arc<Admission>>,
    monitor: Arc<Monitor>,
    connection: T,
    peer: String,
    mut place: Place,
) -> Option<(Opening<T>, String, Option<By>)> {
    let Some(admission) = admission else { return Some((Opening::new(connection), peer, None)) };
    let speaks = place.voice();
    let key = connection.seal().and_then(|seal| seal.peer);
    let decided = tokio::select! {
        biased;
        decided = admission.admit(connection, &peer, speaks) => decided,
        () = place.lost() => {
            tracing::info!(peer, "not admitted yet, and gone to make room");
            monitor.turned_away(&peer, key, Cause::Displaced, "it was not admitted yet, and made room for another address");
            return None;
        }
    };
    match decided {
        Ok((opening, by)) => Some((opening, peer, Some(by))),
        Err(why) => {
            monitor.turned_away(&peer, key, Cause::from(&why), &why.to_string());
            None
        }
    }
}

/// Peers being told that they are not served.
struct Refusals {
    service: Service,
    monitor: Arc<Monitor>,
    tasks: JoinSet<()>,
}

impl Refusals {
    fn new(service: Service, monitor: Arc<Monitor>) -> Self {
        Self { service, monitor, tasks: JoinSet::new() }
    }

    /// Counts a peer, and tells it.
    fn turn_away<T: Transport>(&mut self, connection: T, peer: &str, cause: Cause) {
        let key = connection.seal().and_then(|seal| seal.peer);
        self.monitor.turned_away(peer, key, cause, "as many are served as may be");
        self.tell(connection, peer, cause);
    }

    /// Tells a peer, unless too many are being told.
    fn tell<T: Transport>(&mut self, connection: T, peer: &str, cause: Cause) {
        if self.tasks.len() >= REFUSALS_MAX {
            return;
        }
        tracing::info!(peer, cause = cause.word(), "turned away");
        let sentence = match cause {
            Cause::AuditLog => "it cannot keep its log at present; tell its owner, and try again later",
            _ => "it serves as many peers as it may; try again later",
        };
        self.tasks.spawn(refuse(connection, self.service, Failure::new(FailureCode::Busy, sentence)));
    }
}
