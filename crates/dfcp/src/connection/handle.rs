//! Handles of the application on a connection: what they count, and what happens when they go.

use std::io;
use std::sync::Arc;

use dfcp_proto::{Priority, State, StreamId, StreamKind};

use crate::connection::Shared;
use crate::limits;

/// Shared part of the handles of one stream; that of the first stream is a session's, too. When the last one of a connection goes, so
/// does the application's interest in it.
#[derive(Debug)]
pub(crate) struct StreamHandle {
    pub(crate) shared: Arc<Shared>,
    pub(super) id: StreamId,
}

impl StreamHandle {
    /// Another handle on the connection, which counts it.
    pub(crate) fn new(shared: Arc<Shared>, id: StreamId) -> Self {
        shared.add_handle(id);
        Self { shared, id }
    }

    /// A handle of the session's, beside this one on a stream.
    pub(crate) fn beside(&self) -> Self {
        Self::new(Arc::clone(&self.shared), StreamId::FIRST)
    }

    pub(crate) fn id(&self) -> StreamId {
        self.id
    }

    pub(crate) fn set_priority(&self, priority: Priority) {
        self.shared.configure(|connection| connection.streams().set_priority(self.id, priority));
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

impl Shared {
    fn add_handle(&self, id: StreamId) {
        let mut inner = self.lock();
        inner.handles += 1;
        inner.accepting_handles += usize::from(id == StreamId::FIRST);
    }

    /// The handle of a stream is gone.
    fn drop_handle(&self, id: StreamId) {
        let mut inner = self.lock();
        inner.handles -= 1;
        inner.accepting_handles -= usize::from(id == StreamId::FIRST);
        let is_last = inner.handles == 0;
        let now = inner.tick(self.clock.now());
        {
            let inner = &mut *inner;
            if id != StreamId::FIRST {
                inner.streams.let_go(now, &mut inner.connection, &mut inner.story, id);
            } else if inner.accepting_handles == 0 && !is_last {
                // Nobody can accept what the peer opens: its writers must not wait for readers.
                inner.streams.refuse_incoming(now, &mut inner.connection, &mut inner.story);
            }
        }
        self.wake_driver_if_due(&mut inner, now);
        drop(inner);
        if is_last {
            self.release();
        }
    }

    /// The last handle is gone. After `shutdown` the endpoint brings the rest to an end, otherwise the peer is told.
    fn release(&self) {
        let mut inner = self.lock();
        let now = inner.tick(self.clock.now());
        inner.tell_release(now);
        if inner.has_ended() {
            inner.linger_until = Some(now + limits::LINGER_MAX);
            self.wake_driver(&mut inner);
        } else if inner.connection.state() != State::Closed {
            drop(inner);
            self.abort();
        }
    }
}
