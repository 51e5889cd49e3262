//! Accept loop of `receive`, `send --listen` and `perf server`: concurrent peers, up to a limit.

pub mod ending;
pub mod observer;
pub mod places;
mod seats;
pub mod shares;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dfcp::{AddressPrefix, PublicKey};
use dfcp_files::refuse;
use dfcp_files::transport::{Acceptor, Transport};
use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::frame::Service;
use serde_json::json;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use self::ending::{Served, SessionEnd};
use self::places::{Place, Places};
use self::seats::{Seats, SharePlace};
use self::shares::{Share, Shares};
use crate::admission::opening::Opening;
use crate::admission::{Admission, By};
use crate::limits::REFUSALS_MAX;
use crate::monitor::{Cause, Monitor, Session};
use crate::output;
use crate::stop::Stop;

/// Settings of a server.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// Service of the listener; refusals use its protocol.
    pub service: Service,
    /// Limit on concurrent peers.
    pub peers_max: usize,
    /// End after one peer.
    pub once: bool,
    /// Longest absence after which the single peer of `once` may still resume.
    pub returns_max: Duration,
    /// True if the output is JSON.
    pub json: bool,
}

/// Reason why serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingEnd {
    /// The single peer has been served; true if its session succeeded.
    Once(bool),
    /// The program was asked to stop.
    Stopped {
        /// Number of sessions that were aborted; they have notified their peers.
        under_way: usize,
    },
}

/// Runs `session` for every admitted connection until the acceptor fails. With `once`, it ends after the first peer,
/// which may return after a lost session. Without an `admission`, every peer is admitted.
///
/// After too many wrong codes, when nobody can be admitted any more, running sessions still complete: a stranger cannot
/// end them by guessing. After `stop`, nobody is admitted, and each session notifies its peer. `monitor` records every
/// event, and rejects peers while its audit log cannot be written.
///
/// # Errors
/// Fails if the acceptor fails, or if nobody can be admitted any more.
pub async fn serve<A, F, S>(
    mut acceptor: A,
    serving: Serving,
    admission: Option<Admission>,
    monitor: &Arc<Monitor>,
    stop: &Stop,
    session: F,
) -> io::Result<ServingEnd>
where
    A: Acceptor,
    F: Fn(Opening<A::Connection>, Session) -> S,
    S: Future + Send + 'static,
    S::Output: Into<SessionEnd>,
{
    let admission = admission.map(Arc::new);
    let places = Arc::new(Places::default());
    let mut guests = Guests::new(serving, Arc::clone(monitor));
    // Both sets are dropped with this future, which aborts the tasks on an interruption.
    let (mut entering, mut sessions) = (JoinSet::new(), JoinSet::new());
    let mut broken_off = 0;
    let is_broken_off = |ended: &Result<Ended, JoinError>| ended.as_ref().is_ok_and(|ended| ended.is_broken_off);
    loop {
        let closed = admission.as_ref().is_some_and(|admission| admission.is_closed());
        // A connection in admission may have been admitted before the last wrong guess.
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
                    None => guests.refusals.turn_away(connection, &peer, Cause::Busy),
                }
                continue;
            }
            Some(entered) = entering.join_next() => match entered {
                Ok(Some(admitted)) => admitted,
                _ => continue,
            },
            Some(ended) = sessions.join_next() => {
                let is_cut = is_broken_off(&ended);
                broken_off += usize::from(is_cut);
                match guests.ended(ended) {
                    Some(is_complete) if !is_cut => {
                        return Ok(ServingEnd::Once(settled(admission.as_deref(), is_complete).await));
                    }
                    // A session that the stop request cut off is counted below, when serving ends.
                    _ => continue,
                }
            }
            () = missed(guests.missed_at()) => return Ok(ServingEnd::Once(settled(admission.as_deref(), false).await)),
            Some(_told) = guests.refusals.tasks.join_next() => continue,
            () = stop.requested() => {
                while let Some(ended) = sessions.join_next().await {
                    broken_off += usize::from(is_broken_off(&ended));
                    if guests.ended(ended) == Some(true) {
                        return Ok(ServingEnd::Once(settled(admission.as_deref(), true).await));
                    }
                }
                // The single peer counts even if it is temporarily disconnected.
                let under_way = broken_off.max(usize::from(guests.missed_at().is_some()));
                return Ok(ServingEnd::Stopped { under_way });
            }
        };
        if let Some((connection, began, number, share)) = guests.admit(connection, peer.clone(), by) {
            let (admission, key) = (admission.clone(), connection.seal().and_then(|seal| seal.peer));
            let (session, stop) = (session(connection, began), stop.clone());
            sessions.spawn(async move {
                let end: SessionEnd = session.await.into();
                drop(share);
                if let Some(admission) = admission {
                    admission.ended(key, by, &peer);
                }
                // Decide here: a session may end because of the stop request before the accept loop notices the
                // request.
                Ended { number, end, is_broken_off: end != SessionEnd::Complete && stop.is_requested() }
            });
        }
    }
}

/// Waits until the user has answered open questions about the peer, then returns `is_complete`.
async fn settled(admission: Option<&Admission>, is_complete: bool) -> bool {
    if let Some(admission) = admission {
        admission.settle().await;
    }
    is_complete
}

/// Result of an ended session.
struct Ended {
    number: u64,
    end: SessionEnd,
    /// True if the stop request cut the session off.
    is_broken_off: bool,
}

/// Peers being served.
struct Guests {
    serving: Serving,
    monitor: Arc<Monitor>,
    shares: Arc<Shares>,
    seats: Seats,
    refusals: Refusals,
    /// The only peer, with [`Serving::once`].
    one: Option<One>,
}

/// Only peer of a server with [`Serving::once`].
struct One {
    served: Option<Served>,
    peer: String,
    /// Number of the peer's last session.
    number: u64,
    /// Deadline for the peer's return; `None` while it has a session.
    missed_at: Option<Instant>,
}

impl Guests {
    fn new(serving: Serving, monitor: Arc<Monitor>) -> Self {
        let refusals = Refusals::new(serving.service, Arc::clone(&monitor));
        // No limit per key for measurements and pipes: one host may start many on purpose.
        let shares = Shares::new(serving.peers_max, serving.service.is_files());
        Self { serving, monitor, shares, seats: Seats::default(), refusals, one: None }
    }

    /// Gives an admitted peer a place, possibly by replacing the peer's own silent session. Refuses the peer as busy if
    /// there is no place.
    fn admit<T: Transport>(
        &mut self,
        connection: Opening<T>,
        peer: String,
        by: Option<By>,
    ) -> Option<(Opening<T>, Session, u64, SharePlace)> {
        let key = connection.seal().and_then(|seal| seal.peer);
        let share =
            if self.serving.once { self.is_the_one(key, by).then_some(None) } else { self.share(key).map(Some) };
        let Some(share) = share else {
            self.refusals.turn_away(connection, &peer, Cause::Busy);
            return None;
        };
        let Some(began) = self.monitor.begin(peer.clone(), key, by) else {
            self.refusals.tell(connection, &peer, Cause::AuditLog);
            return None;
        };
        let (number, share) = self.seats.take(key, began.handle(), share);
        if self.serving.once {
            self.one = Some(One { served: Served::of(key, by), peer, number, missed_at: None });
        }
        Some((connection, began, number, share))
    }

    fn share(&mut self, key: Option<PublicKey>) -> Option<Share> {
        let share = self.shares.take(key);
        let is_files = self.serving.service.is_files();
        share.or_else(|| self.seats.displace(key).filter(|_| is_files).and_then(|displaced| displaced.share))
    }

    /// With `once`: returns true for the first peer, and for the same peer again if it has no live session.
    fn is_the_one(&mut self, key: Option<PublicKey>, by: Option<By>) -> bool {
        let Some(one) = &self.one else { return true };
        let is_same = one.served.is_some() && one.served == Served::of(key, by);
        is_same && (one.missed_at.is_some() || self.seats.displace_number(one.number))
    }

    /// Handles the end of a session. Returns `Some` if the single peer is finished: true if its session succeeded.
    fn ended(&mut self, ended: Result<Ended, JoinError>) -> Option<bool> {
        let Ended { number, end, .. } = match ended.map_err(JoinError::try_into_panic) {
            Ok(ended) => ended,
            Err(Ok(panic)) if self.serving.once => std::panic::resume_unwind(panic),
            Err(_) => return None,
        };
        self.seats.leave(number);
        let one = self.one.as_mut().filter(|one| one.number == number)?;
        let returns_within = end.returns_within(self.serving.returns_max);
        if returns_within.is_zero() || one.served.is_none() {
            return Some(end == SessionEnd::Complete);
        }
        one.missed_at = Some(Instant::now() + returns_within);
        if end == SessionEnd::Lost {
            self.serving.tell_wait(&one.peer, returns_within);
        }
        None
    }

    /// Returns the time at which the server stops waiting for the absent single peer.
    fn missed_at(&self) -> Option<Instant> {
        self.one.as_ref().and_then(|one| one.missed_at)
    }
}

async fn missed(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Serving {
    fn tell_wait(self, peer: &str, most: Duration) {
        if self.json {
            return output::json(&json!({ "event": "waiting", "peer": peer, "seconds": most.as_secs_f64() }));
        }
        let most = output::human_seconds(most.as_secs_f64());
        output::note(&format!("{peer}: waiting for it to come back, for up to {most}; Ctrl-C ends that"));
    }
}

/// Admits a connection, unless its place is given away meanwhile. Without an `admission`, every connection is admitted.
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

/// Refusals in progress.
struct Refusals {
    service: Service,
    monitor: Arc<Monitor>,
    tasks: JoinSet<()>,
}

impl Refusals {
    fn new(service: Service, monitor: Arc<Monitor>) -> Self {
        Self { service, monitor, tasks: JoinSet::new() }
    }

    /// Counts a rejected peer and sends the refusal.
    fn turn_away<T: Transport>(&mut self, connection: T, peer: &str, cause: Cause) {
        let key = connection.seal().and_then(|seal| seal.peer);
        self.monitor.turned_away(peer, key, cause, "as many are served as may be");
        self.tell(connection, peer, cause);
    }

    /// Sends a refusal, unless too many are in progress.
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
