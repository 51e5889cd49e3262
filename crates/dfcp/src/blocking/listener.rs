//! Accepting connections without `async`.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use dfcp_proto::{Accept, Config};

use super::{Endpoint, Session, Stream};
use crate::carrier::Carrier;
use crate::listener::accepts_nothing;

/// Accepts connections; the blocking twin of [`crate::Listener`].
///
/// ```
/// use std::io::{Read, Write};
///
/// use dfcp::Config;
/// use dfcp::blocking::{Listener, Stream};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = dfcp::generate_key()?;
/// let client = Config::client(key.public());
/// let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Config::server(key))?;
/// let mut calling = Stream::connect(listener.local_addr()?, client)?;
/// let mut called = listener.accept()?;
/// calling.write_all(b"ping")?;
/// calling.flush()?;
/// let mut received = [0; 4];
/// called.read_exact(&mut received)?;
/// assert_eq!(&received, b"ping");
/// # Ok(())
/// # }
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

    /// As [`crate::Listener::bind_over`].
    ///
    /// # Errors
    /// As [`Endpoint::bind_over`].
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::bind_over(carrier, addr, Some(accept.into()))? })
    }

    /// Listens on a UDP socket that the application has made and bound, as [`crate::Endpoint::with_socket`] does.
    ///
    /// # Errors
    /// As [`Endpoint::with_socket`].
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::with_socket(socket, Some(accept.into()))? })
    }

    /// The socket's address, with the port which the system chose.
    ///
    /// # Errors
    /// None at present; the signature is that of `std::net::TcpListener`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.endpoint.local_addr())
    }

    /// Waits for the next connection whose handshake is done.
    ///
    /// # Errors
    /// The endpoint accepts nothing any more.
    pub fn accept(&self) -> io::Result<Stream> {
        self.endpoint.accept().ok_or_else(accepts_nothing)
    }

    /// Waits for the next session; the blocking twin of [`crate::Listener::accept_session`].
    ///
    /// # Errors
    /// The endpoint accepts nothing any more.
    pub fn accept_session(&self) -> io::Result<Session> {
        self.endpoint.accept_session().ok_or_else(accepts_nothing)
    }

    /// The endpoint behind it: to open connections from the same socket, or to wait until all are over.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}
