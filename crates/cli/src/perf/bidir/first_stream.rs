//! First stream of a bidirectional measurement: counts, statistics and end markers.

use std::sync::atomic::Ordering;

use dfcp_files::limits::{CLOSE_WAIT_MAX, RECEIVER_SILENCE_MAX, REPORT_INTERVAL, SENDER_SILENCE_MAX};
use dfcp_files::reading::read_frame;
use dfcp_files::transport::{Handle, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::{kind, with_header};
use dfcp_framing::perf::{Count, Stage};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::Both;
use super::account::Account;
use crate::path_frame::{decode_path, encode_path};
use crate::perf::{Side, unexpected};
use crate::session_error::SessionError;

/// Processes the peer's reports until it has sent its final count and END.
///
/// # Errors
/// Fails if the connection breaks, or the peer violates the protocol or stops counting.
pub(super) async fn hear<T: Transport>(
    account: &Account<'_, T>,
    mut reader: BufReader<Handle<T>>,
) -> Result<(), SessionError> {
    let silent = |_| SessionError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
    let (mut is_counted, mut is_ended) = (false, false);
    let mut body = Vec::new();
    while !(is_counted && is_ended) {
        let next = read_frame(&mut reader, &mut body);
        // After its final count, a peer may be silent on this stream until its data ends; the data streams detect
        // silence.
        let frame =
            if is_counted { next.await } else { timeout_at(account.count_due(), next).await.map_err(silent)? };
        match frame?.ok_or(SessionError::PeerClosed)? {
            kind::PERF_REPORT if !is_counted => is_counted = account.hear(Count::decode(&body)?)?,
            kind::PERF_PATH if !is_ended && account.side == Side::Client => {
                account.tally.lock().path = Some(decode_path(&body)?);
            }
            kind::END if !is_ended => {
                is_ended = true;
                account.ended.notify_one();
            }
            kind::PERF_REPORT => return Err(ProtocolError::OutOfPlace { frame: "perf report" }.into()),
            kind::PERF_PATH => return Err(ProtocolError::OutOfPlace { frame: "perf path" }.into()),
            kind::END => return Err(ProtocolError::OutOfPlace { frame: "end" }.into()),
            kind::DATA => return Err(ProtocolError::OutOfPlace { frame: "data" }.into()),
            other => return Err(unexpected(other, &body)),
        }
    }
    tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.map_err(SessionError::Connection)?;
    Ok(())
}

/// Reports the count of the peer's data at every interval and at the end, and the end of this side's data. Then closes
/// this side's direction of the stream. A server also reports its path statistics. `on_counts` receives the results of
/// both directions with each report.
///
/// # Errors
/// Fails if the connection breaks.
pub(super) async fn tell<T: Transport>(
    account: &Account<'_, T>,
    mut on_counts: impl FnMut(&Both),
) -> Result<(), SessionError> {
    let silent = |_| SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    let mut writer = account.handle.clone();
    let (mut is_counted, mut is_ended) = (false, false);
    let mut bytes = Vec::new();
    while !(is_counted && is_ended) {
        let next = Instant::now() + REPORT_INTERVAL;
        let due = if is_counted { next } else { account.tally.lock().report_due(account.started) };
        tokio::select! {
            biased;
            () = account.changed.notified() => {}
            () = sleep_until(due) => {}
        }
        bytes.clear();
        let count = (!is_counted).then(|| account.tally.lock().count(Instant::now()));
        count.iter().for_each(|count| count.encode(&mut bytes));
        if !is_ended {
            is_ended = account.progress.is_ended.load(Ordering::Relaxed);
            if let Some(path) = account.handle.path_sample().filter(|_| account.side == Side::Server) {
                encode_path(&path, &mut bytes);
            }
            if is_ended {
                with_header(kind::END, &mut bytes, |body| body.extend_from_slice(&[0; 4]));
            }
        }
        let write = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        timeout(SENDER_SILENCE_MAX, write).await.map_err(silent)?.map_err(SessionError::Connection)?;
        if let Some(count) = count.filter(|count| count.stage != Stage::Running) {
            is_counted = true;
            account.told(count);
        }
        on_counts(&account.so_far());
    }
    // The peer has its answers or is gone, so the result of the close does not matter.
    if !matches!(timeout(CLOSE_WAIT_MAX, writer.shutdown()).await, Ok(Ok(()))) {
        tracing::debug!("the connection was not closed in order");
    }
    Ok(())
}
