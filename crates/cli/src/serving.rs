//! The accept loop that `receive`, `send --listen` and `perf server` share: many peers at once, but not more than allowed.

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
use crate::transfer::receive::refuse;
use crate::transport::{Acceptor, Transport};

/// Settings of a server.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// The service; a refusal is told in its protocol, too.
    pub service: Service,
    /// Peers served at once.
    pub peers_max: usize,
    /// End after one peer.
    pub once: bool,
    /// That one may be gone for so long before it comes back and goes on.
    pub returns_max: Duration,
    /// True if a program reads along.
    pub json: bool,
}

/// The end of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingEnd {
    /// After one peer: whether its session succeeded.
    Once(bool),
    /// Because the program is to end: as many sessions were broken off.
    Stopped {
        /// They have told their peers.
        under_way: usize,
    },
}

/// Runs `session` for every connection that is admitted until the acceptor fails, or with `once` until the first peer has been served.
/// That peer may come back after a session that was lost. Without an `admission` everyone is admitted. When
/// nobody can be admitted any more, the sessions under way go on to their end first: no stranger ends them by guessing. When the program is
/// to `stop`, nobody is let in any more, and each session is left to tell its peer. Everything is told to `monitor`, which lets nobody in
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
    // Dropped with this future: aborts what still runs when the program is interrupted.
    let (mut entering, mut sessions) = (JoinSet::new(), JoinSet::new());
    let mut broken_off = 0;
    let is_broken_off = |ended: &Result<Ended, JoinError>| ended.as_ref().is_ok_and(|ended| ended.is_broken_off);
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
                    // One that is broken off is told of with the end of this.
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
                // The one peer may be gone for a while only.
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
                // Decided here: a session may hear of the end, and be over, before the loop has heard of it.
                Ended { number, end, is_broken_off: end != SessionEnd::Complete && stop.is_requested() }
            });
        }
    }
}

/// Waits for the answers to questions about the one peer.
async fn settled(admission: Option<&Admission>, is_complete: bool) -> bool {
    if let Some(admission) = admission {
        admission.settle().await;
    }
    is_complete
}

/// A session that is over.
struct Ended {
    number: u64,
    end: SessionEnd,
    /// The program was to end.
    is_broken_off: bool,
}

/// The peers that are served.
struct Guests {
    serving: Serving,
    monitor: Arc<Monitor>,
    shares: Arc<Shares>,
    seats: Seats,
    refusals: Refusals,
    /// With [`Serving::once`], the peer that has come.
    one: Option<One>,
}

/// The peer of a server that serves no other.
struct One {
    served: Option<Served>,
    peer: String,
    /// Its last session.
    number: u64,
    /// It has no session, and may come back until then.
    missed_at: Option<Instant>,
}

impl Guests {
    fn new(serving: Serving, monitor: Arc<Monitor>) -> Self {
        let refusals = Refusals::new(serving.service, Arc::clone(&monitor));
        // Measurements and pipes have places of their own kind: many may come from one host on purpose.
        let shares = Shares::new(serving.peers_max, serving.service.is_files());
        Self { serving, monitor, shares, seats: Seats::default(), refusals, one: None }
    }

    /// A place for a peer that is admitted, perhaps that of its own silent session; else it is told that there is none.
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

    /// True of the first peer, and of that one again while it has no session that is alive.
    fn is_the_one(&mut self, key: Option<PublicKey>, by: Option<By>) -> bool {
        let Some(one) = &self.one else { return true };
        let is_same = one.served.is_some() && one.served == Served::of(key, by);
        is_same && (one.missed_at.is_some() || self.seats.displace_number(one.number))
    }

    /// A session has ended: whether the one peer is served for good, and with success.
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

    /// The time at which the one peer has been gone for too long.
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
