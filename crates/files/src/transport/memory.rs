//! In-memory connections with streams, for tests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use dfcp::StreamError;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::sync::{Mutex, mpsc};

use super::{Opened, RecvStream, SendStream, Streams, Transport};
use crate::seal::Seal;

/// One end of an in-memory connection.
#[derive(Debug)]
pub struct Memory {
    /// First stream.
    pub first: DuplexStream,
    /// Additional streams of this end.
    pub beside: Arc<Beside>,
    /// Encryption that this end reports.
    pub seal: Option<Seal>,
}

/// Additional streams of one end.
#[derive(Debug)]
pub struct Beside {
    buffer_bytes: usize,
    to_peer: mpsc::UnboundedSender<Reader>,
    from_peer: Mutex<mpsc::UnboundedReceiver<Reader>>,
    /// Number of streams that this end may still open. Initially 0 means that the peer permits no stream at all.
    permitted: AtomicU32,
    /// Number of streams that this end has opened.
    pub opened: AtomicU32,
    /// Bytes that streams opened by this end may still carry in total. At 0, reads block, as on a dead path.
    pub path_bytes: Arc<AtomicUsize>,
}

/// Connects two ends; only the first may open additional streams, at most `streams`, each with its own buffer.
pub fn connection(streams: u32, buffer_bytes: usize) -> (Memory, Memory) {
    ends([streams, 0], buffer_bytes)
}

/// Connects two ends, each of which may open at most `streams` additional streams.
pub fn connection_both_ways(streams: u32, buffer_bytes: usize) -> (Memory, Memory) {
    ends([streams, streams], buffer_bytes)
}

/// Connects two ends that may open `near` and `far` additional streams.
fn ends([near, far]: [u32; 2], buffer_bytes: usize) -> (Memory, Memory) {
    let (here, there) = duplex(buffer_bytes);
    let ((to_there, from_here), (to_here, from_there)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let end = |first, to_peer, from_peer, streams| Memory {
        first,
        beside: Arc::new(Beside {
            buffer_bytes,
            to_peer,
            from_peer: Mutex::new(from_peer),
            permitted: AtomicU32::new(streams),
            opened: AtomicU32::new(0),
            path_bytes: Arc::new(AtomicUsize::new(usize::MAX)),
        }),
        seal: None,
    };
    (end(here, to_there, from_there, near), end(there, to_here, from_here, far))
}

#[derive(Debug)]
struct Writer {
    stream: DuplexStream,
    is_reset: Arc<AtomicBool>,
    is_shut_down: bool,
}

#[derive(Debug)]
struct Reader {
    stream: DuplexStream,
    is_reset: Arc<AtomicBool>,
    path_bytes: Arc<AtomicUsize>,
}

impl Streams for Beside {
    fn open(&self) -> Opened<'_, io::Result<Option<SendStream>>> {
        Box::pin(async {
            let permitted = self.permitted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if permitted.is_err() {
                return if self.opened.load(Ordering::SeqCst) == 0 { Ok(None) } else { std::future::pending().await };
            }
            self.opened.fetch_add(1, Ordering::SeqCst);
            let ((here, there), is_reset) = (duplex(self.buffer_bytes), Arc::new(AtomicBool::new(false)));
            let reader =
                Reader { stream: there, is_reset: Arc::clone(&is_reset), path_bytes: Arc::clone(&self.path_bytes) };
            self.to_peer.send(reader).map_err(|_| io::ErrorKind::ConnectionReset)?;
            Ok(Some(Box::new(Writer { stream: here, is_reset, is_shut_down: false }) as _))
        })
    }

    fn accept(&self) -> Opened<'_, Option<RecvStream>> {
        Box::pin(async { Some(Box::new(self.from_peer.lock().await.recv().await?) as _) })
    }
}

impl Transport for Memory {
    fn streams(&self) -> Option<Arc<dyn Streams>> {
        Some(Arc::clone(&self.beside) as _)
    }

    fn seal(&self) -> Option<Seal> {
        self.seal
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.is_reset.store(!self.is_shut_down, Ordering::SeqCst);
    }
}

impl AsyncRead for Reader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let left = self.path_bytes.load(Ordering::SeqCst);
        if left == 0 {
            // A test may permit more bytes later, so poll again.
            let waker = cx.waker().clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                waker.wake();
            });
            return Poll::Pending;
        }
        let mut scratch = vec![0; left.min(buf.remaining())];
        let mut some = ReadBuf::new(&mut scratch);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut some);
        let came = some.filled().len();
        buf.put_slice(some.filled());
        self.path_bytes.fetch_sub(came, Ordering::SeqCst);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before;
        if is_end && self.is_reset.load(Ordering::SeqCst) {
            return Poll::Ready(Err(StreamError::Reset { code: 0 }.into()));
        }
        read
    }
}

impl AsyncWrite for Writer {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        // A failed write means that the reader was dropped.
        Pin::new(&mut self.stream).poll_write(cx, buf).map_err(|_| StreamError::Stopped { code: 0 }.into())
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut_down = true;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for Memory {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.first).poll_read(cx, buf)
    }
}

impl AsyncWrite for Memory {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.first).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.first).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.first).poll_shutdown(cx)
    }
}
