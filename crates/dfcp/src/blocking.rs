//! Blocking API without `async`: [`Endpoint`], [`Listener`], [`Session`] and [`Stream`] with [`std::io::Read`] and
//! [`std::io::Write`].
//!
//! ```
//! use std::io::{Read, Write};
//!
//! use dfcp::Config;
//! use dfcp::blocking::{Listener, Stream};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let key = dfcp::generate_key()?;
//! let client = Config::client(key.public());
//! let listener = Listener::bind(([127, 0, 0, 1], 0).into(), Config::server(key))?;
//! let address = listener.local_addr()?;
//! let echo = std::thread::spawn(move || -> std::io::Result<()> {
//!     let (mut reader, mut writer) = listener.accept()?.into_split();
//!     std::io::copy(&mut reader, &mut writer)?;
//!     writer.shutdown()
//! });
//! let mut stream = Stream::connect(address, client)?;
//! stream.write_all(b"hello")?;
//! stream.shutdown()?; // the peer has confirmed every byte
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer)?;
//! assert_eq!(answer, "hello");
//! # echo.join().expect("no panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! After the last handle is dropped, the endpoint's thread runs until its connections are over. A process that exits
//! earlier cuts them off.

mod listener;
mod session;

use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use dfcp_proto::{Accept, Config, ConnectionError, EndpointStats, Priority, StreamId, StreamStats};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::carrier::Carrier;
#[cfg(feature = "classic")]
use crate::classic::Parameters;
use crate::connect;
use crate::connection::Shared;
use crate::error::ConnectError;
use crate::path_watch::PathEstimates;
pub use listener::Listener;
pub use session::Session;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until `future` is ready. Unlike the runtime's `block_on`, it also works on a thread that runs
/// async tasks, which it blocks.
fn wait<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread::park();
    }
}

/// A socket with any number of connections; the blocking twin of [`crate::Endpoint`].
///
/// ```
/// use std::io::Write;
///
/// use dfcp::Config;
/// use dfcp::blocking::Endpoint;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let key = dfcp::generate_key()?;
/// let client = Config::client(key.public());
/// let server = Endpoint::bind(([127, 0, 0, 1], 0).into(), Some(Config::server(key).into()))?;
/// let caller = Endpoint::bind(([127, 0, 0, 1], 0).into(), None)?;
/// // Two connections between the same two sockets.
/// let mut first = caller.connect(server.local_addr(), client.clone())?;
/// let mut second = caller.connect(server.local_addr(), client)?;
/// first.write_all(b"one")?;
/// second.write_all(b"two")?;
/// assert!(server.accept().is_some() && server.accept().is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Endpoint {
    endpoint: crate::Endpoint,
}

impl Endpoint {
    /// Binds a UDP socket to `addr`; see [`crate::Endpoint::bind`].
    ///
    /// # Errors
    /// Same as [`crate::Endpoint::bind`], or the system cannot start a thread.
    pub fn bind(addr: SocketAddr, accept: Option<Accept>) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, accept)
    }

    /// Like [`bind`](Self::bind), over the given carrier.
    ///
    /// # Errors
    /// Same as [`crate::Endpoint::bind_over`], or the system cannot start a thread.
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: Option<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: crate::Endpoint::bind_with_thread(carrier, addr, accept)? })
    }

    /// Uses a UDP socket that the application has made and bound; see [`crate::Endpoint::with_socket`].
    ///
    /// # Errors
    /// Same as [`crate::Endpoint::with_socket`], or the system cannot start a thread.
    pub fn with_socket(socket: impl Into<UdpSocket>, accept: Option<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: crate::Endpoint::with_socket_and_thread(socket.into(), accept)? })
    }

    /// Replaces the UDP socket under live connections; see [`crate::Endpoint::rebind`].
    ///
    /// # Errors
    /// See [`crate::Endpoint::rebind`]. After an error, the old socket stays in use.
    pub fn rebind(&self, socket: impl Into<UdpSocket>) -> io::Result<()> {
        self.endpoint.rebind(socket)
    }

    /// Like [`rebind`](Self::rebind), to a new socket of the same carrier; see [`crate::Endpoint::rebind_to`].
    ///
    /// # Errors
    /// See [`crate::Endpoint::rebind_to`]. After an error, the old socket stays in use.
    pub fn rebind_to(&self, addr: SocketAddr) -> io::Result<()> {
        self.endpoint.rebind_to(addr)
    }

    /// Opens a connection and waits for the end of the handshake, for at most
    /// [`Config::connect_timeout`](crate::Config::connect_timeout).
    ///
    /// # Errors
    /// Same as [`crate::Endpoint::connect`].
    pub fn connect(&self, remote: SocketAddr, config: Config) -> Result<Stream, ConnectError> {
        Ok(Stream { stream: wait(self.endpoint.connect(remote, config))? })
    }

    /// Opens a session; the blocking twin of [`crate::Endpoint::connect_session`].
    ///
    /// # Errors
    /// Same as [`crate::Endpoint::connect_session`].
    pub fn connect_session(&self, remote: SocketAddr, config: Config) -> Result<Session, ConnectError> {
        Ok(Session { session: wait(self.endpoint.connect_session(remote, config))? })
    }

    /// Waits for the next session; the blocking twin of [`crate::Endpoint::accept_session`].
    #[must_use]
    pub fn accept_session(&self) -> Option<Session> {
        Some(Session { session: wait(self.endpoint.accept_session())? })
    }

    /// Waits for the next connection whose handshake is done. Returns `None` if this endpoint accepts none.
    #[must_use]
    pub fn accept(&self) -> Option<Stream> {
        Some(Stream { stream: wait(self.endpoint.accept())? })
    }

    /// Returns the socket's local address, with the port that the system chose.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Returns the carrier of the endpoint's datagrams.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.endpoint.carrier()
    }

    /// Returns counters of connections, memory and refusals; see [`crate::Endpoint::stats`].
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.endpoint.stats()
    }

    /// Waits until no connection is left in any state, including TIME_WAIT.
    pub fn wait_idle(&self) {
        wait(self.endpoint.wait_idle());
    }
}

/// A connection; the blocking twin of [`crate::Stream`], which documents `flush`, `shutdown` and dropping.
///
/// ```
/// use std::io::{Read, Write};
///
/// use dfcp::blocking::Stream;
/// use dfcp::{Config, PublicKey};
///
/// fn ask(server: &str, key: PublicKey, question: &str) -> std::io::Result<String> {
///     let mut stream = Stream::connect(server, Config::client(key))?;
///     stream.write_all(question.as_bytes())?;
///     stream.shutdown()?;
///     let mut answer = String::new();
///     stream.read_to_string(&mut answer)?;
///     Ok(answer)
/// }
/// ```
#[derive(Debug)]
pub struct Stream {
    stream: crate::Stream,
}

impl Stream {
    /// Connects to `remote` from a new socket. `remote` is an address, a name with a port, or a list of addresses,
    /// which are tried in turn like in [`crate::Stream::connect`].
    ///
    /// # Errors
    /// Same as [`crate::Stream::connect`], or the system cannot start a thread.
    pub fn connect(remote: impl ToSocketAddrs, config: Config) -> Result<Self, ConnectError> {
        Self::connect_over(Carrier::Udp, remote, config)
    }

    /// Like [`connect`](Self::connect), over the given carrier.
    ///
    /// # Errors
    /// Same as [`crate::Stream::connect_over`], or the system cannot start a thread.
    pub fn connect_over(carrier: Carrier, remote: impl ToSocketAddrs, config: Config) -> Result<Self, ConnectError> {
        let addresses = remote.to_socket_addrs()?.collect();
        let stream = wait(connect::in_turn(addresses, config, |remote, config| async move {
            let endpoint = crate::Endpoint::bind_with_thread(carrier, connect::any_port_towards(remote), None)?;
            endpoint.connect(remote, config).await
        }))?;
        Ok(Self { stream })
    }

    /// Ends the sending half and waits until the peer has confirmed every byte; the receiving half stays open.
    ///
    /// # Errors
    /// The error that ended the connection before the confirmation.
    pub fn shutdown(&mut self) -> io::Result<()> {
        wait(poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)))
    }

    /// Waits until the connection is over; see [`crate::Stream::closed`].
    pub fn closed(&mut self) -> Option<ConnectionError> {
        wait(self.stream.closed())
    }

    /// Returns a watch on the path's estimates (rate, round-trip time and loss), for applications that adapt to them.
    #[must_use]
    pub fn watch_path(&self) -> PathWatch {
        PathWatch { watch: self.stream.watch_path() }
    }

    /// Returns the parameters of thesis table 3.2.
    #[cfg(feature = "classic")]
    #[must_use]
    pub fn parameters(&self) -> Parameters<'_> {
        self.stream.parameters()
    }

    /// Like [`crate::Stream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        self.stream.set_priority(priority);
    }

    /// Like [`crate::Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.stream.id()
    }

    /// Like [`crate::Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.stream.stream_stats()
    }

    /// Like [`crate::Stream::finish`].
    ///
    /// # Errors
    /// Same as [`crate::Stream::finish`].
    pub fn finish(&mut self) -> io::Result<()> {
        self.stream.finish()
    }

    /// Waits until the peer needs nothing more of this sending half; see [`crate::Stream::stopped`].
    ///
    /// # Errors
    /// Same as [`crate::Stream::stopped`].
    pub fn stopped(&self) -> io::Result<Option<u32>> {
        wait(self.stream.stopped())
    }

    /// Like [`crate::Stream::reset`].
    pub fn reset(&self, code: u32) {
        self.stream.reset(code);
    }

    /// Like [`crate::Stream::stop_sending`].
    pub fn stop_sending(&self, code: u32) {
        self.stream.stop_sending(code);
    }

    /// Like [`crate::Stream::session`].
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        Some(Session { session: self.stream.session()? })
    }

    /// Splits the stream into two halves, which may live in different threads.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        let (read, write) = self.stream.into_split();
        (ReadHalf { half: read }, WriteHalf { half: write })
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.stream.shared()
    }
}

/// Watches a connection's path; the blocking twin of [`crate::PathWatch`].
///
/// ```
/// /// Sets an encoder's rate from the path's estimates, until the connection is over.
/// fn follow(stream: &dfcp::blocking::Stream, set_encoder_bps: impl Fn(f64) + Send + 'static) {
///     let mut path = stream.watch_path();
///     std::thread::spawn(move || {
///         while let Some(now) = path.changed() {
///             set_encoder_bps(now.rate_bps.unwrap_or(1_000_000_000) as f64 * (1.0 - now.loss) * 0.9);
///         }
///     });
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PathWatch {
    watch: crate::PathWatch,
}

impl PathWatch {
    /// Returns the newest estimates; once the connection is over, the last ones.
    #[must_use]
    pub fn latest(&self) -> PathEstimates {
        self.watch.latest()
    }

    /// Waits for estimates that this watch has not yet returned. Returns `None` once the connection is over, including
    /// TIME_WAIT.
    pub fn changed(&mut self) -> Option<PathEstimates> {
        wait(self.watch.changed())
    }
}

/// The reading half of a [`Stream`], or a stream on which only the peer sends. Dropping has the effect described at
/// [`crate::ReadHalf`].
///
/// ```
/// /// Copies both ways at once, in two threads.
/// fn talk(stream: dfcp::blocking::Stream) -> std::io::Result<()> {
///     let (mut reader, mut writer) = stream.into_split();
///     std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::stdout()));
///     std::io::copy(&mut std::io::stdin(), &mut writer)?;
///     writer.shutdown()
/// }
/// ```
#[derive(Debug)]
pub struct ReadHalf {
    half: crate::ReadHalf,
}

/// The writing half of a [`Stream`], or a stream on which only this side sends. Dropping has the effect described at
/// [`crate::WriteHalf`].
///
/// ```
/// use std::io::Write;
///
/// use dfcp::blocking::{Session, WriteHalf};
///
/// fn send(session: &Session, data: &[u8]) -> std::io::Result<()> {
///     let mut writer: WriteHalf = session.open_one_way()?;
///     writer.write_all(data)?;
///     writer.shutdown() // the peer has confirmed every byte
/// }
/// ```
#[derive(Debug)]
pub struct WriteHalf {
    half: crate::WriteHalf,
}

impl ReadHalf {
    /// Like [`crate::Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.half.id()
    }

    /// Like [`crate::Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.half.stream_stats()
    }

    /// Like [`crate::Stream::stop_sending`].
    pub fn stop_sending(&self, code: u32) {
        self.half.stop_sending(code);
    }
}

impl WriteHalf {
    /// Like [`crate::Stream::id`].
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.half.id()
    }

    /// Like [`crate::Stream::stream_stats`].
    #[must_use]
    pub fn stream_stats(&self) -> StreamStats {
        self.half.stream_stats()
    }

    /// Like [`crate::Stream::finish`].
    ///
    /// # Errors
    /// Same as [`crate::Stream::finish`].
    pub fn finish(&mut self) -> io::Result<()> {
        self.half.finish()
    }

    /// Waits until the peer needs nothing more of this sending half; see [`crate::Stream::stopped`].
    ///
    /// # Errors
    /// Same as [`crate::Stream::stopped`].
    pub fn stopped(&self) -> io::Result<Option<u32>> {
        wait(self.half.stopped())
    }

    /// Like [`crate::Stream::set_priority`].
    pub fn set_priority(&self, priority: Priority) {
        self.half.set_priority(priority);
    }

    /// Like [`crate::Stream::reset`].
    pub fn reset(&self, code: u32) {
        self.half.reset(code);
    }

    /// Ends this half and waits until the peer has confirmed every byte.
    ///
    /// # Errors
    /// The error that ended the connection before the confirmation.
    pub fn shutdown(&mut self) -> io::Result<()> {
        wait(poll_fn(|cx| Pin::new(&mut self.half).poll_shutdown(cx)))
    }
}

fn read(mut from: impl AsyncRead + Unpin, out: &mut [u8]) -> io::Result<usize> {
    let mut buffer = ReadBuf::new(out);
    wait(poll_fn(|cx| Pin::new(&mut from).poll_read(cx, &mut buffer)))?;
    Ok(buffer.filled().len())
}

fn write(mut to: impl AsyncWrite + Unpin, data: &[u8]) -> io::Result<usize> {
    wait(poll_fn(|cx| Pin::new(&mut to).poll_write(cx, data)))
}

fn flush(mut to: impl AsyncWrite + Unpin) -> io::Result<()> {
    wait(poll_fn(|cx| Pin::new(&mut to).poll_flush(cx)))
}

macro_rules! impl_io {
    (Read, $type:ty, $field:ident) => {
        impl io::Read for $type {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                read(&mut self.$field, out)
            }
        }
    };
    (Write, $type:ty, $field:ident) => {
        impl io::Write for $type {
            fn write(&mut self, data: &[u8]) -> io::Result<usize> {
                write(&mut self.$field, data)
            }

            fn flush(&mut self) -> io::Result<()> {
                flush(&mut self.$field)
            }
        }
    };
}

impl_io!(Read, Stream, stream);
impl_io!(Write, Stream, stream);
impl_io!(Read, ReadHalf, half);
impl_io!(Write, WriteHalf, half);
