//! The kernel's TCP.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::{COUNTERS_MAX, Dial, Duplex, Listen};
use crate::protocol::Ready;

/// Maximum number of connections waiting to be accepted.
const BACKLOG: u32 = 1_024;

/// The accepting side.
#[derive(Debug)]
pub(crate) struct Server(TcpListener);

/// The opening side.
#[derive(Debug)]
pub(crate) struct Client {
    ip: IpAddr,
    server: SocketAddr,
}

impl Server {
    /// Listens on a port chosen by the system.
    pub(crate) fn bind(ip: IpAddr) -> anyhow::Result<Self> {
        let open = || {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(ip, 0))?;
            socket.listen(BACKLOG)
        };
        Ok(Self(open().context("cannot listen with TCP")?))
    }
}

impl Listen for Server {
    type Incoming = TcpStream;
    type Stream = TcpStream;

    fn ready(&self) -> anyhow::Result<Ready> {
        Ok(Ready { address: self.0.local_addr()?, key: None, bytes: None })
    }

    async fn accept(&self) -> anyhow::Result<TcpStream> {
        let (stream, _) = self.0.accept().await.context("cannot accept over TCP")?;
        // Small messages leave immediately; bulk data is not affected here.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn establish(incoming: TcpStream) -> anyhow::Result<TcpStream> {
        Ok(incoming)
    }
}

impl Client {
    pub(crate) const fn new(ip: IpAddr, server: &Ready) -> Self {
        Self { ip, server: server.address }
    }
}

impl Dial for Client {
    type Stream = TcpStream;

    async fn dial(&self) -> anyhow::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.ip, 0))?;
        socket.connect(self.server).await.context("cannot connect over TCP")
    }
}

impl Duplex for TcpStream {
    const COUNTERS: &'static [&'static str] = &[];

    fn counters(&self) -> [u64; COUNTERS_MAX] {
        [0; COUNTERS_MAX]
    }

    fn close(self) {
        // A reset: thousands of connections in TIME_WAIT would use up the ports. If the option is refused, they stay in TIME_WAIT.
        let _ = socket2::SockRef::from(&self).set_linger(Some(Duration::ZERO));
    }
}
