//! Times since the last frame and the last datagram from a peer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Times of the last frame and the last datagram received from the peer.
#[derive(Debug)]
pub(crate) struct LastHeard {
    frame: Mutex<Instant>,
    datagrams: Mutex<DatagramsHeard>,
}

/// Number of datagrams at the last query, and the time of its last increase.
#[derive(Debug)]
struct DatagramsHeard {
    count: u64,
    at: Instant,
}

impl LastHeard {
    pub(crate) fn new(now: Instant) -> Self {
        Self { frame: Mutex::new(now), datagrams: Mutex::new(DatagramsHeard { count: 0, at: now }) }
    }

    pub(crate) fn now(&self) {
        *self.frame() = Instant::now();
    }

    pub(crate) fn silence(&self) -> Duration {
        self.frame().elapsed()
    }

    /// Returns the time since the count of `datagrams` last increased; 0 if datagrams are not counted.
    pub(crate) fn unheard(&self, datagrams: Option<u64>) -> Duration {
        let Some(count) = datagrams else { return Duration::ZERO };
        let mut last = self.datagrams.lock().unwrap_or_else(PoisonError::into_inner);
        if last.count != count {
            *last = DatagramsHeard { count, at: Instant::now() };
        }
        last.at.elapsed()
    }

    fn frame(&self) -> MutexGuard<'_, Instant> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
