//! A connection as a stream of bytes each way.

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
/// stream.shutdown().await?; // the peer has all of it, and has said so
/// assert_eq!(server.await??, b"hello");
/// # Ok(())
/// # }
/// ```
///
/// - `write` takes what the send buffer has room for, of which 2 MiB at most may be unsent. Data is sent in blocks; `flush` sends a block which is not yet full
///   and does not wait for anything.
/// - `shutdown` ends this half and returns once **the peer has confirmed every byte**; the other half stays open. [`finish`](Self::finish)
///   ends it, too, and returns at once; [`stopped`](Self::stopped) waits for the confirmation.
/// - Dropping the stream before `shutdown` or `finish` was called aborts the connection: the peer reads an error, not an end. After
///   either, dropping leaves the rest to the endpoint, which answers the peer's repeats until TIME_WAIT is over.
///
/// **Of a session.** What is said of the connection (counters, rate, path, address, state, [`abort`](Self::abort),
/// [`closed`](Self::closed)) concerns the session with all of its streams. Dropping the stream before `shutdown` ends this stream
/// alone: the peer's reader gets [`StreamError::Reset`](crate::StreamError::Reset), its writer
/// [`StreamError::Stopped`](crate::StreamError::Stopped), both with code 0. After `shutdown` or `finish`, dropping lets it be delivered, and
/// reads no more.
///
/// # Ends
///
/// No future of this crate outlasts its connection. Once that is over, `read`, `write`, `flush`, `shutdown` and [`Session::open_stream`](crate::Session::open_stream) give
/// the error that ended it, and [`Session::accept_stream`](crate::Session::accept_stream), [`Session::receive_message`](crate::Session::receive_message) and [`PathWatch::changed`] give `None`. It is over
/// when both sides have closed it, at once after [`abort`](Self::abort), when the peer has aborted or dropped it, after
/// [`Config::idle_timeout`](crate::Config::idle_timeout) without a word from the peer, and when the runtime has ended that drove it
/// ([`Aborted`](ConnectionError::Aborted)). Before that they wait as long as the peer's application likes.
///
/// # Cancel safety
///
/// All futures of this crate may be dropped before they are ready, as `select!` and `timeout` do:
///
/// - `read` has then taken nothing, and `write` given nothing. (`write_all`, `read_exact`, `read_to_end` and `copy` of tokio consist of
///   several of these: what they had done is done, and they do not tell how much that was.)
/// - `shutdown` has begun: the stream's end goes its way, and a further call waits for it.
/// - [`connect`](Self::connect) has called: that is aborted, and nothing of it is left.
/// - [`Session::open_stream`](crate::Session::open_stream), [`Session::accept_stream`](crate::Session::accept_stream) and [`Session::receive_message`](crate::Session::receive_message) have opened, accepted and taken nothing.
/// - [`Session::close`](crate::Session::close) has begun: the session's end goes its way, and a further call waits for it.
/// - [`stopped`](Self::stopped) only waits, and holds nothing: neither it nor its drop keeps or ends the stream.
/// - [`closed`](Self::closed), [`PathWatch::changed`], [`Listener::accept`](crate::Listener::accept) and
///   [`Endpoint::wait_idle`](crate::Endpoint::wait_idle) only wait. No connection and no news are lost.
#[derive(Debug)]
pub struct Stream {
    handle: Arc<StreamHandle>,
}

/// The reading half of a [`Stream`], from [`Stream::into_split`], where an example is; or a stream on which only the peer sends, from
/// [`Session::accept_one_way`](crate::Session::accept_one_way).
///
/// **Dropping** it before the end was read asks the peer to send no more, as [`stop_sending`](Self::stop_sending) with code 0 does, whether
/// the other half lives or not. Of a connection's first stream it has no effect until the other half is dropped, too.
///
/// ```
/// use dfcp::{ReadHalf, Session};
/// use tokio::io::AsyncReadExt;
///
/// /// Reads the first line of what the peer sends, and asks it to send no more.
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

/// The writing half of a [`Stream`], from [`Stream::into_split`], where an example is; or a stream on which only this side sends, from
/// [`Session::open_one_way`](crate::Session::open_one_way).
///
/// **Dropping** it before `shutdown` or `finish` was called gives it up, as [`reset`](Self::reset) with code 0 does, whether the other half
/// lives or not. Of a connection's first stream it has no effect until the other half is dropped, too.
///
/// ```
/// use dfcp::{Priority, Session, WriteHalf};
/// use tokio::io::AsyncWriteExt;
///
/// /// Sends a picture ahead of everything else of the session.
/// async fn show(session: &Session, picture: &[u8]) -> std::io::Result<()> {
///     let mut writer: WriteHalf = session.open_one_way().await?;
///     writer.set_priority(Priority { urgency: 0, ..Priority::default() });
///     writer.write_all(picture).await?;
///     writer.shutdown().await // the peer has all of it, and has said so
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

    /// Watches what is known of the path: rate, round-trip time and loss, for applications which adapt to it.
    #[must_use]
    pub fn watch_path(&self) -> PathWatch {
        self.shared().watch_path()
    }

    /// The parameters of thesis table 3.2.
    #[cfg(feature = "classic")]
    #[must_use]
    pub fn parameters(&self) -> Parameters<'_> {
        Parameters(self.shared())
    }

    /// Says how this stream is served beside others which this side sends in the same session.
    pub fn set_priority(&self, priority: Priority) {
        self.handle.set_priority(priority);
    }

    /// Number of this stream in its connection: the same on either side, and of no other stream of the connection, ever. A connection of
    /// one stream has [`StreamId::FIRST`].
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

    /// Counts of this stream, in both directions, also after its end. They cost a lock and no system call. Counts of the whole connection
    /// are in [`stats`](Self::stats).
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

    /// Ends this half, as `shutdown` does, and waits for nothing: what was written is delivered, then the peer reads its end, and no
    /// round trip is spent on waiting. Calling it again, or after `shutdown`, changes nothing. Writing afterwards is an error
    /// (`BrokenPipe`).
    ///
    /// That it returns says nothing of delivery. [`stopped`](Self::stopped) and [`Session::close`](crate::Session::close) wait for that, and so does a later
    /// `shutdown`. A program that drops the last handle of a session without `close`, or ends, cuts off what is under way.
    ///
    /// That the peer has stopped the stream is no error, as it may have all that it wants. A stream both ways which is dropped unread asks
    /// the peer to stop, and peers let a session open 250 such streams a second; [`Session::open_one_way`](crate::Session::open_one_way) is for data one way.
    ///
    /// # Errors
    /// Why the connection has ended, or [`StreamError::EndedHere`](crate::StreamError::EndedHere) after a [`reset`](Self::reset).
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

    /// Waits until the peer needs nothing more of what this side sends: `Some` code once it has stopped the stream
    /// ([`stop_sending`](Self::stop_sending), or code 0 where it dropped or never accepted it), `None` once it has every byte of a stream
    /// that was ended by [`finish`](Self::finish) or `shutdown`, and has proven that. As long as this side neither writes an end nor
    /// resets the stream, and the peer does not stop it, it waits.
    ///
    /// `None` does not say that the peer's application has read anything: an answer of its own says that. A peer that stops
    /// a stream after it has proven all of it changes nothing. A connection's first stream cannot be stopped.
    ///
    /// The future borrows nothing, so it can wait beside writes, and goes on after the stream was dropped. It keeps neither stream nor
    /// connection. Cancel-safe; any number of them may wait.
    ///
    /// # Errors
    /// [`StreamError::EndedHere`](crate::StreamError::EndedHere) if this side resets the stream, or drops it before its end; or why the connection
    /// has ended before.
    ///
    /// ```
    /// # use dfcp::Stream;
    /// # use tokio::io::AsyncWriteExt;
    /// /// Works only as long as somebody wants the result.
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

    /// Gives up what we send: what is not delivered is lost, and the peer's reader gets
    /// [`StreamError::Reset`](crate::StreamError::Reset) with `code`. The other direction goes on. If the stream is the whole connection, this is
    /// [`abort`](Self::abort).
    pub fn reset(&self, code: u32) {
        self.handle.reset(code);
    }

    /// Discards what the peer sends, and asks it to end: its writer gets [`StreamError::Stopped`](crate::StreamError::Stopped) with
    /// `code`. The other direction goes on. Has no effect if the stream is the whole connection.
    pub fn stop_sending(&self, code: u32) {
        self.handle.stop_sending(code);
    }

    /// Waits until the connection is over, TIME_WAIT included, and returns why unless both sides closed it. It does not
    /// end anything by itself. A program which exits earlier may leave its peer without an answer to the last FIN. Cancel-safe.
    pub async fn closed(&mut self) -> Option<ConnectionError> {
        self.shared().closed().await
    }

    /// A handle for a session with this stream among its own; `None` if the connection cannot be one.
    pub(crate) fn session_handle(&self) -> Option<StreamHandle> {
        self.shared().begin_session().then(|| self.handle.beside())
    }

    /// Two halves which may live in different tasks, without a lock between them. Dropping both is dropping the stream. Dropping one ends
    /// that half of a session's stream ([`ReadHalf`], [`WriteHalf`]); a connection's first stream lives until both are dropped, and a peer
    /// that waits for the dropped one waits until then.
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

    /// As [`Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.handle.id()
    }

    /// As [`Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.handle.stream_stats()
    }

    /// As [`Stream::stop_sending`].
    pub fn stop_sending(&self, code: u32) {
        self.handle.stop_sending(code);
    }
}

impl WriteHalf {
    pub(crate) fn new(handle: StreamHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// As [`Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.handle.id()
    }

    /// As [`Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.handle.stream_stats()
    }

    /// As [`Stream::finish`].
    ///
    /// # Errors
    /// As [`Stream::finish`].
    pub fn finish(&mut self) -> io::Result<()> {
        self.handle.finish()
    }

    /// As [`Stream::stopped`].
    ///
    /// # Errors
    /// As [`Stream::stopped`].
    pub fn stopped(&self) -> impl Future<Output = io::Result<Option<u32>>> + Send + 'static + use<> {
        self.handle.send_end().wait()
    }

    /// As [`Stream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        self.handle.set_priority(priority);
    }

    /// As [`Stream::reset`].
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
