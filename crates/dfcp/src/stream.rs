//! Connections as bidirectional byte streams.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dfcp_proto::{ConnectionError, Priority, StreamId, StreamStats};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(feature = "classic")]
use crate::classic::Parameters;
use crate::connection::{Half, Shared, StreamHandle};
use crate::path_watch::PathWatch;

/// A connection, like `tokio::net::TcpStream`, or one stream of a [`Session`](crate::Session).
///
/// ```
/// use dfcp::{Config, Listener, Stream};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let key = dfcp::generate_key()?;
/// let client = Config::client(key.public());
/// let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Config::server(key))?;
/// let address = listener.local_addr()?;
/// let server = tokio::spawn(async move {
///     let mut stream = listener.accept().await?;
///     let mut received = Vec::new();
///     stream.read_to_end(&mut received).await?;
///     std::io::Result::Ok(received)
/// });
/// let mut stream = Stream::connect(address, client).await?;
/// stream.write_all(b"hello").await?;
/// stream.shutdown().await?; // the peer has confirmed every byte
/// assert_eq!(server.await??, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// - `write` takes as many bytes as the send buffer has room for; at most 2 MiB of the buffer may be unsent. Data is
///   sent in blocks. `flush` sends a block that is not yet full, and returns immediately.
/// - `shutdown` ends the sending half and returns once **the peer has confirmed every byte**; the receiving half stays
///   open. [`finish`](Self::finish) also ends the sending half, but returns immediately; [`stopped`](Self::stopped)
///   waits for the confirmation.
/// - Dropping the stream before `shutdown` or `finish` aborts the connection: the peer reads an error, not an end.
///   After `shutdown` or `finish`, the endpoint completes the delivery of a dropped stream, and answers retransmissions
///   until TIME_WAIT is over.
///
/// **In a session.** Everything about the connection (counters, rate, path, address, state, [`abort`](Self::abort),
/// [`closed`](Self::closed)) refers to the session with all of its streams. Dropping the stream before `shutdown` ends
/// this stream alone: the peer's reader gets [`StreamError::Reset`](crate::StreamError::Reset), and its writer
/// [`StreamError::Stopped`](crate::StreamError::Stopped), both with code 0. A stream dropped after `shutdown` or
/// `finish` is still delivered, but reads no more.
///
/// # Ends
///
/// No future of this crate outlasts its connection. Once the connection is over, `read`, `write`, `flush`, `shutdown`
/// and [`Session::open_stream`](crate::Session::open_stream) return the error that ended it, and
/// [`Session::accept_stream`](crate::Session::accept_stream),
/// [`Session::receive_message`](crate::Session::receive_message) and [`PathWatch::changed`] return `None`. A connection
/// is over when both sides have closed it, immediately after [`abort`](Self::abort), when the peer has aborted or
/// dropped it, after [`Config::idle_timeout`](crate::Config::idle_timeout) without a datagram from the peer, and when
/// its runtime has ended ([`Aborted`](ConnectionError::Aborted)). Until then these futures wait for the peer's
/// application without a time limit.
///
/// # Cancel safety
///
/// All futures of this crate may be dropped before they are ready, as `select!` and `timeout` do. Consequences:
///
/// - `read` has taken no bytes, and `write` has handed over none. (`write_all`, `read_exact`, `read_to_end` and `copy`
///   of tokio consist of several reads or writes: completed ones stay done, and their number of bytes is unknown.)
/// - `shutdown` has begun: the end of the stream is sent, and a further call waits for its confirmation.
/// - [`connect`](Self::connect) aborts its attempt and leaves nothing behind.
/// - [`Session::open_stream`](crate::Session::open_stream), [`Session::accept_stream`](crate::Session::accept_stream)
///   and [`Session::receive_message`](crate::Session::receive_message) have opened, accepted or taken nothing.
/// - [`Session::close`](crate::Session::close) has begun: the session is being closed, and a further call waits for the
///   end.
/// - [`stopped`](Self::stopped) only waits: neither the future nor its drop keeps or ends the stream.
/// - [`closed`](Self::closed), [`PathWatch::changed`], [`Listener::accept`](crate::Listener::accept) and
///   [`Endpoint::wait_idle`](crate::Endpoint::wait_idle) only wait. No connection and no path change is lost.
#[derive(Debug)]
pub struct Stream {
    handle: Arc<StreamHandle>,
}

/// The reading half of a [`Stream`], from [`Stream::into_split`] (with an example); or a stream on which only the peer
/// sends, from [`Session::accept_one_way`](crate::Session::accept_one_way).
///
/// **Dropping** this half before its end was read asks the peer to stop sending, like
/// [`stop_sending`](Self::stop_sending) with code 0, even while the other half lives. On a connection's first stream,
/// the drop has no effect until the other half is dropped, too.
///
/// ```
/// use dfcp::{ReadHalf, Session};
/// use tokio::io::AsyncReadExt;
///
/// /// Reads the first line from the peer, then asks the peer to stop sending.
/// async fn first_line(session: &Session) -> std::io::Result<Vec<u8>> {
///     let mut reader: ReadHalf = session.accept_one_way().await.ok_or(std::io::ErrorKind::UnexpectedEof)?;
///     let mut line = Vec::new();
///     let mut piece = [0; 1024];
///     while !line.contains(&b'\n') {
///         match reader.read(&mut piece).await? {
///             0 => break,
///             count => line.extend_from_slice(&piece[..count]),
///         }
///     }
///     reader.stop_sending(0); // the code is the application's
///     Ok(line)
/// }
/// ```
#[derive(Debug)]
pub struct ReadHalf {
    handle: Arc<StreamHandle>,
}

/// The writing half of a [`Stream`], from [`Stream::into_split`] (with an example); or a stream on which only this side
/// sends, from [`Session::open_one_way`](crate::Session::open_one_way).
///
/// **Dropping** this half before `shutdown` or `finish` resets it, like [`reset`](Self::reset) with code 0, even while
/// the other half lives. On a connection's first stream, the drop has no effect until the other half is dropped, too.
///
/// ```
/// use dfcp::{Priority, Session, WriteHalf};
/// use tokio::io::AsyncWriteExt;
///
/// /// Sends a picture before all other data of the session.
/// async fn show(session: &Session, picture: &[u8]) -> std::io::Result<()> {
///     let mut writer: WriteHalf = session.open_one_way().await?;
///     writer.set_priority(Priority { urgency: 0, ..Priority::default() });
///     writer.write_all(picture).await?;
///     writer.shutdown().await // the peer has confirmed every byte
/// }
/// ```
#[derive(Debug)]
pub struct WriteHalf {
    handle: Arc<StreamHandle>,
}

impl Stream {
    pub(crate) fn new(handle: StreamHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.handle.shared
    }

    /// Returns a watch on the path's estimates (rate, round-trip time and loss), for applications that adapt to them.
    #[must_use]
    pub fn watch_path(&self) -> PathWatch {
        self.shared().watch_path()
    }

    /// Returns the parameters of thesis table 3.2.
    #[cfg(feature = "classic")]
    #[must_use]
    pub fn parameters(&self) -> Parameters<'_> {
        Parameters(self.shared())
    }

    /// Sets the priority of this stream among the streams that this side sends in the same session.
    pub fn set_priority(&self, priority: Priority) {
        self.handle.set_priority(priority);
    }

    /// Returns the number of this stream in its connection. Both sides have the same number, which is never reused
    /// within the connection. The only stream of a connection that is no session has [`StreamId::FIRST`].
    ///
    /// ```
    /// # async fn example(session: &dfcp::Session) -> std::io::Result<()> {
    /// let stream = session.open_stream().await?;
    /// eprintln!("request {}", stream.id()); // the server's log has the same number
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.handle.id()
    }

    /// Returns counters of this stream, for both directions. They stay available after the stream's end. A call takes a
    /// lock but makes no system call. Counters of the whole connection are in [`stats`](Self::stats).
    ///
    /// ```
    /// # fn example(stream: &dfcp::Stream) {
    /// let stats = stream.stream_stats();
    /// let repair = stats.sent.total() - stats.sent.source;
    /// eprintln!("stream {}: {} of {} bytes there, {repair} repair symbols", stream.id(), stats.bytes_acknowledged, stats.bytes_written);
    /// # }
    /// ```
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.handle.stream_stats()
    }

    /// Ends this half, like `shutdown`, but returns immediately. All written bytes are delivered, then the peer reads
    /// the end. A second call, or a call after `shutdown`, changes nothing. Writing afterwards is an error
    /// (`BrokenPipe`).
    ///
    /// A return without an error does not mean that the bytes were delivered. [`stopped`](Self::stopped),
    /// [`Session::close`](crate::Session::close) and a later `shutdown` wait for the delivery. A program that ends, or
    /// drops the last handle of a session without `close`, cuts off undelivered bytes.
    ///
    /// A stream that the peer has stopped is no error here, as the peer may have all the bytes it wants. Dropping a
    /// bidirectional stream unread asks the peer to stop; peers accept 250 such streams a second from a session. Use
    /// [`Session::open_one_way`](crate::Session::open_one_way) for data in one direction.
    ///
    /// # Errors
    /// The error that ended the connection, or [`StreamError::EndedHere`](crate::StreamError::EndedHere) after a
    /// [`reset`](Self::reset).
    ///
    /// ```
    /// # use dfcp::Session;
    /// # use tokio::io::AsyncWriteExt;
    /// # async fn example(session: &Session) -> std::io::Result<()> {
    /// for question in ["one", "two", "three"] {
    ///     let mut stream = session.open_stream().await?;
    ///     stream.write_all(question.as_bytes()).await?;
    ///     stream.finish()?; // the next one does not wait for this one's confirmation
    /// }
    /// session.close().await // which waits for all
    /// # }
    /// ```
    pub fn finish(&mut self) -> io::Result<()> {
        self.handle.finish()
    }

    /// Waits until the peer needs nothing more of this sending half. Returns `Some(code)` once the peer has stopped the
    /// stream (by [`stop_sending`](Self::stop_sending), or with code 0 where the peer dropped or never accepted the
    /// stream). Returns `None` once the peer has proven that it has every byte of a stream ended by
    /// [`finish`](Self::finish) or `shutdown`. Keeps waiting as long as this side neither ends nor resets the stream
    /// and the peer does not stop it.
    ///
    /// `None` does not mean that the peer's application has read anything; only an answer of the application shows
    /// that. If the peer stops a stream after proving all of it, the result stays `None`. A connection's first stream
    /// cannot be stopped.
    ///
    /// The future borrows nothing, so it can wait beside writes and after the stream was dropped. It keeps neither the
    /// stream nor the connection alive. Cancel-safe; any number of these futures may wait.
    ///
    /// # Errors
    /// [`StreamError::EndedHere`](crate::StreamError::EndedHere) if this side resets the stream, or drops it before its
    /// end; or the error that ended the connection.
    ///
    /// ```
    /// # use dfcp::Stream;
    /// # use tokio::io::AsyncWriteExt;
    /// /// Works only as long as the peer wants the result.
    /// async fn answer(mut stream: Stream, work: impl Future<Output = Vec<u8>>) -> std::io::Result<()> {
    ///     let result = tokio::select! {
    ///         result = work => result,
    ///         stopped = stream.stopped() => return stopped.map(|_code| ()),
    ///     };
    ///     stream.write_all(&result).await?;
    ///     stream.finish()
    /// }
    /// ```
    pub fn stopped(&self) -> impl Future<Output = io::Result<Option<u32>>> + Send + 'static + use<> {
        self.handle.send_end().wait()
    }

    /// Resets the sending half: undelivered bytes are lost, and the peer's reader gets
    /// [`StreamError::Reset`](crate::StreamError::Reset) with `code`. The other direction goes on. If the stream is the
    /// whole connection, this is [`abort`](Self::abort).
    pub fn reset(&self, code: u32) {
        self.handle.reset(code);
    }

    /// Discards bytes from the peer, and asks the peer to end the stream: the peer's writer gets
    /// [`StreamError::Stopped`](crate::StreamError::Stopped) with `code`. The other direction goes on. Has no effect if
    /// the stream is the whole connection.
    pub fn stop_sending(&self, code: u32) {
        self.handle.stop_sending(code);
    }

    /// Waits until the connection is over, including TIME_WAIT. Returns `None` if both sides closed it, else the error
    /// that ended it. This call ends nothing by itself. A program that exits earlier may leave its peer without an
    /// answer to the last FIN. Cancel-safe.
    pub async fn closed(&mut self) -> Option<ConnectionError> {
        self.shared().closed().await
    }

    /// Returns a handle for a session that contains this stream, or `None` if the connection cannot be a session.
    pub(crate) fn session_handle(&self) -> Option<StreamHandle> {
        self.shared().begin_session().then(|| self.handle.beside())
    }

    /// Splits the stream into two halves, which may live in different tasks without a lock between them. Dropping both
    /// halves drops the stream. Dropping one ends that half of a session's stream (see [`ReadHalf`], [`WriteHalf`]). A
    /// connection's first stream lives until both halves are dropped: only then does the peer learn that a half was
    /// dropped.
    ///
    /// ```
    /// # async fn example(stream: dfcp::Stream) -> std::io::Result<()> {
    /// use tokio::io::AsyncWriteExt;
    ///
    /// let (mut reader, mut writer) = stream.into_split();
    /// tokio::spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::stdout()).await });
    /// tokio::io::copy(&mut tokio::io::stdin(), &mut writer).await?;
    /// writer.shutdown().await
    /// # }
    /// ```
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (ReadHalf { handle: Arc::clone(&self.handle) }, WriteHalf { handle: self.handle })
    }
}

impl ReadHalf {
    pub(crate) fn new(handle: StreamHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Like [`Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.handle.id()
    }

    /// Like [`Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.handle.stream_stats()
    }

    /// Like [`Stream::stop_sending`].
    pub fn stop_sending(&self, code: u32) {
        self.handle.stop_sending(code);
    }
}

impl WriteHalf {
    pub(crate) fn new(handle: StreamHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Like [`Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.handle.id()
    }

    /// Like [`Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.handle.stream_stats()
    }

    /// Like [`Stream::finish`].
    ///
    /// # Errors
    /// Same as [`Stream::finish`].
    pub fn finish(&mut self) -> io::Result<()> {
        self.handle.finish()
    }

    /// Like [`Stream::stopped`].
    ///
    /// # Errors
    /// Same as [`Stream::stopped`].
    pub fn stopped(&self) -> impl Future<Output = io::Result<Option<u32>>> + Send + 'static + use<> {
        self.handle.send_end().wait()
    }

    /// Like [`Stream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        self.handle.set_priority(priority);
    }

    /// Like [`Stream::reset`].
    pub fn reset(&self, code: u32) {
        self.handle.reset(code);
    }
}

impl Drop for ReadHalf {
    fn drop(&mut self) {
        self.handle.drop_half(Half::Received);
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.handle.drop_half(Half::Sent);
    }
}

macro_rules! impl_read {
    ($type:ty) => {
        impl AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                self.handle.poll_read(cx, buf)
            }
        }
    };
}

macro_rules! impl_write {
    ($type:ty) => {
        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.handle.poll_write(cx, buf)
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.handle.flush())
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.handle.poll_shutdown(cx)
            }
        }
    };
}

impl_read!(Stream);
impl_read!(ReadHalf);
impl_write!(Stream);
impl_write!(WriteHalf);
