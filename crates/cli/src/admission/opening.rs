//! Inspection of a connection's first bytes without consuming them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dfcp::Session;
use dfcp::classic::ParameterError;
use dfcp_files::Seal;
use dfcp_files::transport::{PathSample, Streams, Transport};
use dfcp_framing::frame::PREAMBLE_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Connection whose first bytes may have been inspected; later reads return them again.
#[derive(Debug)]
pub struct Opening<T> {
    first: [u8; PREAMBLE_BYTES],
    /// Number of filled bytes in `first`; `given` counts the bytes that were already returned to readers.
    filled: usize,
    given: usize,
    transport: T,
}

impl<T: Transport> Opening<T> {
    /// Wraps a connection from which nothing has been read.
    pub fn new(transport: T) -> Self {
        Self { first: [0; PREAMBLE_BYTES], filled: 0, given: 0, transport }
    }

    /// Waits for the first bytes and returns them without consuming. Call before any read.
    ///
    /// # Errors
    /// Passes on the connection's error; `UnexpectedEof` if it ends before.
    pub async fn peek(&mut self) -> io::Result<[u8; PREAMBLE_BYTES]> {
        self.transport.read_exact(&mut self.first).await?;
        self.filled = PREAMBLE_BYTES;
        Ok(self.first)
    }
}

impl<T: Transport> Transport for Opening<T> {
    fn path_sample(&self) -> Option<PathSample> {
        self.transport.path_sample()
    }

    fn datagrams_heard(&self) -> Option<u64> {
        self.transport.datagrams_heard()
    }

    fn seal(&self) -> Option<Seal> {
        self.transport.seal()
    }

    fn streams(&self) -> Option<Arc<dyn Streams>> {
        self.transport.streams()
    }

    fn messages(&self) -> Option<Session> {
        self.transport.messages()
    }

    fn stop_decoding(&self) -> Result<(), ParameterError> {
        self.transport.stop_decoding()
    }
}

impl<T: Transport> AsyncRead for Opening<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let kept = this.first.get(this.given..this.filled).unwrap_or_default();
        if kept.is_empty() {
            return Pin::new(&mut this.transport).poll_read(cx, buf);
        }
        let count = kept.len().min(buf.remaining());
        buf.put_slice(&kept[..count]);
        this.given += count;
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> AsyncWrite for Opening<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
