//! What the application holds of a connection.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use dfcp_proto::{Priority, StreamId, StreamKind};
use tokio::io::ReadBuf;

use crate::connection::Shared;

/// What the handles of one stream own together; that of the first stream is a session's, too. When the last one of a connection goes,
/// so does the application's interest in it.
#[derive(Debug)]
pub(crate) struct StreamHandle {
    pub(crate) shared: Arc<Shared>,
    id: StreamId,
}

impl StreamHandle {
    /// Another handle on the connection, which counts it.
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        shared.add_handle();
        Self { shared, id }
    }

    /// A handle of the session's, beside this one on a stream.
    pub(crate) fn beside(&self) -> Self {
        Self::new(Arc::clone(&self.shared), StreamId::FIRST)
    }

    fn is_first(&self) -> bool {
        self.id == StreamId::FIRST
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_first() { self.shared.poll_read(cx, out) } else { self.shared.poll_read_of(self.id, cx, out) }
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_first() { self.shared.poll_write(cx, data) } else { self.shared.poll_write_of(self.id, cx, data) }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        if self.is_first() { self.shared.flush() } else { self.shared.flush_of(self.id) }
    }

    pub(crate) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_first() { self.shared.poll_shutdown(cx) } else { self.shared.poll_shutdown_of(self.id, cx) }
    }

    /// The first stream ends with its connection, and has no code.
    pub(crate) fn reset(&self, code: u32) {
        if self.is_first() { self.shared.abort() } else { self.shared.reset_of(self.id, code) }
    }

    /// Of the first stream it has no effect.
    pub(crate) fn stop_sending(&self, code: u32) {
        if !self.is_first() {
            self.shared.stop_sending_of(self.id, code);
        }
    }

    pub(crate) fn set_priority(&self, priority: Priority) {
        self.shared.configure(|connection| {
            if let Some(mut streams) = connection.streams() {
                streams.set_priority(self.id, priority);
            }
        });
    }

    /// Opens a stream of this connection; waits until the peer permits one.
    pub(crate) async fn open(&self, kind: StreamKind) -> io::Result<Self> {
        let id = self.shared.open(kind).await?;
        Ok(Self::new(Arc::clone(&self.shared), id))
    }

    /// Waits for the peer to open a stream.
    pub(crate) async fn accept(&self, kind: StreamKind) -> Option<Self> {
        let id = self.shared.accept(kind).await?;
        Some(Self::new(Arc::clone(&self.shared), id))
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        self.shared.drop_handle(self.id);
    }
}
