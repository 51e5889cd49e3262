//! Reading half of a receiver: the first stream, and additional streams opened by the sender.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::{ToReceiver, ToSender};
use dfcp_framing::frame::{Header, Service, kind};
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, timeout, timeout_at};

use super::Counters;
use crate::assembler::Ready;
use crate::error::TransferError;
use crate::limits::{
    CHUNKS_WAITING_MAX, FILE_STREAMS_MAX, PIECE_WAIT, REPORT_INTERVAL, SENDER_SILENCE_MAX, STREAM_READ_AHEAD_BYTES,
};
use crate::reading::{read_exact, read_header, read_preamble};
use crate::transport::{RecvStream, Streams};

/// Event for the receiver's disk thread.
#[derive(Debug)]
pub(crate) enum Heard {
    /// Next frame of the stream with this number; 0 is the first stream.
    Frame(usize, ToReceiver),
    /// A worker thread has a result.
    Ready(Ready),
    /// All streams have ended, and the sender has stated their number.
    AllEnded,
    /// The first stream has ended, after any links and listings.
    FirstEnded,
}

/// Pool of buffers for data frames.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Vec<Vec<u8>>>);

impl Spares {
    /// Returns the buffer of a processed data frame to the pool.
    pub(super) fn give(&self, frame: ToReceiver) {
        let mut spares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let ToReceiver::Data(data) = frame
            && spares.len() < CHUNKS_WAITING_MAX
        {
            spares.push(data);
        }
    }

    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}

/// Sending end of the disk thread's events.
#[derive(Debug, Clone)]
pub(crate) struct Inlet {
    pub(crate) frames: mpsc::Sender<Heard>,
    pub(crate) spares: Arc<Spares>,
    /// Permits for directories that may still receive content.
    pub(crate) open_directories: Arc<Semaphore>,
    pub(crate) counters: Arc<Counters>,
}

/// Error that means that the disk thread has ended and accepts no more events.
struct Closed;

impl Inlet {
    async fn hand_on(&self, stream: usize, frame: ToReceiver) -> Result<(), Closed> {
        self.counters.in_hand.fetch_add(1, Ordering::Relaxed);
        self.frames.send(Heard::Frame(stream, frame)).await.map_err(|_| Closed)
    }

    /// Reads the next frame; `None` at the end of the stream. If a data frame arrives slowly, each part is returned as
    /// a frame of its own: data not passed on would be lost if the session broke.
    async fn read<R: AsyncRead + Unpin>(
        &self,
        reader: &mut R,
        partly: &mut Partly,
    ) -> Result<Option<ToReceiver>, TransferError> {
        if partly.left_bytes == 0 {
            let Some(Header { kind, body_bytes }) = read_header(reader).await? else { return Ok(None) };
            self.counters.heard.now();
            if kind != kind::DATA || body_bytes == 0 {
                partly.body.resize(body_bytes, 0);
                read_exact(reader, &mut partly.body).await?;
                // A listening sender may refuse this side with a frame for senders.
                if kind == kind::REFUSED
                    && let ToSender::Refused(failure) = ToSender::decode(kind, &partly.body)?
                {
                    return Err(TransferError::Refused(failure));
                }
                return Ok(Some(ToReceiver::decode(kind, &mut partly.body)?));
            }
            partly.left_bytes = body_bytes;
        }
        let mut piece = self.spares.take();
        piece.clear();
        piece.reserve(partly.left_bytes);
        let begun = Instant::now();
        while piece.len() < partly.left_bytes {
            let mut rest = (&mut *reader).take((partly.left_bytes - piece.len()) as u64);
            let read = rest.read_buf(&mut piece);
            let read = match begun.checked_add(PIECE_WAIT).filter(|_| partly.has_begun) {
                Some(deadline) => match timeout_at(deadline, read).await {
                    Ok(read) => read,
                    Err(_) => break,
                },
                None => read.await,
            };
            if read.map_err(TransferError::Connection)? == 0 {
                return Err(TransferError::PeerClosed);
            }
            partly.has_begun = true;
        }
        partly.has_begun = false;
        partly.left_bytes -= piece.len();
        self.counters.heard.now();
        self.counters.received_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(Some(ToReceiver::Data(piece)))
    }
}

/// Progress of the frame that is being read from a stream.
#[derive(Debug, Default)]
struct Partly {
    body: Vec<u8>,
    /// Bytes still to be read of a data frame that was passed on in part.
    left_bytes: usize,
    /// True if bytes of the next part have arrived.
    has_begun: bool,
}

/// Reads frames for the disk thread until every stream has ended, including links and listings on the first stream.
/// Also ends if the disk thread stops.
///
/// # Errors
/// Fails if the connection or a stream breaks, or the sender violates the protocol.
pub(crate) async fn hear<R: AsyncRead + Unpin>(
    mut first: R,
    service: Service,
    beside: Option<Arc<dyn Streams>>,
    inlet: Inlet,
) -> Result<(), TransferError> {
    let mut partly = Partly::default();
    let Some(has_more) = hear_all((&mut first, &mut partly), service, beside, &inlet).await? else {
        return Ok(());
    };
    if inlet.frames.send(Heard::AllEnded).await.is_err() || !has_more {
        // If the disk thread has stopped, it reports the reason itself.
        return Ok(());
    }
    while let Some(frame) = inlet.read(&mut first, &mut partly).await? {
        if inlet.hand_on(0, frame).await.is_err() {
            return Ok(());
        }
    }
    let _ = inlet.frames.send(Heard::FirstEnded).await;
    Ok(())
}

/// Reads until the end frame has arrived and all streams have ended. Returns true if links or listings may follow on
/// the first stream; `None` if the disk thread has stopped.
async fn hear_all<R: AsyncRead + Unpin>(
    first: (&mut R, &mut Partly),
    service: Service,
    beside: Option<Arc<dyn Streams>>,
    inlet: &Inlet,
) -> Result<Option<bool>, TransferError> {
    // Number of directory frames passed on so far; the maximum value once all have been.
    let (directories, made) = watch::channel(0_u32);
    let mut first = pin!(hear_first(first, service, inlet, directories));
    // Dropping the set stops reading the additional streams.
    let mut others = JoinSet::new();
    let (mut opened, mut told, mut is_open, mut has_more) = (0_u32, None, true, false);
    while told != Some(opened) || !others.is_empty() {
        let is_opening = is_open && told.is_none_or(|told| opened < told);
        if !is_open && told.is_some_and(|told| opened < told) {
            return Err(TransferError::PeerClosed);
        }
        let accept = async {
            match &beside {
                Some(beside) => beside.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut first, if told.is_none() => {
                let Some((streams, more)) = ended? else { return Ok(None) };
                if streams < opened || streams > u32::from(FILE_STREAMS_MAX) || (beside.is_none() && streams > 0) {
                    return Err(ProtocolError::TooManyStreams.into());
                }
                (told, has_more) = (Some(streams), more);
            }
            stream = accept, if is_opening => match stream {
                Some(_) if opened >= FILE_STREAMS_MAX.into() => return Err(ProtocolError::TooManyStreams.into()),
                Some(stream) => {
                    opened += 1;
                    others.spawn(hear_other(opened as usize, stream, inlet.clone(), made.clone()));
                }
                // The connection was closed or has broken; the results of the other streams show which.
                None => is_open = false,
            },
            Some(ended) = others.join_next() => {
                let ended = ended.map_err(|error| TransferError::Connection(error.into()))??;
                if ended == End::Closed {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(has_more))
}

/// Returns once no frame has arrived on any stream for [`SENDER_SILENCE_MAX`] while nothing remained to be processed.
pub(crate) async fn watch_silence(counters: &Counters) -> TransferError {
    let mut ticks = interval(REPORT_INTERVAL);
    let mut since = Instant::now();
    loop {
        ticks.tick().await;
        if counters.has_work() {
            since = Instant::now();
        }
        if since.elapsed().min(counters.heard.silence()) >= SENDER_SILENCE_MAX {
            return TransferError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
        }
    }
}

/// Reads the first stream up to its end frame. Returns the number of additional streams, and whether links or listings
/// may follow. `None` if the disk thread has stopped.
async fn hear_first<R: AsyncRead + Unpin>(
    (reader, partly): (&mut R, &mut Partly),
    service: Service,
    inlet: &Inlet,
    directories: watch::Sender<u32>,
) -> Result<Option<(u32, bool)>, TransferError> {
    let silent = |_| TransferError::Silent { seconds: SENDER_SILENCE_MAX.as_secs() };
    let greeted = timeout(SENDER_SILENCE_MAX, read_preamble(reader, service)).await.map_err(silent)?;
    greeted.map_err(|error| TransferError::from(error).at_receiver())?;
    let mut has_more = false;
    loop {
        let Some(frame) = inlet.read(reader, partly).await? else { return Err(TransferError::PeerClosed) };
        has_more |= matches!(frame, ToReceiver::Delete(_) | ToReceiver::Links { .. });
        let is_directory = matches!(frame, ToReceiver::Directory(_));
        if is_directory && let Ok(permit) = inlet.open_directories.acquire().await {
            // The disk thread adds the permit back once the directory is complete.
            permit.forget();
        }
        let streams = if let ToReceiver::End { streams, .. } = &frame { Some(*streams) } else { None };
        if inlet.hand_on(0, frame).await.is_err() {
            return Ok(None);
        }
        if is_directory {
            directories.send_modify(|made| *made += 1);
        }
        if let Some(streams) = streams {
            // Release streams that wait for directories which will never arrive.
            directories.send_replace(u32::MAX);
            return Ok(Some((streams, has_more)));
        }
    }
}

/// Way in which an additional stream ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The sender closed the stream after its last file.
    Whole,
    /// The disk thread has stopped.
    Closed,
}

async fn hear_other(
    stream: usize,
    reader: RecvStream,
    inlet: Inlet,
    mut made: watch::Receiver<u32>,
) -> Result<End, TransferError> {
    let mut reader = BufReader::with_capacity(STREAM_READ_AHEAD_BYTES, reader);
    let (mut partly, mut is_inside) = (Partly::default(), false);
    loop {
        let next = match inlet.read(&mut reader, &mut partly).await {
            Err(TransferError::Connection(error)) => return Err(TransferError::of_stream(error)),
            Err(TransferError::PeerClosed) => return Err(ProtocolError::CutFile.into()),
            next => next?,
        };
        match &next {
            None if is_inside => return Err(ProtocolError::CutFile.into()),
            None => return Ok(End::Whole),
            Some(ToReceiver::File(entry) | ToReceiver::Resume { entry, .. }) => {
                is_inside = true;
                // A file may arrive before its directory. The wait cannot fail: the reader of the first stream outlives
                // this one, or has already released all waiting streams.
                let _ = made.wait_for(|made| *made >= entry.directories).await;
            }
            Some(ToReceiver::FileEnd { .. } | ToReceiver::FileAbort(_)) => is_inside = false,
            Some(_) => {}
        }
        if let Some(frame) = next
            && inlet.hand_on(stream, frame).await.is_err()
        {
            return Ok(End::Closed);
        }
    }
}
