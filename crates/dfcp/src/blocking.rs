//! The same without `async`: [`Listener`] and [`Stream`] with [`std::io::Read`] and [`std::io::Write`].
//!
//! The thread of the [`Endpoint`] behind a stream goes on after the last handle is dropped until the
//! connections are over; a process which exits earlier cuts that off.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use dfcp_proto::{
    Accept, Config, ConfigError, ConnectionError, Parameter, ParameterError, Rate, State, Stats, Traffic,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::carrier::Carrier;
use crate::endpoint::Endpoint;
use crate::error::ConnectError;
use crate::stream::any_port_towards;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` on this thread. Unlike the runtime's own, it also works on a thread that runs async tasks (which it
/// blocks).
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

/// Accepts connections; the blocking twin of [`crate::Listener`].
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
}

impl Listener {
    /// Binds to `addr` and takes in connections of `config.profile`, configured so.
    ///
    /// # Errors
    /// As [`Endpoint::bind`]; or the system gives no thread.
    pub fn bind(addr: SocketAddr, config: Config) -> io::Result<Self> {
        Self::bind_over(Carrier::Udp, addr, config)
    }

    /// As [`crate::Listener::bind_over`].
    ///
    /// # Errors
    /// As [`Endpoint::bind_over`]; or the system gives no thread.
    pub fn bind_over(carrier: Carrier, addr: SocketAddr, accept: impl Into<Accept>) -> io::Result<Self> {
        Ok(Self { endpoint: Endpoint::bind_with_thread(carrier, addr, Some(accept.into()))? })
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
        let Some(stream) = wait(self.endpoint.accept()) else {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "this endpoint accepts no connections"));
        };
        Ok(Stream { stream })
    }
}

/// A connection; the blocking twin of [`crate::Stream`], whose description of `flush`, `shutdown` and dropping holds.
#[derive(Debug)]
pub struct Stream {
    stream: crate::Stream,
}

impl Stream {
    /// Connects to `remote` from a socket of its own.
    ///
    /// # Errors
    /// As [`crate::Stream::connect`]; or the system gives no thread.
    pub fn connect(remote: SocketAddr, config: Config) -> Result<Self, ConnectError> {
        Self::connect_over(Carrier::Udp, remote, config)
    }

    /// As [`connect`](Self::connect), over the carrier of one's choice.
    ///
    /// # Errors
    /// As [`crate::Stream::connect_over`]; or the system gives no thread.
    pub fn connect_over(carrier: Carrier, remote: SocketAddr, config: Config) -> Result<Self, ConnectError> {
        let endpoint = Endpoint::bind_with_thread(carrier, any_port_towards(remote), None)?;
        let stream = wait(endpoint.connect(remote, config))?;
        Ok(Self { stream })
    }

    /// Ends this half and waits until the peer has confirmed every byte; the other half stays open.
    ///
    /// # Errors
    /// Why the connection ended before that.
    pub fn shutdown(&mut self) -> io::Result<()> {
        wait(poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)))
    }

    /// Waits until the connection is over; see [`crate::Stream::closed`].
    pub fn closed(&mut self) -> Option<ConnectionError> {
        wait(self.stream.closed())
    }

    /// Counters and estimates.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stream.stats()
    }

    /// Where the connection is in its life.
    #[must_use]
    pub fn state(&self) -> State {
        self.stream.state()
    }

    /// The peer's address.
    #[must_use]
    pub fn remote_addr(&self) -> SocketAddr {
        self.stream.remote_addr()
    }

    /// Our socket's address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr()
    }

    /// What carries the datagrams.
    #[must_use]
    pub fn carrier(&self) -> Carrier {
        self.stream.carrier()
    }

    /// Sets a parameter of thesis table 3.2. A modern connection has *Window size* only.
    ///
    /// # Errors
    /// If the table does not let it be set, this profile does not have it, the value is out of range, or it is too late.
    pub fn set(&self, parameter: Parameter, value: u64) -> Result<(), ParameterError> {
        self.stream.set(parameter, value)
    }

    /// Reads a parameter of thesis table 3.2.
    ///
    /// # Errors
    /// If the table does not let it be read.
    pub fn get(&self, parameter: Parameter) -> Result<u64, ParameterError> {
        self.stream.get(parameter)
    }

    /// Changes the sending rate.
    ///
    /// # Errors
    /// If the rate is out of range; the one before stays.
    pub fn set_rate(&self, rate: Rate) -> Result<(), ConfigError> {
        self.stream.set_rate(rate)
    }

    /// Says what the data written from now on is like.
    pub fn set_traffic(&self, traffic: Traffic) {
        self.stream.set_traffic(traffic);
    }

    /// Ends the connection at once: what is unsent is lost, and the peer is told.
    pub fn abort(&self) {
        self.stream.abort();
    }

    /// Two halves which may live in different threads.
    #[must_use]
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        let (read, write) = self.stream.into_split();
        (ReadHalf { half: read }, WriteHalf { half: write })
    }
}

/// The reading half of a [`Stream`].
#[derive(Debug)]
pub struct ReadHalf {
    half: crate::ReadHalf,
}

/// The writing half of a [`Stream`].
#[derive(Debug)]
pub struct WriteHalf {
    half: crate::WriteHalf,
}

impl WriteHalf {
    /// Ends this half and waits until the peer has confirmed every byte.
    ///
    /// # Errors
    /// Why the connection ended before that.
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
