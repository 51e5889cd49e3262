//! A connection with any number of streams.

use std::io;
use std::sync::Arc;

use dfcp_proto::{ConnectionError, Deadline, MessageError, ReceivedMessage, StreamKind};

use crate::connection::{Shared, StreamHandle};
use crate::path_watch::PathWatch;
use crate::stream::{ReadHalf, Stream, WriteHalf};

/// A connection in which both sides open streams: each a [`Stream`], or one-way a [`WriteHalf`] here and a [`ReadHalf`] there.
///
/// Streams share what a connection has (handshake, keys, rate, credit, memory), and nothing of what they carry: what is lost of one
/// holds up no other. Opening one takes no round trip; the peer learns of it with the first bytes that are written to it.
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
///     stream.finish()?; // the server reads the end; the answer says more than a confirmation
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer).await?;
///     assert_eq!(answer, question.to_uppercase());
/// }
/// session.close().await?; // both sides have all, and have said so
/// serving.await??;
/// # Ok(())
/// # }
/// ```
///
/// **Its end.** [`close`](Self::close) is for both sides: the one that is done first calls it, the other one learns of that when
/// [`accept_stream`](Self::accept_stream) returns `None`, and calls it, too. When the session and all of its streams are dropped, and
/// `close` was not called, the connection is aborted, and the peer reads an error. After `close` the endpoint brings the rest to its end.
/// While streams live, but no `Session` any more, new streams of the peer are refused, as nobody could accept them. [`Stream`] says what ends
/// all that waits.
///
/// Clones are the same session. All methods may be called from any number of tasks.
///
/// **Cancel safety.** A future that is dropped before it is ready has opened, accepted and taken nothing; `close` has begun, and a
/// further call waits for it.
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

    /// Opens a stream both ways; waits as long as the peer permits no more. Cancel-safe.
    ///
    /// # Errors
    /// [`StreamError::NotTaken`](crate::StreamError::NotTaken) if the peer takes none at all,
    /// [`StreamError::SessionClosed`](crate::StreamError::SessionClosed) after [`close`](Self::close), or if the peer has closed the session
    /// and permits no more streams than are open; or why the connection has ended.
    pub async fn open_stream(&self) -> io::Result<Stream> {
        Ok(Stream::new(self.handle.open(StreamKind::Bidirectional).await?))
    }

    /// Opens a stream on which only this side sends; waits as long as the peer permits no more. Cancel-safe.
    ///
    /// # Errors
    /// As [`open_stream`](Self::open_stream).
    pub async fn open_one_way(&self) -> io::Result<WriteHalf> {
        Ok(WriteHalf::new(self.handle.open(StreamKind::OneWay).await?))
    }

    /// Waits for the next stream both ways which the peer opens. `None` if there will be none: the peer or this side has closed the
    /// session, or it has failed, which [`close`](Self::close) tells. Cancel-safe.
    pub async fn accept_stream(&self) -> Option<Stream> {
        Some(Stream::new(self.handle.accept(StreamKind::Bidirectional).await?))
    }

    /// Waits for the next stream on which only the peer sends; as [`accept_stream`](Self::accept_stream).
    pub async fn accept_one_way(&self) -> Option<ReadHalf> {
        Some(ReadHalf::new(self.handle.accept(StreamKind::OneWay).await?))
    }

    /// Hands a message over: a unit of 0 to 262 144 bytes which is worth nothing after its deadline. It belongs to no stream, is delivered
    /// once and in time or not at all, in no order, and never waits for another. As few datagrams are sent as make it come with the
    /// deadline's target probability; beside streams, messages take up to
    /// [`message_share_percent`](crate::Config::message_share_percent) of the rate. [`watch_path`](Self::watch_path) tells what rate there is.
    ///
    /// Both ends must have [`messages`](crate::Config::messages) on.
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
    /// [`MessageError::TooLong`], [`MessageError::Full`] while more wait than there is room for, [`MessageError::NotTaken`] if the peer
    /// does not permit messages, and [`MessageError::Ended`] after the session's end.
    pub fn send_message(&self, message: &[u8], deadline: Deadline) -> Result<(), MessageError> {
        self.shared().send_message(message, deadline)
    }

    /// Waits for the next message that has come in time. `None` if there will be none: the peer has closed the session and all that came
    /// before has been received, the session has failed, or not both ends have messages on. After a [`close`](Self::close) of this side
    /// the peer's messages still come until it closes, too. Cancel-safe: a message is either returned or stays in the queue.
    pub async fn receive_message(&self) -> Option<ReceivedMessage> {
        self.shared().receive_message().await
    }

    /// Ends the session in order, and waits until that is done: each stream that this side has not dropped is shut down by its
    /// application, each message has come or its time is over, the peer has confirmed every byte, and has closed the session, too, which
    /// may take as long as its application likes.
    ///
    /// No stream is opened or accepted any more. Streams that the peer opens are refused: it gets
    /// [`StreamError::Stopped`](crate::StreamError::Stopped) with code 0, unless all of it has arrived by then.
    ///
    /// Dropping the future does not take the close back; calling it again waits for it.
    ///
    /// # Errors
    /// Why the connection ended before that.
    pub async fn close(&self) -> io::Result<()> {
        self.shared().close().await
    }

    /// As [`abort`](Self::abort), with a code for the peer's application, which gets it in [`ConnectionError::EndedByPeer`]. Like every
    /// abort it is told in one datagram: if that is lost, the peer learns of it by its idle timeout.
    pub fn abort_with(&self, code: u32) {
        self.shared().abort_with(code);
    }

    /// Waits until the connection is over, as [`Stream::closed`] does. Cancel-safe.
    pub async fn closed(&self) -> Option<ConnectionError> {
        self.shared().closed().await
    }

    /// Watches what is known of the path, as [`Stream::watch_path`] does.
    #[must_use]
    pub fn watch_path(&self) -> PathWatch {
        self.shared().watch_path()
    }
}

impl Stream {
    /// The session of which this is a stream, to open and accept others beside it; `None` for a classic connection, which has one
    /// stream. If this is the whole connection until now, it stays the first stream: its [`shutdown`](tokio::io::AsyncWriteExt::shutdown) is
    /// complete when all other streams of this side have ended, too, and [`Session::close`] shuts it down. Streams which the peer opened
    /// before this call were refused.
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
    /// // A protocol which talks on its first stream, and sends the bulk on others:
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
