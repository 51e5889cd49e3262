//! Receiving side of a measurement, client or server. The measurement uses the clock of this side, which starts at the
//! first byte.

pub(super) mod streams;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dfcp_files::limits::{CLOSE_WAIT_MAX, REPORT_INTERVAL, SENDER_SILENCE_MAX};
use dfcp_files::reading::{read_exact, read_header};
use dfcp_files::transport::{Handle, PathSample, Streams, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::kind;
use dfcp_framing::perf::{Count, Request, Stage};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Measured, unexpected};
use crate::limits::PERF_TAIL_MAX;
use crate::path_frame::decode_path;
use crate::session_error::SessionError;

/// Counts received data for the requested duration, or until the peer ends, and reports to the peer. `on_count`
/// receives each interim count. The data arrives on the streams `beside` the first one, if there are any. For raw data,
/// the caller must have stopped decoding; an immediate report then tells the peer to start.
///
/// # Errors
/// Fails if the connection breaks or the peer violates the protocol before the time is up.
pub async fn sink<T: Transport>(
    handle: &Handle<T>,
    mut reader: BufReader<Handle<T>>,
    request: &Request,
    beside: Option<Arc<dyn Streams>>,
    on_count: impl FnMut(&Measured),
) -> Result<Measured, SessionError> {
    let tally = Arc::new(Shared::new(request.duration));
    let (ended_in, ended_out) = oneshot::channel();
    let mut absorb = Box::pin(async {
        if let Some(beside) = &beside {
            streams::absorb(&mut reader, &**beside, request.streams, &tally).await?;
        } else if request.raw {
            absorb_raw(&mut reader, &tally).await?;
        } else {
            absorb(&mut reader, &tally).await?;
        }
        // Without a receiver of this signal, the final count has already been sent.
        let _ = ended_in.send(());
        Ok(())
    });
    let mut report = Box::pin(report(handle.clone(), &tally, request.raw, ended_out, on_count));
    let count = tokio::select! {
        counted = &mut report => {
            let count = counted?;
            // The remaining data is not counted, but the source's last statistics follow it.
            if !matches!(timeout(PERF_TAIL_MAX, &mut absorb).await, Ok(Ok(()))) {
                tracing::debug!("the source did not come to its end");
            }
            count
        }
        absorbed = &mut absorb => {
            let ended: Result<(), SessionError> = absorbed;
            ended?;
            report.await?
        }
    };
    let path = tally.lock().path;
    Ok(Measured { bytes: count.bytes, seconds: count.seconds(), path, ..Measured::default() }.whole())
}

/// Count of the received data.
#[derive(Debug, Default)]
pub(super) struct Tally {
    duration: Duration,
    bytes: u64,
    /// Arrival times of the first byte and of the last counted one.
    span: Option<(Instant, Instant)>,
    is_ended: bool,
    /// Path statistics of the peer.
    pub(super) path: Option<PathSample>,
}

impl Tally {
    fn deadline(&self) -> Option<Instant> {
        self.span.map(|(first, _)| first + self.duration)
    }

    /// Returns the end of the current report interval, but at most the deadline. Intervals are counted from the first
    /// byte (before it, from `started`), so interim counts cover whole intervals.
    pub(super) fn report_due(&self, started: Instant) -> Instant {
        let now = Instant::now();
        let since = self.span.map_or(started, |(first, _)| first);
        let begun_ns = (now - since).as_nanos() % REPORT_INTERVAL.as_nanos();
        let due = now + REPORT_INTERVAL - Duration::from_nanos(u64::try_from(begun_ns).unwrap_or_default());
        self.deadline().map_or(due, |deadline| due.min(deadline))
    }

    fn is_time_up(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        if !self.is_time_up(now) {
            self.bytes += bytes;
            self.span = Some((self.span.map_or(now, |(first, _)| first), now));
        }
    }

    /// Ends the count; bytes that arrive later do not count.
    pub(super) fn end(&mut self, now: Instant) {
        self.is_ended = !self.is_time_up(now);
    }

    /// Returns the time since the last counted byte; before the first one, since `started`.
    pub(super) fn silence(&self, now: Instant, started: Instant) -> Duration {
        now - self.span.map_or(started, |(_, last)| last)
    }

    /// Returns the count to report now.
    pub(super) fn count(&self, now: Instant) -> Count {
        let (first, last) = self.span.unwrap_or((now, now));
        let (stage, elapsed) = match self.is_ended {
            true => (Stage::Ended, last - first),
            false if self.is_time_up(now) => (Stage::TimeUp, self.duration),
            false => (Stage::Running, now - first),
        };
        Count { stage, bytes: self.bytes, elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX) }
    }
}

/// [`Tally`] shared by several tasks.
pub(super) struct Shared(Mutex<Tally>);

impl Shared {
    /// Starts an empty count; bytes within `duration` of the first byte count.
    pub(super) fn new(duration: Duration) -> Self {
        Self(Mutex::new(Tally { duration, ..Tally::default() }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports counts every interval and at the end, and immediately if `at_once`; then closes this direction.
async fn report<T: Transport>(
    mut writer: Handle<T>,
    tally: &Shared,
    mut at_once: bool,
    mut ended: oneshot::Receiver<()>,
    mut on_count: impl FnMut(&Measured),
) -> Result<Count, SessionError> {
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    let started = Instant::now();
    loop {
        let due = if std::mem::take(&mut at_once) { started } else { tally.lock().report_due(started) };
        // End only between two reports: a truncated report would corrupt the final one.
        tokio::select! {
            biased;
            _ = &mut ended => {}
            () = sleep_until(due) => {}
        }
        let (count, path, silence) = {
            let (tally, now) = (tally.lock(), Instant::now());
            (tally.count(now), tally.path, tally.silence(now, started))
        };
        let mut bytes = Vec::new();
        count.encode(&mut bytes);
        let write = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        timeout(SENDER_SILENCE_MAX, write).await.map_err(silent)?.map_err(SessionError::Connection)?;
        if count.stage != Stage::Running {
            // The peer has its answer or is gone, so the result of the close does not matter.
            if !matches!(timeout(CLOSE_WAIT_MAX, writer.shutdown()).await, Ok(Ok(()))) {
                tracing::debug!("the connection was not closed in order");
            }
            return Ok(count);
        }
        on_count(&Measured { bytes: count.bytes, seconds: count.seconds(), path, silence, ..Measured::default() });
    }
}

/// Reads frames to the end; counts data as the bytes arrive, not per frame.
async fn absorb<T: Transport>(reader: &mut BufReader<Handle<T>>, tally: &Shared) -> Result<(), SessionError> {
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    let mut body = Vec::new();
    loop {
        let header = timeout(SENDER_SILENCE_MAX, read_header(reader)).await.map_err(silent)??;
        let header = header.ok_or(SessionError::PeerClosed)?;
        if header.kind == kind::DATA {
            timeout(SENDER_SILENCE_MAX, count_data(reader, header.body_bytes, tally)).await.map_err(silent)??;
            continue;
        }
        body.resize(header.body_bytes, 0);
        timeout(SENDER_SILENCE_MAX, read_exact(reader, &mut body)).await.map_err(silent)??;
        match header.kind {
            kind::PERF_PATH => tally.lock().path = Some(decode_path(&body)?),
            kind::END => {
                tally.lock().end(Instant::now());
                return Ok(());
            }
            other => return Err(unexpected(other, &body)),
        }
    }
}

/// Counts all bytes of the stream as data.
async fn absorb_raw<T: Transport>(reader: &mut BufReader<Handle<T>>, tally: &Shared) -> Result<(), SessionError> {
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    loop {
        let ready = timeout(SENDER_SILENCE_MAX, reader.fill_buf()).await.map_err(silent)?;
        let ready_bytes = ready.map_err(SessionError::Connection)?.len();
        let (now, mut tally) = (Instant::now(), tally.lock());
        if ready_bytes == 0 {
            tally.end(now);
            return Ok(());
        }
        tally.add(now, ready_bytes as u64);
        reader.consume(ready_bytes);
    }
}

async fn count_data<T: Transport>(
    reader: &mut BufReader<Handle<T>>,
    len: usize,
    tally: &Shared,
) -> Result<(), SessionError> {
    if len == 0 {
        return Err(ProtocolError::Malformed { frame: "data" }.into());
    }
    let mut left_bytes = len;
    while left_bytes > 0 {
        let ready_bytes = reader.fill_buf().await.map_err(SessionError::Connection)?.len().min(left_bytes);
        if ready_bytes == 0 {
            return Err(SessionError::PeerClosed);
        }
        tally.lock().add(Instant::now(), ready_bytes as u64);
        reader.consume(ready_bytes);
        left_bytes -= ready_bytes;
    }
    Ok(())
}
