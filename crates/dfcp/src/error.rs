//! What can go wrong, one small type per operation, and how that looks as an [`io::Error`].

use std::io;

use dfcp_proto::{ConnectionError, WriteError};

/// Why [`Stream::connect`](crate::Stream::connect) or [`Endpoint::connect`](crate::Endpoint::connect) failed.
///
/// ```
/// use dfcp::{Config, ConnectError, ConnectionError, PublicKey, Stream};
///
/// /// Connects, or says what to do.
/// async fn dial(server: std::net::SocketAddr, key: PublicKey) -> Result<Stream, String> {
///     Stream::connect(server, Config::client(key)).await.map_err(|error| match error {
///         ConnectError::Connection(ConnectionError::UnexpectedKey(shown)) => format!("{server} has the key {shown}!"),
///         ConnectError::Connection(error) => format!("{server}: {error}"),
///         other => format!("a fault on this side: {other}"),
///     })
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration makes no sense, or the endpoint is full.
    #[error(transparent)]
    Rejected(#[from] dfcp_proto::ConnectError),
    /// The handshake failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The system would not make a socket, or would not send on it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Rejected(error) => Self::new(io::ErrorKind::InvalidInput, error),
            ConnectError::Connection(error) => connection_error(error),
            ConnectError::Io(error) => error,
        }
    }
}

/// The sentence and the source stay; only the kind is chosen.
pub(crate) fn connection_error(error: ConnectionError) -> io::Error {
    let kind = match error {
        ConnectionError::HandshakeTimeout { .. } | ConnectionError::TimedOut | ConnectionError::CloseTimeout => {
            io::ErrorKind::TimedOut
        }
        ConnectionError::Refused => io::ErrorKind::ConnectionRefused,
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        ConnectionError::Aborted => io::ErrorKind::ConnectionAborted,
        ConnectionError::PeerMisbehaved(_) => io::ErrorKind::InvalidData,
        ConnectionError::Incompatible => io::ErrorKind::Unsupported,
        ConnectionError::UnexpectedKey(_) | ConnectionError::PinnedKeyRefused | ConnectionError::NotAdmitted => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

pub(crate) fn write_error(error: WriteError) -> io::Error {
    match error {
        WriteError::Connection(error) => connection_error(error),
        other => io::Error::new(io::ErrorKind::BrokenPipe, other),
    }
}
