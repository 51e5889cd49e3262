//! One direction of a measurement, the same whichever side is the client: a source, and a sink which counts.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::Measured;
use super::wire::{Count, PERF_PATH, Request, decode_path, encode_path};
use crate::limits::{DATA_BYTES_MAX, RECEIVER_SILENCE_MAX, REPORT_INTERVAL, SENDER_SILENCE_MAX};
use crate::transfer::error::{ProtocolError, TransferError};
use crate::transfer::frame::{HEADER_BYTES, ToReceiver, ToSender, kind, read_frame, with_header};
use crate::transport::{Handle, PathSample, Transport};

/// Sends as asked, and listens to what the peer counts. `on_count` hears each interim count.
///
/// # Errors
/// The connection broke or the peer left the protocol.
pub async fn source<T: Transport>(
    handle: &Handle<T>,
    mut reader: BufReader<Handle<T>>,
    request: &Request,
    mut on_count: impl FnMut(&Measured),
) -> Result<Measured, TransferError> {
    let emit = emit(handle.clone(), request);
    let listen = async {
        let mut body = Vec::new();
        loop {
            let frame_kind = next_frame(&mut reader, &mut body, RECEIVER_SILENCE_MAX).await?;
            let count = match frame_kind {
                kind::PERF_REPORT => Count::decode(&body)?,
                other => return Err(unexpected(other, &body)),
            };
            let measured = Measured { bytes: count.bytes, seconds: count.seconds(), path: handle.path_sample() };
            if count.is_final {
                return Ok(measured);
            }
            on_count(&measured);
        }
    };
    tokio::pin!(emit, listen);
    let mut emitted_bytes = None;
    let measured = loop {
        tokio::select! {
            emitted = &mut emit, if emitted_bytes.is_none() => match emitted {
                Ok(bytes) => emitted_bytes = Some(bytes),
                // The peer may have said why; if not, the error of the connection stands.
                Err(error) => return match timeout(crate::limits::CLOSE_WAIT_MAX, &mut listen).await {
                    Ok(Err(reason @ TransferError::Refused(_))) => Err(reason),
                    _ => Err(TransferError::Connection(error)),
                },
            },
            measured = &mut listen => break measured?,
        }
    };
    // A final count before our end, or of other bytes than ours, is none.
    if emitted_bytes != Some(measured.bytes) {
        return Err(ProtocolError::Summary.into());
    }
    Ok(measured)
}

/// Writes data frames until the time or the bytes are used up, then the end; returns the bytes of data.
async fn emit<T: Transport>(mut handle: Handle<T>, request: &Request) -> std::io::Result<u64> {
    let started = Instant::now();
    let mut frame = Vec::with_capacity(HEADER_BYTES + DATA_BYTES_MAX);
    with_header(kind::DATA, &mut frame, |frame| frame.extend(Noise(0).take(DATA_BYTES_MAX)));
    let mut left_bytes = request.bytes_max.unwrap_or(u64::MAX);
    let mut sent_bytes = 0;
    let mut path_due = REPORT_INTERVAL;
    let mut control = Vec::new();
    while left_bytes > 0 && started.elapsed() < request.duration {
        if left_bytes < DATA_BYTES_MAX as u64 {
            // The last one; less than the limit, so the conversion holds.
            frame.clear();
            let len = usize::try_from(left_bytes).unwrap_or(DATA_BYTES_MAX);
            with_header(kind::DATA, &mut frame, |frame| frame.extend(Noise(0).take(len)));
        }
        handle.write_all(&frame).await?;
        let body_bytes = (frame.len() - HEADER_BYTES) as u64;
        sent_bytes += body_bytes;
        left_bytes -= body_bytes;
        if request.reverse && started.elapsed() >= path_due {
            path_due = started.elapsed() + REPORT_INTERVAL;
            write_path(&mut handle, &mut control).await?;
        }
    }
    if request.reverse {
        write_path(&mut handle, &mut control).await?;
    }
    control.clear();
    ToReceiver::End { entries: 0 }.encode(&mut control);
    handle.write_all(&control).await?;
    handle.flush().await?;
    handle.shutdown().await?;
    Ok(sent_bytes)
}

async fn write_path<T: Transport>(handle: &mut Handle<T>, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    buffer.clear();
    if let Some(path) = handle.path_sample() {
        encode_path(&path, buffer);
    }
    handle.write_all(buffer).await
}

/// Counts what comes and reports it to the peer. `on_count` hears each interim count.
///
/// # Errors
/// The connection broke or the peer left the protocol.
pub async fn sink<T: Transport>(
    handle: &Handle<T>,
    mut reader: BufReader<Handle<T>>,
    mut on_count: impl FnMut(&Measured),
) -> Result<Measured, TransferError> {
    let silent = |_| TransferError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    let tally = Mutex::new(Tally::default());
    let (ended_in, mut ended_out) = oneshot::channel();
    let absorb = async {
        absorb(&mut reader, &tally).await?;
        // The other half is still there: both are joined below.
        let _ = ended_in.send(());
        Ok::<(), TransferError>(())
    };
    let reports = async {
        let mut writer = handle.clone();
        let mut ticks = interval(REPORT_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            // Ending only between two reports: one cut in half would spoil the final one.
            tokio::select! {
                _ = &mut ended_out => return Ok(()),
                _ = ticks.tick() => {}
            }
            let tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
            on_count(&tally.measured());
            let written = timeout(SENDER_SILENCE_MAX, write_count(&mut writer, tally.count(false))).await;
            written.map_err(silent)?.map_err(TransferError::Connection)?;
        }
    };
    tokio::try_join!(absorb, reports)?;
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut writer = handle.clone();
    let closing = async {
        write_count(&mut writer, tally.count(true)).await?;
        writer.shutdown().await
    };
    timeout(SENDER_SILENCE_MAX, closing).await.map_err(silent)?.map_err(TransferError::Connection)?;
    Ok(tally.measured())
}

#[derive(Debug, Clone, Default)]
struct Tally {
    bytes: u64,
    span: Option<(Instant, Instant)>,
    path: Option<PathSample>,
}

impl Tally {
    fn count(&self, is_final: bool) -> Count {
        let elapsed = self.span.map_or(Duration::ZERO, |(first, last)| last - first);
        Count { is_final, bytes: self.bytes, elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX) }
    }

    fn measured(&self) -> Measured {
        Measured { bytes: self.bytes, seconds: self.count(false).seconds(), path: self.path }
    }
}

async fn absorb<T: Transport>(reader: &mut BufReader<Handle<T>>, tally: &Mutex<Tally>) -> Result<(), TransferError> {
    let mut body = Vec::new();
    loop {
        let frame_kind = next_frame(reader, &mut body, SENDER_SILENCE_MAX).await?;
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        match frame_kind {
            kind::DATA => {
                let now = Instant::now();
                tally.bytes += body.len() as u64;
                tally.span = Some((tally.span.map_or(now, |(first, _)| first), now));
            }
            PERF_PATH => tally.path = Some(decode_path(&body)?),
            kind::END => return Ok(()),
            other => return Err(unexpected(other, &body)),
        }
    }
}

async fn next_frame<T: Transport>(
    reader: &mut BufReader<Handle<T>>,
    body: &mut Vec<u8>,
    silence_max: Duration,
) -> Result<u8, TransferError> {
    let silent = |_| TransferError::Silent { seconds: silence_max.as_secs() };
    timeout(silence_max, read_frame(reader, body)).await.map_err(silent)??.ok_or(TransferError::PeerClosed)
}

fn unexpected(frame_kind: u8, body: &[u8]) -> TransferError {
    match ToSender::decode(frame_kind, body) {
        Ok(ToSender::Refused(failure)) => TransferError::Refused(failure.sentence),
        _ => ProtocolError::UnknownFrame { kind: frame_kind }.into(),
    }
}

async fn write_count<T: Transport>(writer: &mut Handle<T>, count: Count) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    count.encode(&mut bytes);
    writer.write_all(&bytes).await?;
    writer.flush().await
}

/// Bytes that no link on the way can compress.
struct Noise(u64);

impl Iterator for Noise {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        // SplitMix64 (Steele, Lea, Flood 2014), one byte of each number.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some((mixed ^ (mixed >> 31)) as u8)
    }
}
