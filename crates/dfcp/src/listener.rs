//! Accepting connections.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use dfcp_proto::{Accept, Config};

use crate::carrier::Carrier;
use crate::endpoint::Endpoint;
use crate::session::Session;
use crate::stream::Stream;

/// Accepts connections on one socket, like `tokio::net::TcpListener`.
///
/// Dropping it resets what waits to be accepted; accepted streams live on.
///
/// ```
/// use dfcp::{Config, Listener, StaticKey};
///
/// /// Gives back to everybody what they send.
/// async fn serve(key: StaticKey) -> std::io::Result<()> {
///     let listener = Listener::bind("[::]:4433".parse().expect("an address"), Config::server(key))?;
///     loop {
///         let stream = listener.accept().await?;
///         tokio::spawn(async move {
///             let (mut reader, mut writer) = stream.into_split();
///             tokio::io::copy(&mut reader, &mut writer).await?;
///             tokio::io::AsyncWriteExt::shutdown(&mut writer).await
///         });
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Listener {
    endpoint: Endpoint,
}

impl Listener {
    /// Binds to `addr` and takes in connections of `config.profile`, configured so.
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
    pub fn bind(addr: SocketAddr, config: Config) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, config)
    }

    /// Binds to `addr` and takes in connections of either profile, as `accept` says.
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
    pub fn bind_with(addr: SocketAddr, accept: Accept) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, accept)
    }

    /// Binds to `addr` over the carrier of one's choice, and takes in what `accept` says: a [`Config`] for connections of
    /// its profile, an [`Accept`] for either.
    ///
    /// # Errors
    /// As [`Endpoint::bind_over`].
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::bind_over(carrier, addr, Some(accept.into()))? })
    }

    /// Listens on a UDP socket that the application has made and bound, as [`Endpoint::with_socket`] does.
    ///
    /// # Errors
    /// As [`Endpoint::with_socket`].
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::with_socket(socket, Some(accept.into()))? })
    }

    /// The socket's address, with the port which the system chose.
    ///
    /// # Errors
    /// None at present; the signature is that of `tokio::net::TcpListener`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.endpoint.local_addr())
    }

    /// Waits for the next connection whose handshake is done. Cancel-safe: a connection is either returned or stays in the
    /// queue.
    ///
    /// # Errors
    /// The endpoint accepts nothing any more.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.endpoint.accept().await.ok_or_else(accepts_nothing)
    }

    /// As [`accept`](Self::accept), for sessions with any number of streams; an example is at [`Session`]. [`Config::streams`]
    /// limits the streams that the peer may open; at first to none. Classic connections, which have one stream, are reset.
    ///
    /// # Errors
    /// The endpoint accepts nothing any more.
    pub async fn accept_session(&self) -> io::Result<Session> {
        self.endpoint.accept_session().await.ok_or_else(accepts_nothing)
    }

    /// The endpoint behind it: to open connections from the same socket, or to wait until all are over.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

pub(crate) fn accepts_nothing() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "this endpoint accepts no connections")
}
