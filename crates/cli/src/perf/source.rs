//! Sending side of a measurement, client or server.

pub(super) mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dfcp_files::limits::{CLOSE_WAIT_MAX, RECEIVER_SILENCE_MAX, REPORT_INTERVAL};
use dfcp_files::transport::{Handle, PathSample, Streams, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::{HEADER_BYTES, kind, with_header};
use dfcp_framing::perf::{Count, Request, Stage};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::noise::Noise;
use super::{Measured, next_frame, unexpected};
use crate::limits::{PERF_AHEAD_BYTES_MIN, PERF_OVERTIME_MAX, PERF_TAIL_MAX};
use crate::path_frame::encode_path;
use crate::session_error::SessionError;

/// Body length of a data frame, bytes. The source may send this much after the time is up.
const FRAME_BYTES: usize = 64 * 1024;

/// Interval at which the source polls for acknowledgements.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Loss and RTT assumed until they are measured: high, so that they do not throttle the measurement.
const LOSS_ASSUMED: f64 = 0.5;
const RTT_ASSUMED_MS: f64 = 1000.0;

/// Sends as requested until the peer ends the measurement, and reads the peer's counts. The data goes over the streams
/// `beside` the first one, if there are any. `on_count` receives each interim count.
///
/// # Errors
/// Fails if the connection breaks or the peer violates the protocol before its final count.
pub async fn source<T: Transport>(
    handle: &Handle<T>,
    mut reader: BufReader<Handle<T>>,
    request: &Request,
    beside: Option<Arc<dyn Streams>>,
    on_count: impl FnMut(&Measured),
) -> Result<Measured, SessionError> {
    let progress = Arc::new(Progress::default());
    let mut emit = Box::pin(async {
        match &beside {
            Some(beside) => streams::emit(handle.clone(), &**beside, request, &progress).await,
            None => emit(handle.clone(), request, &progress).await,
        }
    });
    let counted = {
        let mut listen = Box::pin(listen(handle, &mut reader, (request, &progress), on_count));
        tokio::select! {
            counted = &mut listen => counted?,
            emitted = &mut emit => match emitted {
                Ok(()) => listen.await?,
                // Prefer the reason that the peer gives over the connection's error.
                Err(error) => return match timeout(CLOSE_WAIT_MAX, &mut listen).await {
                    Ok(Err(reason @ SessionError::Refused(_))) => Err(reason),
                    _ => Err(SessionError::Connection(error)),
                },
            },
        }
    };
    // Statistics become exact when all data is acknowledged; the count is final already.
    progress.is_time_up.store(true, Ordering::Relaxed);
    let close = async {
        if !progress.is_closed.load(Ordering::Relaxed) {
            emit.await?;
        }
        tokio::io::copy(&mut reader, &mut tokio::io::sink()).await
    };
    if !matches!(timeout(PERF_TAIL_MAX, close).await, Ok(Ok(_))) {
        tracing::debug!("the connection was not closed in order");
    }
    Ok(Measured { path: handle.path_sample(), ..counted }.whole())
}

/// State that the two directions share.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes of data in frames started so far.
    data_bytes: AtomicU64,
    /// True if no data follows.
    pub(super) is_ended: AtomicBool,
    /// True if everything is written and confirmed.
    is_closed: AtomicBool,
    /// True if the peer has ended the measurement.
    pub(super) is_time_up: AtomicBool,
    /// Signals a count from the peer. The first count means that the peer is ready for undecoded data.
    counted: Notify,
}

impl Progress {
    /// Returns true if the peer has ended the measurement, or the end is overdue.
    fn is_over(&self, started: Instant, request: &Request) -> bool {
        self.is_time_up.load(Ordering::Relaxed) || started.elapsed() >= request.duration + PERF_OVERTIME_MAX
    }

    /// Checks the peer's count against the data sent, and against the previous count.
    ///
    /// # Errors
    /// Fails if the count is impossible.
    pub(super) fn check(&self, count: &Count, before_bytes: u64, request: &Request) -> Result<(), ProtocolError> {
        let sent_bytes = self.data_bytes.load(Ordering::Relaxed);
        let is_sent = match count.stage {
            Stage::Running | Stage::TimeUp => count.bytes <= sent_bytes,
            Stage::Ended => self.is_ended.load(Ordering::Relaxed) && count.bytes == sent_bytes,
        };
        // The request carries the duration in whole milliseconds, at least one.
        let duration = request.duration.max(Duration::from_millis(1));
        let is_within = Duration::from_micros(count.elapsed_us) <= duration;
        if is_sent && is_within && count.bytes >= before_bytes { Ok(()) } else { Err(ProtocolError::Summary) }
    }

    /// Returns the number of bytes written to all streams.
    fn written_bytes<T: Transport>(&self, first: &Handle<T>, request: &Request) -> u64 {
        let beside = if request.streams > 0 { self.data_bytes.load(Ordering::Relaxed) } else { 0 };
        first.written_bytes() + beside
    }
}

/// Waits for `next`. Every two report intervals, calls `tell` with the time for which nothing has arrived.
async fn meanwhile<F: Future>(next: F, mut tell: impl FnMut(Duration)) -> F::Output {
    let (since, mut ticks) = (Instant::now(), interval_at(Instant::now() + 2 * REPORT_INTERVAL, 2 * REPORT_INTERVAL));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tokio::pin!(next);
    loop {
        tokio::select! {
            biased;
            next = &mut next => return next,
            _ = ticks.tick() => tell(since.elapsed()),
        }
    }
}

/// Reads the peer's counts up to the final one, and validates them.
async fn listen<T: Transport>(
    handle: &Handle<T>,
    reader: &mut BufReader<Handle<T>>,
    (request, progress): (&Request, &Progress),
    mut on_count: impl FnMut(&Measured),
) -> Result<Measured, SessionError> {
    let mut body = Vec::new();
    let mut measured = Measured::default();
    loop {
        let next = next_frame(reader, &mut body, RECEIVER_SILENCE_MAX);
        let frame_kind = meanwhile(next, |silence| {
            on_count(&Measured { path: handle.path_sample(), silence, ..measured });
        })
        .await?;
        let count = match frame_kind {
            kind::PERF_REPORT => Count::decode(&body)?,
            other => return Err(unexpected(other, &body)),
        };
        let path = handle.path_sample();
        progress.check(&count, measured.bytes, request)?;
        measured = Measured { bytes: count.bytes, seconds: count.seconds(), path, ..Measured::default() };
        progress.counted.notify_one();
        if count.stage != Stage::Running {
            return Ok(measured);
        }
        on_count(&measured);
    }
}

/// Builds a data frame with a body of this length, or only the body for raw data.
fn data_frame(body_bytes: usize, raw: bool, frame: &mut Vec<u8>) {
    frame.clear();
    if raw {
        frame.extend(Noise::new(0).take(body_bytes));
    } else {
        with_header(kind::DATA, frame, |frame| frame.extend(Noise::new(0).take(body_bytes)));
    }
}

/// Writes data until the peer ends the measurement or the bytes are used up, then ends the stream.
async fn emit<T: Transport>(mut handle: Handle<T>, request: &Request, progress: &Progress) -> std::io::Result<()> {
    if request.raw {
        // Wait until the peer has stopped decoding: it would decode earlier data, at the codec's cost and possibly into
        // garbage.
        progress.counted.notified().await;
    }
    let started = Instant::now();
    let mut frame = Vec::with_capacity(HEADER_BYTES + FRAME_BYTES);
    data_frame(FRAME_BYTES, request.raw, &mut frame);
    let mut left_bytes = request.bytes_max.unwrap_or(u64::MAX);
    let mut path_due = REPORT_INTERVAL;
    let mut control = Vec::new();
    let tells_path = request.is_reverse() && !request.raw;
    while left_bytes > 0 && !progress.is_over(started, request) {
        if is_far_ahead(&handle, handle.written_bytes(), started.elapsed()) {
            sleep(LOOK_INTERVAL).await;
            continue;
        }
        if left_bytes < FRAME_BYTES as u64 {
            // Last frame: the rest is below the limit, so the conversion succeeds.
            data_frame(usize::try_from(left_bytes).unwrap_or(FRAME_BYTES), request.raw, &mut frame);
        }
        let body_bytes = left_bytes.min(FRAME_BYTES as u64);
        left_bytes -= body_bytes;
        progress.data_bytes.fetch_add(body_bytes, Ordering::Relaxed);
        handle.write_all(&frame).await?;
        if tells_path && started.elapsed() >= path_due {
            path_due = started.elapsed() + REPORT_INTERVAL;
            write_path(&mut handle, &mut control).await?;
        }
    }
    end(handle, request, progress).await
}

/// Sends the end marker and the last statistics, and closes this direction.
async fn end<T: Transport>(mut handle: Handle<T>, request: &Request, progress: &Progress) -> std::io::Result<()> {
    progress.is_ended.store(true, Ordering::Relaxed);
    let mut control = Vec::new();
    if request.is_reverse() && !request.raw {
        settle(&mut handle, progress, request).await?;
        write_path(&mut handle, &mut control).await?;
    }
    if !request.raw {
        control.clear();
        with_header(kind::END, &mut control, |body| body.extend_from_slice(&[0; 4]));
        handle.write_all(&control).await?;
    }
    handle.flush().await?;
    handle.shutdown().await?;
    progress.is_closed.store(true, Ordering::Relaxed);
    Ok(())
}

/// Returns true if more data is unacknowledged than the path needs: a longer queue would delay the end. Always false if
/// the transport keeps no statistics.
fn is_far_ahead<T: Transport>(handle: &Handle<T>, written_bytes: u64, elapsed: Duration) -> bool {
    handle.path_sample().is_some_and(|path| {
        let ahead_bytes = written_bytes.saturating_sub(path.bytes_acknowledged);
        ahead_bytes >= ahead_bytes_max(&path, elapsed)
    })
}

/// Returns the limit of unacknowledged bytes, for the mean rate over `elapsed`. It covers data in flight and awaiting
/// repair (two round trips, eight at heavy loss), and the send queue of one report interval.
fn ahead_bytes_max(path: &PathSample, elapsed: Duration) -> u64 {
    let rate_bytes_s = path.ip_bytes_sent as f64 / elapsed.as_secs_f64().max(1e-3);
    let round_trips = 2.0 + 12.0 * path.loss.unwrap_or(LOSS_ASSUMED).min(LOSS_ASSUMED);
    let span_s = REPORT_INTERVAL.as_secs_f64() + round_trips * path.rtt_ms.unwrap_or(RTT_ASSUMED_MS) / 1e3;
    ((rate_bytes_s * span_s) as u64).max(PERF_AHEAD_BYTES_MIN)
}

/// Waits, with a time limit, until all data is acknowledged and the statistics are final.
async fn settle<T: Transport>(handle: &mut Handle<T>, progress: &Progress, request: &Request) -> std::io::Result<()> {
    handle.flush().await?;
    let started = Instant::now();
    while started.elapsed() < CLOSE_WAIT_MAX
        && handle.path_sample().is_some_and(|path| path.bytes_acknowledged < progress.written_bytes(handle, request))
    {
        sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

async fn write_path<T: Transport>(handle: &mut Handle<T>, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    buffer.clear();
    if let Some(path) = handle.path_sample() {
        encode_path(&path, buffer);
    }
    handle.write_all(buffer).await
}
