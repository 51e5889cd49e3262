//! Data received on streams besides the first one.

use std::pin::pin;
use std::sync::Arc;

use dfcp_files::limits::SENDER_SILENCE_MAX;
use dfcp_files::reading::read_frame;
use dfcp_files::transport::{Handle, RecvStream, Streams, Transport};
use dfcp_framing::error::ProtocolError;
use dfcp_framing::frame::kind;
use dfcp_framing::limits::DATA_BYTES_MAX;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Shared;
use crate::path_frame::decode_path;
use crate::perf::unexpected;
use crate::session_error::SessionError;

/// Counts the data of the streams `beside` until each has ended, and reads the first stream's frames up to END.
pub(super) async fn absorb<T: Transport>(
    reader: &mut BufReader<Handle<T>>,
    beside: &dyn Streams,
    streams: u16,
    tally: &Arc<Shared>,
) -> Result<(), SessionError> {
    let mut told = pin!(take_frames(reader, tally));
    let mut counted = pin!(count_all(beside, streams, tally));
    tokio::select! {
        counted = &mut counted => {
            counted?;
            timeout(SENDER_SILENCE_MAX, told).await.map_err(silent)??;
        }
        // Data streams detect silence; the first stream may be silent for the whole measurement.
        told = &mut told => {
            told?;
            counted.await?;
        }
    }
    tally.lock().end(Instant::now());
    Ok(())
}

async fn take_frames<T: Transport>(reader: &mut BufReader<Handle<T>>, tally: &Shared) -> Result<(), SessionError> {
    let mut body = Vec::new();
    loop {
        match read_frame(reader, &mut body).await?.ok_or(SessionError::PeerClosed)? {
            kind::PERF_PATH => tally.lock().path = Some(decode_path(&body)?),
            kind::END => return Ok(()),
            other => return Err(unexpected(other, &body)),
        }
    }
}

/// Accepts this many streams and counts their data until each has ended.
///
/// # Errors
/// Fails if the connection breaks, a stream is reset, or the peer opens too few or too many.
pub(in crate::perf) async fn count_all(
    beside: &dyn Streams,
    streams: u16,
    tally: &Arc<Shared>,
) -> Result<(), SessionError> {
    // Dropping this future stops reading from all streams.
    let mut counting = JoinSet::new();
    for _ in 0..streams {
        let stream = timeout(SENDER_SILENCE_MAX, beside.accept()).await.map_err(silent)?;
        counting.spawn(count(stream.ok_or(SessionError::PeerClosed)?, Arc::clone(tally)));
    }
    let mut surplus = pin!(beside.accept());
    let mut is_open = true;
    loop {
        tokio::select! {
            counted = counting.join_next() => match counted {
                Some(counted) => counted.map_err(|error| SessionError::Connection(error.into()))??,
                None => return Ok(()),
            },
            stream = &mut surplus, if is_open => match stream {
                Some(_) => return Err(ProtocolError::TooManyStreams.into()),
                None => is_open = false,
            },
        }
    }
}

/// Counts one stream, whose bytes are all data.
async fn count(mut stream: RecvStream, tally: Arc<Shared>) -> Result<(), SessionError> {
    let mut buffer = vec![0; DATA_BYTES_MAX];
    loop {
        let read = timeout(SENDER_SILENCE_MAX, stream.read(&mut buffer)).await.map_err(silent)?;
        match read.map_err(SessionError::Connection)? {
            0 => return Ok(()),
            bytes => tally.lock().add(Instant::now(), bytes as u64),
        }
    }
}

fn silent(_: tokio::time::error::Elapsed) -> SessionError {
    SessionError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() }
}
