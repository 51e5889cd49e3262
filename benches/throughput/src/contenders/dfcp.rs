//! DFCP, through its public library.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use anyhow::Context;
use dfcp::{Accept, Config, Endpoint, Listener, PublicKey, Rate, Stream};
use tokio::io::{self, AsyncRead, AsyncWrite, ReadBuf};

use super::{COUNTERS_MAX, Dial, Duplex, Listen};
use crate::limits;
use crate::protocol::Ready;

/// The accepting side.
#[derive(Debug)]
pub(crate) struct Server {
    listener: Listener,
    key: Option<PublicKey>,
}

/// Opening side: one endpoint whose socket is used by all connections.
#[derive(Debug)]
pub(crate) struct Client {
    endpoint: Endpoint,
    server: SocketAddr,
    config: Config,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection(Stream);

fn at_rate(config: Config, rate_bps: Option<u64>) -> Config {
    config.with_rate(rate_bps.map_or(Rate::Line, |rate_bps| Rate::Fixed { rate_bps }))
}

impl Server {
    /// Listens on a port chosen by the system. Must be called within a runtime.
    pub(crate) fn bind(ip: IpAddr, sealed: bool) -> anyhow::Result<Self> {
        let (config, key) = if sealed {
            let key = dfcp::generate_key().context("the system gives no random bytes for a key")?;
            let public = key.public();
            (Config::server(key), Some(public))
        } else {
            (Config::danger_unsealed(), None)
        };
        let accept = Accept {
            connections_max: limits::CONNECTIONS_MAX,
            connections_per_address_max: limits::CONNECTIONS_MAX,
            memory_bytes_max: Some(limits::LISTENER_MEMORY_BYTES),
            ..Accept::from(at_rate(config, None))
        };
        let listener = Listener::bind_with(SocketAddr::new(ip, 0), accept).context("cannot listen with DFCP")?;
        Ok(Self { listener, key })
    }
}

impl Listen for Server {
    type Incoming = Stream;
    type Stream = Connection;

    fn ready(&self) -> anyhow::Result<Ready> {
        let key = self.key.map(|key| key.to_string());
        Ok(Ready { address: self.listener.local_addr()?, key, bytes: None })
    }

    async fn accept(&self) -> anyhow::Result<Stream> {
        self.listener.accept().await.context("cannot accept over DFCP")
    }

    async fn establish(incoming: Stream) -> anyhow::Result<Connection> {
        Ok(Connection(incoming))
    }
}

impl Client {
    /// Makes a client; without a key in `server` it does not encrypt. Must be called within a runtime.
    pub(crate) fn new(
        ip: IpAddr,
        server: &Ready,
        rate_bps: Option<u64>,
        send_buffer_bytes: u32,
    ) -> anyhow::Result<Self> {
        let config = match &server.key {
            Some(key) => Config::client(key.parse::<PublicKey>().context("the server's key is none")?),
            None => Config::danger_unsealed(),
        };
        let endpoint = Endpoint::bind(SocketAddr::new(ip, 0), None).context("cannot open a socket for DFCP")?;
        let config = at_rate(config, rate_bps).with_send_buffer_bytes(send_buffer_bytes.into());
        Ok(Self { endpoint, server: server.address, config })
    }
}

impl Dial for Client {
    type Stream = Connection;

    async fn dial(&self) -> anyhow::Result<Connection> {
        let stream = self.endpoint.connect(self.server, self.config.clone()).await;
        Ok(Connection(stream.context("cannot connect over DFCP")?))
    }
}

impl Duplex for Connection {
    const COUNTERS: &'static [&'static str] =
        &["datagrams_sent", "datagrams_received", "repair_sent", "wasted", "missing", "reports_sent"];

    fn counters(&self) -> [u64; COUNTERS_MAX] {
        let stats = self.0.stats();
        [
            stats.segments_sent,
            stats.segments_received,
            stats.sent.total() - stats.sent.source,
            stats.wasted.total(),
            stats.datagrams_missing,
            stats.acks_sent,
        ]
    }

    fn close(self) {
        self.0.abort();
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
