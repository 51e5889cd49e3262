//! State of both directions, shared by the reader and the writer of the first stream.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfcp_files::limits::RECEIVER_SILENCE_MAX;
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::perf::{Count, Request, Stage};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Both;
use crate::limits::PERF_OVERTIME_MAX;
use crate::perf::sink::Shared;
use crate::perf::source::Progress;
use crate::perf::{Measured, Side};

/// State of both directions, as this side knows it.
pub(super) struct Account<'a, T> {
    pub(super) handle: &'a Handle<T>,
    pub(super) request: &'a Request,
    pub(super) side: Side,
    pub(super) started: Instant,
    /// Progress of this side's data.
    pub(super) progress: Arc<Progress>,
    /// Count of the peer's data.
    pub(super) tally: Arc<Shared>,
    /// Signals that the peer has sent END.
    pub(super) ended: Notify,
    /// Signals that a direction has ended and a report is due.
    pub(super) changed: Notify,
    counts: Mutex<Counts>,
    counted: Notify,
}

/// Counts that the two receiving sides report.
struct Counts {
    /// Peer's latest count of this side's data.
    heard: Count,
    heard_at: Instant,
    /// Last count of the peer's data that this side sent.
    told: Option<Count>,
}

impl<'a, T: Transport> Account<'a, T> {
    /// Creates the state before any data is sent or received.
    pub(super) fn new(handle: &'a Handle<T>, request: &'a Request, side: Side) -> Self {
        let started = Instant::now();
        Self {
            handle,
            request,
            side,
            started,
            progress: Arc::new(Progress::default()),
            tally: Arc::new(Shared::new(request.duration)),
            ended: Notify::new(),
            changed: Notify::new(),
            counts: Mutex::new(Counts { heard: Count::default(), heard_at: started, told: None }),
            counted: Notify::new(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes a count of the peer; returns true if the count is final.
    ///
    /// # Errors
    /// Fails if the count is impossible.
    pub(super) fn hear(&self, count: Count) -> Result<bool, ProtocolError> {
        let mut counts = self.counts();
        self.progress.check(&count, counts.heard.bytes, self.request)?;
        (counts.heard, counts.heard_at) = (count, Instant::now());
        let is_final = count.stage != Stage::Running;
        if is_final {
            self.progress.is_time_up.store(true, Ordering::Relaxed);
            self.counted.notify_one();
        }
        Ok(is_final)
    }

    /// Returns the deadline of the peer's next count. It has an upper bound: a peer that counts for ever is treated as
    /// silent.
    pub(super) fn count_due(&self) -> Instant {
        let last = self.started + self.request.duration + PERF_OVERTIME_MAX + RECEIVER_SILENCE_MAX;
        last.min(self.counts().heard_at + RECEIVER_SILENCE_MAX)
    }

    /// Records this side's final count as sent.
    pub(super) fn told(&self, count: Count) {
        self.counts().told = Some(count);
        self.counted.notify_one();
    }

    /// Waits for the final counts of both directions.
    pub(super) async fn counted(&self) {
        while self.total().is_none() {
            self.counted.notified().await;
        }
    }

    /// Returns the current results of both directions.
    pub(super) fn so_far(&self) -> Both {
        let now = Instant::now();
        let counts = self.counts();
        let silence = if counts.heard.stage == Stage::Running { now - counts.heard_at } else { Duration::ZERO };
        let sent = Measured { silence, ..measured(&counts.heard, self.handle.path_sample()) };
        let tally = self.tally.lock();
        let count = counts.told.unwrap_or_else(|| tally.count(now));
        let silence = if count.stage == Stage::Running { tally.silence(now, self.started) } else { Duration::ZERO };
        Both::new(self.side, sent, Measured { silence, ..measured(&count, tally.path) })
    }

    /// Returns the final results of both directions; `None` before both are counted.
    pub(super) fn total(&self) -> Option<Both> {
        let counts = self.counts();
        let (heard, told) = (counts.heard, counts.told?);
        (heard.stage != Stage::Running).then(|| {
            let sent = measured(&heard, self.handle.path_sample()).whole();
            Both::new(self.side, sent, measured(&told, self.tally.lock().path).whole())
        })
    }
}

fn measured(count: &Count, path: Option<dfcp_files::transport::PathSample>) -> Measured {
    Measured { bytes: count.bytes, seconds: count.seconds(), path, ..Measured::default() }
}
