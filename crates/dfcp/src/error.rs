//! Error types, one per operation, and their conversion into [`io::Error`].

use std::io;

use dfcp_proto::ConnectionError;

/// The way in which a connection ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// Both sides closed it.
    InOrder,
    /// The connection ended with this error.
    By(ConnectionError),
}

/// Errors of [`Stream::connect`](crate::Stream::connect) and [`Endpoint::connect`](crate::Endpoint::connect).
///
/// ```
/// use dfcp::{Config, ConnectError, ConnectionError, PublicKey, Stream};
///
/// /// Connects, or returns a sentence for the user.
/// async fn dial(server: &str, key: PublicKey) -> Result<Stream, String> {
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
    /// The configuration is invalid, or the endpoint is full.
    #[error(transparent)]
    Rejected(#[from] dfcp_proto::ConnectError),
    /// The handshake failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The system refused to make a socket, or to send on it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Errors of a stream of a [`Session`](crate::Session) while the session goes on. A `StreamError` is the source of an
/// [`io::Error`]; [`of`](Self::of) extracts it.
///
/// ```
/// use dfcp::{Stream, StreamError};
/// use tokio::io::AsyncReadExt;
///
/// /// Reads an answer in a protocol where code 1 means "not found".
/// async fn answer(stream: &mut Stream) -> std::io::Result<Option<String>> {
///     let mut text = String::new();
///     match stream.read_to_string(&mut text).await {
///         Ok(_) => Ok(Some(text)),
///         Err(error) if StreamError::of(&error) == Some(StreamError::Reset { code: 1 }) => Ok(None),
///         Err(error) => Err(error), // another code, or the whole connection has ended
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer has given up its sending half: by [`reset`](crate::Stream::reset), or by dropping it (code 0).
    #[error("the peer reset the stream with code {code}")]
    Reset {
        /// Code chosen by the peer's application.
        code: u32,
    },
    /// The peer wants no more bytes from this side: it called [`stop_sending`](crate::Stream::stop_sending), dropped
    /// the stream, or did not accept it (code 0).
    #[error("the peer stopped the stream with code {code}")]
    Stopped {
        /// Code chosen by the peer's application.
        code: u32,
    },
    /// This side has reset or stopped this half of the stream.
    #[error("this half of the stream was reset or stopped on this side")]
    EndedHere,
    /// This side has closed the session; or the peer has closed it, and its stream limit is reached.
    #[error("the session is closed; open streams on a new one")]
    SessionClosed,
    /// The peer permits no stream of this kind, now or later.
    #[error("the peer takes no streams of this kind; its `Config::streams` says how many it takes")]
    NotTaken,
    /// There is no memory for another stream.
    #[error("this side has no memory left for another stream")]
    NoMemory,
}

impl StreamError {
    /// Returns the `StreamError` that is the source of `error`, if any.
    ///
    /// ```
    /// use dfcp::StreamError;
    ///
    /// let error = std::io::Error::from(StreamError::Reset { code: 7 });
    /// assert_eq!(StreamError::of(&error), Some(StreamError::Reset { code: 7 }));
    /// ```
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        let kind = match error {
            StreamError::Reset { .. } => io::ErrorKind::ConnectionReset,
            StreamError::Stopped { .. } | StreamError::EndedHere => io::ErrorKind::BrokenPipe,
            StreamError::SessionClosed => io::ErrorKind::NotConnected,
            StreamError::NotTaken => io::ErrorKind::Unsupported,
            StreamError::NoMemory => io::ErrorKind::OutOfMemory,
        };
        Self::new(kind, error)
    }
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

/// Wraps a connection error in an [`io::Error`] of the fitting kind. Text and source stay the same.
pub(crate) fn connection_error(error: ConnectionError) -> io::Error {
    let kind = match error {
        ConnectionError::HandshakeTimeout { .. } | ConnectionError::TimedOut | ConnectionError::CloseTimeout => {
            io::ErrorKind::TimedOut
        }
        ConnectionError::PathTooNarrow => io::ErrorKind::NetworkUnreachable,
        ConnectionError::Refused => io::ErrorKind::ConnectionRefused,
        ConnectionError::Reset | ConnectionError::EndedByPeer { .. } | ConnectionError::PeerLostSession => {
            io::ErrorKind::ConnectionReset
        }
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

/// Returns the error of a write after this side has ended the half.
pub(crate) fn shut_down_error() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "this half of the stream has been shut down")
}
