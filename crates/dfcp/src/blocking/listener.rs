//! Listener without `async`.

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

    /// Like [`crate::Listener::bind_over`].
    ///
    /// # Errors
    /// Same as [`Endpoint::bind_over`].
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::bind_over(carrier, addr, Some(accept.into()))? })
    }

    /// Listens on a UDP socket that the application has made and bound, like [`crate::Endpoint::with_socket`].
    ///
    /// # Errors
    /// Same as [`Endpoint::with_socket`].
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::with_socket(socket, Some(accept.into()))? })
    }

    /// Returns the socket's local address, with the port that the system chose.
    ///
    /// # Errors
    /// None at present; the signature follows `std::net::TcpListener`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.endpoint.local_addr())
    }

    /// Waits for the next connection whose handshake is done.
    ///
    /// # Errors
    /// `NotConnected` if the endpoint no longer accepts connections.
    pub fn accept(&self) -> io::Result<Stream> {
        self.endpoint.accept().ok_or_else(accepts_nothing)
    }

    /// Waits for the next session; the blocking twin of [`crate::Listener::accept_session`].
    ///
    /// # Errors
    /// `NotConnected` if the endpoint no longer accepts connections.
    pub fn accept_session(&self) -> io::Result<Session> {
        self.endpoint.accept_session().ok_or_else(accepts_nothing)
    }

    /// Returns the endpoint of this listener, for opening connections from the same socket, or for waiting until all
    /// connections are over.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}
