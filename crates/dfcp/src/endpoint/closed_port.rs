//! The machine that is called says that nothing listens there, or there is no way to it at all.
//!
//! A system answers a datagram to a closed port by ICMP ("port unreachable"), which it tells only sockets that are connected. The
//! endpoint's own is not, because either end of a connection may move to another address. So a socket of its own asks, and only while a
//! connection is being opened: what it hears cannot touch an open one.
//!
//! Only the datagram that an ICMP message repeats proves its sender. A question is random, and a message that repeats it comes from the
//! machine or from the path to it: one is believed. Others only have to name the socket's port, which can be guessed: these must be several,
//! over a longer time. A listener that is there answers the handshake before either.

#[cfg(target_os = "linux")]
mod icmp;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use dfcp_proto::Dscp;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use super::network_namespace::NetworkNamespace;
use crate::carrier::Carrier;
use crate::error::ConnectError;
use crate::limits::{
    CLOSED_PORT_ASKERS_MAX, CLOSED_PORT_DELAY, CLOSED_PORT_GLANCE, CLOSED_PORT_INTERVAL, CLOSED_PORT_MESSAGES_MAX,
    CLOSED_PORT_PATIENCE, CLOSED_PORT_REFUSALS, CLOSED_PORT_SPAN,
};
use crate::socket::canonical;

/// Fewer than any segment has: a listener drops it.
const QUESTION_BYTES: usize = 8;

/// Least time for a listener to answer, as a multiple of the time that the refusal took.
const ROUND_TRIPS: u32 = 3;

/// Attempts that ask now. Others wait for the end of the handshake's own time.
static ASKERS: Semaphore = Semaphore::const_new(CLOSED_PORT_ASKERS_MAX);

/// A socket connected to `remote` from where `local` is bound; `None` if there is none to be had, and so nothing is known. Connecting sends
/// nothing, but asks the routing table.
///
/// # Errors
/// There is no way to `remote`.
fn connected(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<UdpSocket>> {
    let (mut from, mut to) = (canonical(local), canonical(remote));
    if from.ip().is_unspecified() && local.is_ipv6() {
        from = if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    }
    from.set_port(0);
    if to.port() == 0 {
        // Directly over IP any port may be called, and no system connects to this one everywhere.
        to.set_port(1);
    }
    let Ok(socket) = UdpSocket::bind(from) else { return Ok(None) };
    match socket.connect(to) {
        Ok(()) => Ok(Some(socket)),
        Err(error) => {
            // That one address makes no sense here says nothing of the next.
            let kind = Some(error.kind()).filter(|&kind| kind != ErrorKind::InvalidInput);
            let sentence = format!(
                "this machine has no way to {} ({error}), check the address and this machine's network",
                to.ip()
            );
            Err(io::Error::new(kind.unwrap_or(ErrorKind::HostUnreachable), sentence))
        }
    }
}

/// Something that the system says of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Refusal {
        /// It repeats the question.
        is_proven: bool,
    },
    /// Other ICMP messages, and datagrams.
    Other,
}

/// Refusals of one attempt, and when they are believed.
#[derive(Debug)]
struct Refusals {
    began: Instant,
    /// The first question was asked then.
    asked_at: Option<Instant>,
    /// The first one that repeats a question.
    proven_at: Option<Instant>,
    first_at: Option<Instant>,
    newest_at: Option<Instant>,
    count: u32,
}

impl Refusals {
    fn new(began: Instant) -> Self {
        Self { began, asked_at: None, proven_at: None, first_at: None, newest_at: None, count: 0 }
    }

    fn add(&mut self, now: Instant, is_proven: bool) {
        if is_proven {
            self.proven_at.get_or_insert(now);
        }
        self.first_at.get_or_insert(now);
        self.newest_at = Some(now);
        self.count = self.count.saturating_add(1);
    }

    /// The time from which on they are believed, unless the handshake has been answered by then.
    fn believed_at(&self) -> Option<Instant> {
        if let (Some(asked_at), Some(proven_at)) = (self.asked_at, self.proven_at) {
            let took = proven_at.saturating_duration_since(asked_at);
            return Some(self.began + (took * ROUND_TRIPS).clamp(CLOSED_PORT_PATIENCE, CLOSED_PORT_SPAN));
        }
        let (first, newest) = (self.first_at?, self.newest_at?);
        let is_enough = self.count >= CLOSED_PORT_REFUSALS && newest.duration_since(first) >= CLOSED_PORT_SPAN;
        is_enough.then_some(newest)
    }
}

/// The questions of one attempt to connect.
#[derive(Debug)]
pub(super) struct Questions {
    socket: UdpSocket,
    question: [u8; QUESTION_BYTES],
    refusals: Refusals,
    next_at: Instant,
    _permit: SemaphorePermit<'static>,
}

impl Questions {
    /// Questions to `remote`, which is about to be called from `local`, a socket of this namespace if that is known. `None` if it cannot be asked: only the
    /// handshake's own time ends the attempt then.
    ///
    /// # Errors
    /// It cannot be called: the port is none, or there is no way to it.
    pub(super) fn to(
        carrier: Carrier,
        local: SocketAddr,
        remote: SocketAddr,
        namespace: Option<NetworkNamespace>,
    ) -> io::Result<Option<Self>> {
        if remote.port() == 0 && carrier == Carrier::Udp {
            let sentence = "port 0 cannot be called, name the port at which the other side listens";
            return Err(io::Error::new(ErrorKind::InvalidInput, sentence));
        }
        if namespace != Some(NetworkNamespace::of_this_thread()) {
            // Other routes, and perhaps another machine of that address. Those of a socket which the application has made are unknown: it
            // may be of another network, or have a mark or a device of its own.
            return Ok(None);
        }
        let socket = connected(local, remote)?;
        // Directly over IP a closed port is another thing: there is no port that the system knows.
        Ok(socket.filter(|_| carrier == Carrier::Udp).and_then(|socket| Self::new(socket, &ASKERS)))
    }

    /// Gives the questions the code point that the connection has: networks may treat classes of traffic differently.
    pub(super) fn mark(&self, dscp: Dscp) {
        let (view, tos) = (socket2::SockRef::from(&self.socket), u32::from(dscp.value() << 2));
        let is_ipv4 = self.socket.local_addr().is_ok_and(|local| local.is_ipv4());
        #[cfg(target_os = "linux")]
        let marked = if is_ipv4 { view.set_tos_v4(tos) } else { view.set_tclass_v6(tos) };
        #[cfg(not(target_os = "linux"))]
        let marked = if is_ipv4 { view.set_tos_v4(tos) } else { Ok(()) };
        if let Err(error) = marked {
            tracing::debug!(%error, "questions have no code point");
        }
    }

    /// Questions by a socket that is [`connected`]. `None` if too many `askers` ask already, or the system has no randomness to give.
    fn new(socket: UdpSocket, askers: &'static Semaphore) -> Option<Self> {
        let permit = askers.try_acquire().ok()?;
        let mut question = [0; QUESTION_BYTES];
        getrandom::fill(&mut question).ok()?;
        socket.set_nonblocking(true).ok()?;
        #[cfg(target_os = "linux")]
        icmp::keep_messages(&socket, socket.local_addr().ok()?.is_ipv4());
        let began = Instant::now();
        let next_at = began + CLOSED_PORT_DELAY;
        Some(Self { socket, question, refusals: Refusals::new(began), next_at, _permit: permit })
    }

    /// Asks if that is due, and takes in what has come since.
    fn serve(&mut self, now: Instant) {
        if now >= self.next_at {
            self.next_at = now + CLOSED_PORT_INTERVAL;
            self.refusals.asked_at.get_or_insert(now);
            if let Err(error) = self.socket.send(&self.question) {
                // An earlier question's refusal, which this socket is told at its next call on some systems.
                if is_refusal(&error) {
                    self.refusals.add(now, false);
                }
            }
        }
        for _ in 0..CLOSED_PORT_MESSAGES_MAX {
            match message(&self.socket, &self.question) {
                Some(Message::Refusal { is_proven }) => self.refusals.add(now, is_proven),
                Some(Message::Other) => {}
                None => break,
            }
        }
    }

    /// Returns true once refusals are believed, and false once the caller no longer waits for that.
    fn wait(mut self, gone: &Receiver<Infallible>) -> bool {
        loop {
            let now = Instant::now();
            self.serve(now);
            let believed_at = self.refusals.believed_at();
            if believed_at.is_some_and(|at| now >= at) {
                return true;
            }
            let wait = match believed_at {
                Some(at) => at.duration_since(now),
                None if self.refusals.asked_at.is_none() => self.next_at.saturating_duration_since(now),
                None => CLOSED_PORT_GLANCE,
            };
            match gone.recv_timeout(wait.max(Duration::from_millis(1))) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
                Ok(never) => match never {},
            }
        }
    }

    /// Resolves when refusals are believed, and never otherwise. A thread asks, as the application's runtime need not be one that has sockets or
    /// timers; it ends with this future.
    async fn refused(self) {
        let (tell, told) = oneshot::channel();
        // Dropped with this future.
        let (_waiting, gone) = sync_channel(0);
        let ask = move || {
            if self.wait(&gone) {
                // Nobody may wait any more.
                let _gone = tell.send(());
            }
        };
        if let Err(error) = std::thread::Builder::new().name("dfcp-closed-port".to_owned()).spawn(ask) {
            tracing::debug!(%error, "no thread to ask whether anything listens there");
        }
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until the handshake is done or has failed, or refusals of `remote` are believed.
///
/// # Errors
/// The handshake's; nothing listens there.
pub(super) async fn connected_or_refused(
    connected: impl Future<Output = Result<(), ConnectError>>,
    questions: Option<Questions>,
    remote: SocketAddr,
) -> Result<(), ConnectError> {
    let Some(questions) = questions else { return connected.await };
    tokio::select! {
        biased;
        outcome = connected => outcome,
        () = questions.refused() => {
            let sentence = format!(
                "nothing listens at {} (the machine refused), check address and port, and that the other side runs",
                canonical(remote)
            );
            Err(io::Error::new(ErrorKind::ConnectionRefused, sentence).into())
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}

/// The next message about a question, from where the system keeps what ICMP messages repeat.
#[cfg(target_os = "linux")]
fn message(socket: &UdpSocket, question: &[u8]) -> Option<Message> {
    icmp::message(socket, question).or_else(|| plain_message(socket))
}

#[cfg(not(target_os = "linux"))]
fn message(socket: &UdpSocket, _question: &[u8]) -> Option<Message> {
    plain_message(socket)
}

/// The next message of a socket that is not told what ICMP messages repeat.
fn plain_message(socket: &UdpSocket) -> Option<Message> {
    match socket.recv(&mut [0; 1]) {
        Ok(_) => Some(Message::Other),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) if is_refusal(&error) => Some(Message::Refusal { is_proven: false }),
        Err(_) => Some(Message::Other),
    }
}
