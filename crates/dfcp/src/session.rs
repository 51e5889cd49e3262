//! Sessions: connections with any number of streams.

use std::io;
use std::sync::Arc;

use dfcp_proto::{ConnectionError, Deadline, MessageError, ReceivedMessage, StreamKind};

use crate::connection::{Shared, StreamHandle};
use crate::path_watch::PathWatch;
use crate::stream::{ReadHalf, Stream, WriteHalf};

/// A connection in which both sides open streams. A bidirectional stream is a [`Stream`] on either side; a one-way
/// stream is a [`WriteHalf`] at the sender and a [`ReadHalf`] at the receiver.
///
/// All streams share the connection's handshake, keys, rate, credit and memory, but loss in one stream delays no other
/// stream. Opening a stream takes no round trip; the peer learns of it with the first bytes written to it.
///
/// ```
/// use dfcp::{Config, Listener, Session, StreamLimits};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let key = dfcp::generate_key()?;
/// let client = Config::client(key.public());
/// // Streams that a client may have open at once:
/// let server = Config::server(key).with_streams(StreamLimits { bidirectional: 100, one_way: 0 });
/// let listener = Listener::bind(([127, 0, 0, 1], 0).into(), server)?;
/// let address = listener.local_addr()?;
/// let serving = tokio::spawn(async move {
///     let session = listener.accept_session().await?;
///     while let Some(mut stream) = session.accept_stream().await {
///         tokio::spawn(async move {
///             let mut question = String::new();
///             stream.read_to_string(&mut question).await?;
///             stream.write_all(question.to_uppercase().as_bytes()).await?;
///             stream.finish()
///         });
///     }
///     session.close().await
/// });
///
/// let session = Session::connect(address, client).await?;
/// for question in ["one", "two", "three"] {
///     let mut stream = session.open_stream().await?;
///     stream.write_all(question.as_bytes()).await?;
///     stream.finish()?; // the server reads the end; its answer implies the confirmation
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer).await?;
///     assert_eq!(answer, question.to_uppercase());
/// }
/// session.close().await?; // both sides have confirmed every byte
/// serving.await??;
/// # Ok(())
/// # }
/// ```
///
/// **End.** Both sides call [`close`](Self::close). The side that is done first calls it; then
/// [`accept_stream`](Self::accept_stream) of the other side returns `None`, and that side calls `close`, too. If the
/// session and all of its streams are dropped without `close`, the connection is aborted, and the peer reads an error.
/// After `close`, the endpoint completes the end even without any handle. While streams but no `Session` are left, new
/// streams of the peer are refused, as no caller could accept them. [`Stream`] lists the events that end waiting
/// futures.
///
/// Clones are handles of the same session. All methods may be called from any number of tasks.
///
/// **Cancel safety.** A future dropped before it is ready has opened, accepted and taken nothing. A dropped `close` has
/// begun, and a further call waits for the end.
#[derive(Clone, Debug)]
pub struct Session {
    handle: Arc<StreamHandle>,
}

impl Session {
    pub(crate) fn new(handle: StreamHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Opens a bidirectional stream. Waits while the peer's stream limit is reached. Cancel-safe.
    ///
    /// # Errors
    /// [`StreamError::NotTaken`](crate::StreamError::NotTaken) if the peer permits no such streams at all,
    /// [`StreamError::SessionClosed`](crate::StreamError::SessionClosed) after [`close`](Self::close), or if the peer
    /// has closed the session and its limit is reached; or the error that ended the connection.
    pub async fn open_stream(&self) -> io::Result<Stream> {
        Ok(Stream::new(self.handle.open(StreamKind::Bidirectional).await?))
    }

    /// Opens a stream on which only this side sends. Waits while the peer's stream limit is reached. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`open_stream`](Self::open_stream).
    pub async fn open_one_way(&self) -> io::Result<WriteHalf> {
        Ok(WriteHalf::new(self.handle.open(StreamKind::OneWay).await?))
    }

    /// Waits for the next bidirectional stream that the peer opens. Returns `None` if no more can come: the peer or
    /// this side has closed the session, or the session has failed, in which case [`close`](Self::close) returns the
    /// error. Cancel-safe.
    pub async fn accept_stream(&self) -> Option<Stream> {
        Some(Stream::new(self.handle.accept(StreamKind::Bidirectional).await?))
    }

    /// Waits for the next stream on which only the peer sends, like [`accept_stream`](Self::accept_stream).
    pub async fn accept_one_way(&self) -> Option<ReadHalf> {
        Some(ReadHalf::new(self.handle.accept(StreamKind::OneWay).await?))
    }

    /// Queues a message: a unit of 0 to 262 144 bytes that is worth nothing after its deadline. A message belongs to no
    /// stream. It is delivered once and in time or not at all, in any order, and never waits for another message. The
    /// sender sends the fewest datagrams that reach the deadline's target probability. Beside streams, messages take up
    /// to [`message_share_percent`](crate::Config::message_share_percent) of the rate. [`watch_path`](Self::watch_path)
    /// returns that rate.
    ///
    /// Both ends must have [`messages`](crate::Config::messages) enabled.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dfcp::{Config, Deadline, Listener, Session};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let key = dfcp::generate_key()?;
    /// let client = Config::client(key.public()).with_messages(true);
    /// let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Config::server(key).with_messages(true))?;
    /// let address = listener.local_addr()?;
    /// let receiving = tokio::spawn(async move {
    ///     let session = listener.accept_session().await?;
    ///     let frame = session.receive_message().await.expect("it is in time");
    ///     session.close().await?;
    ///     std::io::Result::Ok(frame.bytes)
    /// });
    ///
    /// let session = Session::connect(address, client).await?;
    /// session.send_message(b"a frame", Deadline::within(Duration::from_secs(5)))?;
    /// session.close().await?;
    /// assert_eq!(receiving.await??, b"a frame");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MessageError::TooLong`], [`MessageError::Full`] while the message queue is full, [`MessageError::NotTaken`] if
    /// the peer does not permit messages, and [`MessageError::Ended`] after the session's end.
    pub fn send_message(&self, message: &[u8], deadline: Deadline) -> Result<(), MessageError> {
        self.shared().send_message(message, deadline)
    }

    /// Waits for the next message that arrives in time. Returns `None` if no more can come: the peer has closed the
    /// session and all earlier messages have been returned, the session has failed, or messages are not enabled at both
    /// ends. After a [`close`](Self::close) of this side, messages still arrive until the peer closes, too.
    /// Cancel-safe: a message is either returned or stays in the queue.
    pub async fn receive_message(&self) -> Option<ReceivedMessage> {
        self.shared().receive_message().await
    }

    /// Closes the session in order, and waits until the close is complete. For that, the application must shut down
    /// each stream that it has not dropped, each message must have arrived or expired, and the peer must have confirmed
    /// every byte and closed the session, too. The peer's application may take any time for this.
    ///
    /// Afterwards no stream is opened or accepted. New streams of the peer are refused: the peer gets
    /// [`StreamError::Stopped`](crate::StreamError::Stopped) with code 0, unless all bytes of the stream had arrived
    /// before.
    ///
    /// Dropping the future does not undo the close; a further call waits for its completion.
    ///
    /// # Errors
    /// The error that ended the connection before the close was complete.
    pub async fn close(&self) -> io::Result<()> {
        self.shared().close().await
    }

    /// Aborts like [`abort`](Self::abort), with a code for the peer's application, which gets it in
    /// [`ConnectionError::EndedByPeer`]. Like every abort it is sent in one datagram; if that is lost, the peer notices
    /// the end only by its idle timeout.
    pub fn abort_with(&self, code: u32) {
        self.shared().abort_with(code);
    }

    /// Waits until the connection is over, like [`Stream::closed`]. Cancel-safe.
    pub async fn closed(&self) -> Option<ConnectionError> {
        self.shared().closed().await
    }

    /// Returns a watch on the path's estimates, like [`Stream::watch_path`].
    #[must_use]
    pub fn watch_path(&self) -> PathWatch {
        self.shared().watch_path()
    }
}

impl Stream {
    /// Returns the session of this stream, which opens and accepts other streams. Returns `None` for a classic
    /// connection, which has one stream. If this stream was the whole connection until now, it stays the first stream:
    /// its [`shutdown`](tokio::io::AsyncWriteExt::shutdown) completes when all other streams of this side have ended,
    /// too, and [`Session::close`] shuts it down. Streams that the peer opened before this call were refused.
    ///
    /// ```
    /// # use dfcp::{Config, Listener, Stream, StreamLimits};
    /// # use tokio::io::{AsyncReadExt, AsyncWriteExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// # let key = dfcp::generate_key()?;
    /// # let client = Config::client(key.public());
    /// # let server = Config::server(key).with_streams(StreamLimits { bidirectional: 0, one_way: 10 });
    /// # let listener = Listener::bind(([127, 0, 0, 1], 0).into(), server)?;
    /// # let address = listener.local_addr()?;
    /// // A protocol with a control stream first, which sends bulk data on other streams:
    /// # tokio::spawn(async move {
    /// let mut control = listener.accept().await?;
    /// let session = control.session().expect("a modern connection");
    /// control.write_all(b"ready").await?;
    /// control.flush().await?;
    /// let mut bulk = Vec::new();
    /// session.accept_one_way().await.expect("a stream").read_to_end(&mut bulk).await?;
    /// session.close().await?; // the first stream with it
    /// # std::io::Result::Ok(())
    /// # });
    /// # let mut control = Stream::connect(address, client).await?;
    /// # control.read_exact(&mut [0; 5]).await?;
    /// # let mut bulk = control.session().expect("a modern connection").open_one_way().await?;
    /// # bulk.write_all(&[0; 1000]).await?;
    /// # bulk.shutdown().await?;
    /// # control.shutdown().await
    /// # }
    /// ```
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.session_handle().map(Session::new)
    }
}
