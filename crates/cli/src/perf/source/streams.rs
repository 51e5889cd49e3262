//! Data sent on streams besides the first one.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dfcp::StreamError;
use dfcp_files::limits::{RECEIVER_SILENCE_MAX, REPORT_INTERVAL};
use dfcp_files::transport::{Handle, SendStream, Streams, Transport};
use dfcp_framing::perf::Request;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

use super::{FRAME_BYTES, LOOK_INTERVAL, Progress, data_frame, end, is_far_ahead, write_path};

/// Smallest write to a stream, bytes. With more streams the writes shrink to this size, to keep the total overshoot small.
const PIECE_BYTES_MIN: usize = 4 << 10;

/// Sends on the streams that `request` specifies, then announces the end on the first stream.
pub(super) async fn emit<T: Transport>(
    mut handle: Handle<T>,
    beside: &dyn Streams,
    request: &Request,
    progress: &Arc<Progress>,
) -> io::Result<()> {
    let of_streams = handle.clone();
    let mut filled = pin!(fill_all(&of_streams, beside, request, progress));
    let mut control = Vec::new();
    let mut ticks = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            filled = &mut filled => {
                filled?;
                break;
            }
            _ = ticks.tick(), if request.is_reverse() => write_path(&mut handle, &mut control).await?,
        }
    }
    end(handle, request, progress).await
}

/// Opens the requested streams and sends on them until the peer ends the measurement or the bytes are used up, and all
/// data is acknowledged.
///
/// # Errors
/// Fails if the connection breaks, or the peer refuses a stream or stops reading.
pub(in crate::perf) async fn fill_all<T: Transport>(
    handle: &Handle<T>,
    beside: &dyn Streams,
    request: &Request,
    progress: &Arc<Progress>,
) -> io::Result<()> {
    let left_bytes = Arc::new(AtomicU64::new(request.bytes_max.unwrap_or(u64::MAX)));
    // Dropping this future resets the streams.
    let mut filling = JoinSet::new();
    for _ in 0..request.streams {
        let stream = timeout(RECEIVER_SILENCE_MAX, beside.open()).await??;
        let stream = stream.ok_or_else(|| io::Error::from(StreamError::NotTaken))?;
        let (progress, left_bytes) = (Arc::clone(progress), Arc::clone(&left_bytes));
        filling.spawn(fill(stream, handle.clone(), *request, progress, left_bytes));
    }
    while let Some(filled) = filling.join_next().await {
        filled.map_err(io::Error::other)??;
    }
    Ok(())
}

/// Writes to one stream until the time is up or the shared bytes are used up, and waits for acknowledgement.
async fn fill<T: Transport>(
    mut stream: SendStream,
    handle: Handle<T>,
    request: Request,
    progress: Arc<Progress>,
    left_bytes: Arc<AtomicU64>,
) -> io::Result<()> {
    let started = Instant::now();
    let mut piece = Vec::new();
    data_frame((FRAME_BYTES / usize::from(request.streams)).max(PIECE_BYTES_MIN), true, &mut piece);
    while !progress.is_over(started, &request) {
        if is_far_ahead(&handle, progress.written_bytes(&handle, &request), started.elapsed()) {
            sleep(LOOK_INTERVAL).await;
            continue;
        }
        let taken = take(&left_bytes, piece.len());
        if taken == 0 {
            break;
        }
        progress.data_bytes.fetch_add(taken as u64, Ordering::Relaxed);
        stream.write_all(&piece[..taken]).await?;
    }
    stream.shutdown().await
}

/// Takes up to `most` of the bytes left for all streams; returns the number of bytes taken.
fn take(left_bytes: &AtomicU64, most: usize) -> usize {
    let before =
        left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most as u64)));
    usize::try_from(before.unwrap_or_default()).unwrap_or(most).min(most)
}
