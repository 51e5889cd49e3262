//! Server of test packets for many clients (`spec/estimation.md` §2, §3).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use dfcp_secure::{Cookie, CookieJar, address_bytes};
use dfcp_time::{Time, duration_ns};

use super::datagram::{Answer, Datagram, ProbeDatagram, Reason, Request};
use super::places::Places;
use crate::limits::{CLIENTS_DEFAULT, COOKIE_STEP, LEASE, SERVER_INTERVAL_MAX, SERVER_INTERVAL_MIN};

/// Limits that a server sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Maximum number of clients with test packets. At the limit, the address with most clients is displaced first.
    pub clients_max: usize,
    /// Shortest interval between test packets.
    pub interval_min: Duration,
    /// Longest interval between test packets.
    pub interval_max: Duration,
}

impl Default for ServerConfig {
    /// Default: [`CLIENTS_DEFAULT`] clients, every 10 ms to 10 s.
    fn default() -> Self {
        Self { clients_max: CLIENTS_DEFAULT, interval_min: SERVER_INTERVAL_MIN, interval_max: SERVER_INTERVAL_MAX }
    }
}

/// Result of a received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Answer to the sender.
    pub answer: Option<Datagram>,
    /// Change of a client's session.
    pub change: Option<Change>,
    /// Client displaced by the new session.
    pub displaced: Option<SocketAddr>,
}

impl Received {
    fn answer(answer: Answer) -> Self {
        Self { answer: Some(answer.encode()), ..Self::default() }
    }
}

/// Change of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A client's measurement started, with this interval of test packets.
    Began(Duration),
    /// The client ended its session.
    Ended,
}

/// Action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Datagram to send to this address immediately: it contains the time of the call.
    Send(SocketAddr, Datagram),
    /// Client that was silent for 10 s, and gets no more test packets.
    Ended(SocketAddr),
}

/// Client with test packets.
#[derive(Clone, Copy, Debug)]
struct Client {
    session: u64,
    interval: Duration,
    number: u32,
    /// Time of the next test packet, or of the lease's end.
    next: Time,
    /// Time of its last request with a valid cookie.
    heard: Time,
}

/// Server of test packets for clients that have proven their addresses. No state is kept for other addresses.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    jar: CookieJar,
    clients: BTreeMap<SocketAddr, Client>,
    /// Clients by their next time.
    due: BTreeSet<(Time, SocketAddr)>,
    places: Places,
}

impl Server {
    /// Creates a server. `seed` must be 32 unpredictable bytes, used only here.
    #[must_use]
    pub fn new(config: ServerConfig, seed: [u8; 32]) -> Self {
        let (clients, due, places) = (BTreeMap::new(), BTreeSet::new(), Places::default());
        Self { config, jar: CookieJar::new(seed), clients, due, places }
    }

    /// Processes a datagram from `from`. Anything except a valid request has no effect.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Received {
        match Request::decode(datagram) {
            Some(Request::Call { session }) => self.challenge(now, from, session),
            Some(Request::Start { session, interval_us, cookie }) => {
                self.start(now, from, session, interval_us, &cookie)
            }
            Some(Request::Stop { session }) => self.stop(from, session),
            None => Received::default(),
        }
    }

    /// Challenges a caller (\[estimate-4\], \[estimate-5\]).
    fn challenge(&self, now: Time, from: SocketAddr, session: u64) -> Received {
        let cookie = self.jar.issue(cookie_step(now), &address_bytes(from), 0, &session.to_be_bytes());
        Received::answer(Answer::Challenge { session, cookie })
    }

    /// Starts or renews a session (\[estimate-6\], \[estimate-8\]).
    fn start(&mut self, now: Time, from: SocketAddr, session: u64, interval_us: u32, cookie: &Cookie) -> Received {
        let step = cookie_step(now);
        if !self.jar.verify(step, &address_bytes(from), 0, &session.to_be_bytes(), cookie) {
            return self.challenge(now, from, session);
        }
        if let Some(client) = self.clients.get_mut(&from).filter(|client| client.session == session) {
            self.places.hear(from, Some(client.heard), now);
            client.heard = now;
            // Send a new cookie in time: otherwise the client would have no valid one for its next request.
            return if CookieJar::is_of(step, cookie) {
                Received::default()
            } else {
                self.challenge(now, from, session)
            };
        }
        self.begin(now, from, session, interval_us)
    }

    /// Starts a session at a proven address, if there is room.
    fn begin(&mut self, now: Time, from: SocketAddr, session: u64, interval_us: u32) -> Received {
        let refused = |reason| Received::answer(Answer::Refused { session, reason });
        let interval = Duration::from_micros(interval_us.into());
        if !(self.config.interval_min..=self.config.interval_max).contains(&interval) {
            return refused(Reason::Interval);
        }
        let former = self.clients.get(&from).copied();
        let mut displaced = None;
        if former.is_none() && self.clients.len() >= self.config.clients_max {
            displaced = self.places.displaced_by(from);
            let Some(victim) = displaced else { return refused(Reason::TooManyClients) };
            self.forget(victim);
        }
        // A restarted session keeps its schedule: otherwise restarts would draw more packets.
        let next = former.map_or(now, |client| client.next);
        self.places.hear(from, former.map(|client| client.heard), now);
        self.clients.insert(from, Client { session, interval, number: 0, next, heard: now });
        self.due.insert((next, from));
        Received { answer: None, change: Some(Change::Began(interval)), displaced }
    }

    fn stop(&mut self, from: SocketAddr, session: u64) -> Received {
        if self.clients.get(&from).is_none_or(|client| client.session != session) {
            return Received::default();
        }
        self.forget(from);
        Received { change: Some(Change::Ended), ..Received::default() }
    }

    fn forget(&mut self, address: SocketAddr) {
        if let Some(client) = self.clients.remove(&address) {
            self.due.remove(&(client.next, address));
            self.places.release(address, client.heard);
        }
    }

    /// Time of the next [`poll`](Self::poll); `None` without clients.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.due.first().map(|&(next, _)| next)
    }

    /// Next action that is due. Call until it returns `None`, with the current time at each call, which test packets state
    /// (\[estimate-10\]).
    pub fn poll(&mut self, now: Time) -> Option<Step> {
        let &(next, address) = self.due.first().filter(|(next, _)| *next <= now)?;
        let client = self.clients.get_mut(&address)?;
        if now >= client.heard + LEASE {
            self.forget(address);
            return Some(Step::Ended(address));
        }
        let probe = ProbeDatagram {
            session: client.session,
            number: client.number,
            interval_us: u32::try_from(client.interval.as_micros()).unwrap_or(u32::MAX),
            sent: now,
        };
        client.number = client.number.wrapping_add(1);
        // Missed times are skipped; a slight delay does not shift later ones.
        let on_time = next + client.interval;
        client.next = if on_time > now { on_time } else { now + client.interval };
        self.due.remove(&(next, address));
        self.due.insert((client.next, address));
        Some(Step::Send(address, Answer::Probe(probe).encode()))
    }

    /// Number of clients with test packets.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

/// Time step of cookies at `now`.
fn cookie_step(now: Time) -> u64 {
    now.as_ns() / duration_ns(COOKIE_STEP)
}
