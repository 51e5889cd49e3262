//! The UDP sockets at both ends of a pipe.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::net::UdpSocket;
use tokio::sync::watch;

/// One end's socket.
#[derive(Debug)]
pub(super) struct Local {
    socket: UdpSocket,
    /// Where datagrams of the other end go: to whoever has sent the last one, or always to the same address.
    to: watch::Sender<Option<SocketAddr>>,
    is_fixed: bool,
}

impl Local {
    /// Takes datagrams at `address`, and answers whoever has sent the last one.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) async fn listen(address: &str) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(address).await;
        let socket = socket.with_context(|| format!("cannot take datagrams at {address}, choose another --in"))?;
        Ok(Self { socket, to: watch::Sender::default(), is_fixed: false })
    }

    /// Sends to `address`, and takes what comes back from there.
    ///
    /// # Errors
    /// It has no address.
    pub(super) async fn call(address: &str) -> anyhow::Result<Self> {
        let found = tokio::net::lookup_host(address).await;
        let mut found = found.with_context(|| format!("cannot find {address}, check the name in --out"))?;
        let Some(to) = found.next() else { bail!("{address} has no address, check the name in --out") };
        let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await.context("cannot make a socket")?;
        // Nobody else is heard.
        socket.connect(to).await.with_context(|| format!("cannot send to {to}, check --out"))?;
        Ok(Self { socket, to: watch::Sender::new(Some(to)), is_fixed: true })
    }

    /// Its address.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The next datagram; returns its length.
    ///
    /// # Errors
    /// The system's, apart from what it tells of datagrams sent before.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.recv_from(buffer).await {
                Ok((length, from)) => {
                    if !self.is_fixed {
                        self.to.send_if_modified(|to| to.replace(from) != Some(from));
                    }
                    return Ok(length);
                }
                Err(error) if is_of_the_past(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends a datagram on; `false` if there is nobody yet, or the system refuses it.
    pub(super) async fn send(&self, datagram: &[u8]) -> bool {
        let Some(to) = *self.to.borrow() else { return false };
        let sent = async {
            if self.is_fixed { self.socket.send(datagram).await } else { self.socket.send_to(datagram, to).await }
        };
        let sent = sent.await;
        if let Err(error) = &sent {
            tracing::debug!(%error, %to, "a datagram was not handed on");
        }
        sent.is_ok()
    }
}

/// An ICMP message about something sent earlier.
fn is_of_the_past(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
}
