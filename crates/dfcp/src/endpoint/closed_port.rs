//! Detection of a closed port or an unreachable machine during a connection attempt.
//!
//! A system answers a datagram to a closed port by ICMP ("port unreachable"), and the receiving system reports it to
//! connected sockets only. The endpoint's socket is not connected, because either end of a connection may move to
//! another address. So a separate socket sends probes, and only during the handshake: its results cannot affect an open
//! connection.
//!
//! Only the datagram quoted in an ICMP message proves the sender of that message. A probe is random, so a message that
//! quotes it comes from the machine or from the path to it: one such message is believed. Other messages only have to
//! match the socket's port, which can be guessed: several are needed, over a longer time. A listening peer answers the
//! handshake before either happens.

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

/// Length of a probe, bytes: less than any segment, so that a listener drops it.
const QUESTION_BYTES: usize = 8;

/// Least time for a listener to answer, as a multiple of the time in which the refusal arrived.
const ROUND_TRIPS: u32 = 3;

/// Limit on concurrent probing attempts. Further attempts just wait for the handshake timeout.
static ASKERS: Semaphore = Semaphore::const_new(CLOSED_PORT_ASKERS_MAX);

/// Returns a socket connected to `remote` from the address of `local`, or `None` if the system gives no socket, so that
/// nothing is known. Connecting sends nothing, but checks the routing table.
///
/// # Errors
/// There is no route to `remote`.
fn connected(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<UdpSocket>> {
    let (mut from, mut to) = (canonical(local), canonical(remote));
    if from.ip().is_unspecified() && local.is_ipv6() {
        from = if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    }
    from.set_port(0);
    if to.port() == 0 {
        // Directly over IP any port is valid, but some systems refuse to connect a UDP socket to port 0.
        to.set_port(1);
    }
    let Ok(socket) = UdpSocket::bind(from) else { return Ok(None) };
    match socket.connect(to) {
        Ok(()) => Ok(Some(socket)),
        Err(error) => {
            // `InvalidInput` would end the attempts at further addresses, but an invalid address says nothing about the
            // next one.
            let kind = Some(error.kind()).filter(|&kind| kind != ErrorKind::InvalidInput);
            let sentence = format!(
                "this machine has no way to {} ({error}), check the address and this machine's network",
                to.ip()
            );
            Err(io::Error::new(kind.unwrap_or(ErrorKind::HostUnreachable), sentence))
        }
    }
}

/// A message of the system about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Refusal {
        /// The ICMP message quotes the probe.
        is_proven: bool,
    },
    /// Any other ICMP message, or a datagram.
    Other,
}

/// Refusals of one connection attempt, and the rule for believing them.
#[derive(Debug)]
struct Refusals {
    began: Instant,
    /// Time of the first probe.
    asked_at: Option<Instant>,
    /// Time of the first refusal that quotes a probe.
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

    /// Returns the time from which on the refusals are believed, unless the handshake has been answered by then.
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

/// The probes of one connection attempt.
#[derive(Debug)]
pub(super) struct Questions {
    socket: UdpSocket,
    question: [u8; QUESTION_BYTES],
    refusals: Refusals,
    next_at: Instant,
    _permit: SemaphorePermit<'static>,
}

impl Questions {
    /// Prepares probes to `remote`, for an attempt from `local`, a socket of `namespace` if that is known. Returns
    /// `None` if probing is impossible, so that only the handshake timeout can end the attempt.
    ///
    /// # Errors
    /// The port is 0, or there is no route to `remote`.
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
            // Another namespace has other routes, and perhaps another machine at that address. The namespace of a
            // socket made by the application is unknown: the socket may belong to another one, or have a mark or a
            // device of its own.
            return Ok(None);
        }
        let socket = connected(local, remote)?;
        // Directly over IP, the system does not know DFCP's ports, so it cannot report a closed port.
        Ok(socket.filter(|_| carrier == Carrier::Udp).and_then(|socket| Self::new(socket, &ASKERS)))
    }

    /// Marks the probes with the connection's DSCP: networks may treat classes of traffic differently.
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

    /// Prepares probes on a socket from [`connected`]. Returns `None` if the limit of `askers` is reached, or the
    /// system's random number generator fails.
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

    /// Sends a probe if one is due, and reads messages that have arrived since.
    fn serve(&mut self, now: Instant) {
        if now >= self.next_at {
            self.next_at = now + CLOSED_PORT_INTERVAL;
            self.refusals.asked_at.get_or_insert(now);
            if let Err(error) = self.socket.send(&self.question) {
                // On some systems the error of a call reports the refusal of an earlier probe.
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

    /// Probes until refusals are believed (returns true), or until the caller has dropped its wait (returns false).
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

    /// Resolves when refusals are believed, and never otherwise. Probing runs on a thread, as the application's runtime
    /// may lack sockets and timers. The thread ends when this future is dropped.
    async fn refused(self) {
        let (tell, told) = oneshot::channel();
        // The channel's sender `_waiting` is dropped with this future, and disconnects the receiver `gone` then.
        let (_waiting, gone) = sync_channel(0);
        let ask = move || {
            if self.wait(&gone) {
                // The receiver may have been dropped.
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
/// The error of the handshake; or `ConnectionRefused` if refusals are believed.
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

/// Returns the next message about a probe, on systems that keep the quoted datagrams of ICMP messages.
#[cfg(target_os = "linux")]
fn message(socket: &UdpSocket, question: &[u8]) -> Option<Message> {
    icmp::message(socket, question).or_else(|| plain_message(socket))
}

#[cfg(not(target_os = "linux"))]
fn message(socket: &UdpSocket, _question: &[u8]) -> Option<Message> {
    plain_message(socket)
}

/// Returns the next message of a socket without access to the quoted datagrams.
fn plain_message(socket: &UdpSocket) -> Option<Message> {
    match socket.recv(&mut [0; 1]) {
        Ok(_) => Some(Message::Other),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) if is_refusal(&error) => Some(Message::Refusal { is_proven: false }),
        Err(_) => Some(Message::Other),
    }
}
