//! UDP sockets at the ends of a pipe.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail, ensure};
use dfcp_relay::is_of_the_past;
use tokio::net::UdpSocket;
use tokio::time::Instant;

use super::answers::{Answers, InFrom, Verdict};
use crate::resolve::resolve;

/// UDP socket of one end.
#[derive(Debug)]
pub(super) struct Local {
    socket: UdpSocket,
    peer: Peer,
}

/// Destination of datagrams from the other end.
#[derive(Debug)]
enum Peer {
    /// Address that the socket is connected to; datagrams of other sources are not received.
    Fixed(SocketAddr),
    /// Destination chosen among the sources that send to this socket.
    Heard(Mutex<Answers>),
}

impl Local {
    /// Binds to `address`. Accepts datagrams from `only`, if given, and answers the current source.
    ///
    /// # Errors
    /// Fails if the address cannot be used, or if `only` can never send to it.
    pub(super) async fn listen(address: &str, only: Option<InFrom>) -> anyhow::Result<Self> {
        let places = resolve(address).await.context("cannot take datagrams, choose another --in")?;
        let socket = UdpSocket::bind(&*places).await;
        let socket = socket.with_context(|| format!("cannot take datagrams at {address}, choose another --in"))?;
        let own = socket.local_addr()?;
        if let Some(only) = only {
            let is_ipv4 = only.ip().to_canonical().is_ipv4();
            ensure!(
                is_ipv4 || own.is_ipv6(),
                "no datagrams come from {only} to {own}: name two IPv4 or two IPv6 addresses in --in and --in-from"
            );
        }
        Ok(Self { socket, peer: Peer::Heard(Mutex::new(Answers::new(only, own))) })
    }

    /// Connects a socket to `address`, for sending and receiving.
    ///
    /// # Errors
    /// Fails if the name has no address or the socket cannot be connected.
    pub(super) async fn call(address: &str) -> anyhow::Result<Self> {
        let found = resolve(address).await.context("cannot hand datagrams on, check --out")?;
        let Some(&to) = found.first() else { bail!("{address} has no address, check the name in --out") };
        let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await.context("cannot make a socket")?;
        // A connected socket receives from no other source.
        socket.connect(to).await.with_context(|| format!("cannot send to {to}, check --out"))?;
        Ok(Self { socket, peer: Peer::Fixed(to) })
    }

    /// Returns the local address of the socket.
    ///
    /// # Errors
    /// Passes on the system's error.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Receives the next datagram; returns its length.
    ///
    /// # Errors
    /// Passes on the system's error, except errors of earlier sends.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.recv_from(buffer).await {
                Ok((length, from)) => {
                    if self.takes(from) {
                        return Ok(length);
                    }
                }
                Err(error) if is_of_the_past(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if a datagram from `from` goes through the pipe.
    fn takes(&self, from: SocketAddr) -> bool {
        match &self.peer {
            Peer::Fixed(_) => true,
            Peer::Heard(answers) => {
                let verdict = lock(answers).heard(from, Instant::now());
                if verdict == Verdict::Dropped {
                    tracing::debug!(%from, "a datagram was not taken");
                }
                verdict == Verdict::Carried
            }
        }
    }

    /// Sends a datagram; returns false if there is no destination yet, or the system refuses the datagram.
    pub(super) async fn send(&self, datagram: &[u8]) -> bool {
        let (to, sent) = match &self.peer {
            Peer::Fixed(to) => (*to, self.socket.send(datagram).await),
            Peer::Heard(answers) => {
                let Some(to) = lock(answers).to() else { return false };
                (to, self.socket.send_to(datagram, to).await)
            }
        };
        if let Err(error) = &sent {
            tracing::debug!(%error, %to, "a datagram was not handed on");
        }
        sent.is_ok()
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    // Poisoning is harmless: every change is complete before the lock is released.
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}
