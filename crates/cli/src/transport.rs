//! What the commands need of a connection: bytes both ways, and figures about the path.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What one end knows about the path at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct PathSample {
    /// The transport's estimate of the loss in this end's sending direction, 0 to 1. DFCP starts from a guess of 5 %.
    pub loss: f64,
    /// Smoothed round-trip time, ms; `None` before the first measurement.
    pub rtt_ms: Option<f64>,
    /// Datagrams sent by this end, of every kind.
    pub datagrams_sent: u64,
    /// Data datagrams among them which carried repair symbols, of whatever cause.
    pub datagrams_repair: u64,
    /// Bytes of the IP packets sent by this end.
    pub ip_bytes_sent: u64,
}

impl PathSample {
    /// IP bytes sent beyond the `useful_bytes` of the application, as a share of those: headers, repair for the loss
    /// and waste together. Zero until anything useful was delivered.
    pub fn overhead(&self, useful_bytes: u64) -> f64 {
        if useful_bytes == 0 { 0.0 } else { (self.ip_bytes_sent as f64 / useful_bytes as f64 - 1.0).max(0.0) }
    }
}

/// A connection: an ordered byte stream each way. Shutting the writing half down closes that direction only, and
/// completes when the peer has everything.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The figures of this moment, or `None` where the transport keeps none.
    fn path_sample(&self) -> Option<PathSample> {
        None
    }
}

impl Transport for tokio::io::DuplexStream {}

/// Where connections come from.
pub trait Acceptor: Send {
    /// What it accepts.
    type Connection: Transport;

    /// Waits for the next connection; gives it with a name of its peer.
    ///
    /// # Errors
    /// When no more can come. What goes wrong with one peer only is logged and passed over.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Connection, String)>> + Send;
}

/// One of several handles to a connection. Unlike `tokio::io::split`, whoever holds one can still ask for figures.
/// At most one handle may read, and one write, at a time.
pub struct Handle<T>(Arc<Mutex<T>>);

impl<T> Handle<T> {
    /// The first handle.
    pub fn new(transport: T) -> Self {
        Self(Arc::new(Mutex::new(transport)))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        // A panic inside the transport poisons the lock; the transport itself then reports what is wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Transport> Handle<T> {
    /// See [`Transport::path_sample`].
    pub fn path_sample(&self) -> Option<PathSample> {
        self.lock().path_sample()
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Handle<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Handle<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}
