//! Listener of the async API.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use dfcp_proto::{Accept, Config};

use crate::carrier::Carrier;
use crate::endpoint::Endpoint;
use crate::session::Session;
use crate::stream::Stream;

/// Accepts connections on one socket, like `tokio::net::TcpListener`.
///
/// Dropping the last clone resets connections that wait to be accepted; accepted streams live on.
///
/// ```
/// use dfcp::{Config, Listener, StaticKey};
///
/// /// Echoes to all clients.
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
    /// Binds to `addr` and accepts connections of the profile and settings of `config`.
    ///
    /// # Errors
    /// Same as [`Endpoint::bind`].
    pub fn bind(addr: SocketAddr, config: Config) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, config)
    }

    /// Binds to `addr` and accepts connections of the profiles that `accept` permits.
    ///
    /// # Errors
    /// Same as [`Endpoint::bind`].
    pub fn bind_with(addr: SocketAddr, accept: Accept) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, accept)
    }

    /// Binds to `addr` over the given carrier. A [`Config`] accepts connections of its profile only, an [`Accept`] of
    /// either profile.
    ///
    /// # Errors
    /// Same as [`Endpoint::bind_over`].
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::bind_over(carrier, addr, Some(accept.into()))? })
    }

    /// Listens on a UDP socket that the application has made and bound, like [`Endpoint::with_socket`].
    ///
    /// # Errors
    /// Same as [`Endpoint::with_socket`].
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::with_socket(socket, Some(accept.into()))? })
    }

    /// Returns the socket's local address, with the port that the system chose.
    ///
    /// # Errors
    /// None at present; the signature follows `tokio::net::TcpListener`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.endpoint.local_addr())
    }

    /// Waits for the next connection whose handshake is done. Cancel-safe: a connection is either returned or stays in
    /// the queue.
    ///
    /// # Errors
    /// `NotConnected` if the endpoint no longer accepts connections.
    pub async fn accept(&self) -> io::Result<Stream> {
        self.endpoint.accept().await.ok_or_else(accepts_nothing)
    }

    /// Like [`accept`](Self::accept), for sessions with any number of streams; [`Session`] has an example.
    /// [`Config::streams`] limits the streams that the peer may open; the default is none. Classic connections, which
    /// have one stream, are reset.
    ///
    /// # Errors
    /// `NotConnected` if the endpoint no longer accepts connections.
    pub async fn accept_session(&self) -> io::Result<Session> {
        self.endpoint.accept_session().await.ok_or_else(accepts_nothing)
    }

    /// Returns the endpoint of this listener, for opening connections from the same socket, or for waiting until all
    /// connections are over.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

pub(crate) fn accepts_nothing() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "this endpoint accepts no connections")
}
