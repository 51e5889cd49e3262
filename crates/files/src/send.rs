//! Sending side of a session: the network tasks.

mod answers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use dfcp::Pattern;
use dfcp_framing::error::ProtocolError;
use dfcp_framing::files::{Hello, Partial, Progress, ToReceiver, ToSender};
use dfcp_framing::frame::Service;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::answers::Answers;
use super::error::TransferError;
use super::known_directories::KnownDirectories;
use super::last_heard::LastHeard;
use super::reading::{read_frame, read_preamble};
use super::source::{Deletion, Feed, Known, Opener, Root, Shared, produce};
use super::{Bottleneck, Observer, Report, SendOptions, Snapshot};
use crate::limits::{
    CLOSE_WAIT_MAX, FILE_STREAMS_MAX, FIRST_STREAM_BYTES_KNOWN_MAX, FIRST_STREAM_BYTES_MAX, PARTIALS_PER_SENDER_MAX,
    QUIET_SOURCE_INTERVAL, RECEIVER_SILENCE_MAX, REPORT_INTERVAL, UNANSWERED_MAX,
};
use crate::transport::{Handle, SendStream, Streams, Transport};

/// Sends everything below `roots` and waits for the receiver's verdict on each file.
///
/// # Errors
/// Fails if the session breaks. Files without an observed outcome may then be stored or not. Failures of single files
/// are part of the report instead.
pub(crate) async fn send<T: Transport>(
    transport: T,
    roots: Vec<Root>,
    options: SendOptions,
    observer: Arc<dyn Observer>,
) -> Result<Report, TransferError> {
    let (started, service) = (Instant::now(), options.service);
    let handle = Handle::new(transport);
    let shared = Arc::new(Shared::new());
    // Each entry causes at most two events, one at its start and one at its end.
    let (events_in, events_out) = mpsc::channel(2 * UNANSWERED_MAX);
    // A receiver whose key was known before may already have these files, so its answer is awaited before much is sent.
    let was_known = handle.seal().is_some_and(|seal| seal.pattern != Pattern::FirstContact);
    let first_bytes_max = if was_known { FIRST_STREAM_BYTES_KNOWN_MAX } else { FIRST_STREAM_BYTES_MAX };
    let (allowed, is_allowed) = oneshot::channel();
    let known = options.delete.then(KnownDirectories::new).transpose().map_err(TransferError::Random)?;
    let deletion = known.map(|known| Deletion { known, is_allowed });
    let start = (first_bytes_max, deletion);
    let (producer, first, opener) =
        produce(roots, options.clone(), start, events_in, Arc::clone(&shared), Arc::clone(&observer));
    let producer = tokio::task::spawn_blocking(move || producer.run());
    let received = Received::new(started);
    let mut answers = Answers::new(events_out, &shared, &*observer, &options);
    let snapshot = || snapshot(&handle, &shared, &received, started.elapsed());

    let outcome = {
        let (ready_in, ready) = oneshot::channel();
        let speak = speak(handle.clone(), service, first, handle.streams(), opener, ready);
        let listen = async {
            let mut reader = BufReader::new(handle.clone());
            listen(&mut reader, service, ready_in, &mut answers, &received).await?;
            if options.delete { sweep(reader, allowed, &mut answers, &received).await } else { Ok(()) }
        };
        drive(speak, listen, || observer.progress(&snapshot())).await
    };
    // Drop the receiving end of the producer's events, so that the producer ends at its next chunk.
    drop(answers);
    let confirmed = outcome?;
    producer.await.map_err(|_| TransferError::DiskThread)?;
    // Wait until the receiver closes its direction. Everything is confirmed already, so errors are ignored.
    let mut reader = handle.clone();
    let _ = timeout(CLOSE_WAIT_MAX, tokio::io::copy(&mut reader, &mut tokio::io::sink())).await;

    let mut report = std::mem::take(&mut *shared.report.lock().unwrap_or_else(PoisonError::into_inner));
    // The elapsed time ends at the last confirmation, before the connection is closed.
    report.last = Snapshot { elapsed: confirmed.duration_since(started), ..snapshot() };
    report.is_strict = options.strict;
    Ok(report)
}

/// Statistics reported by the receiver, and the time of its last frame.
struct Received {
    bytes: AtomicU64,
    disk_us: AtomicU64,
    heard: LastHeard,
}

impl Received {
    fn new(now: Instant) -> Self {
        Self { bytes: AtomicU64::new(0), disk_us: AtomicU64::new(0), heard: LastHeard::new(now) }
    }

    fn update(&self, progress: Progress) {
        self.bytes.store(progress.received_bytes, Ordering::Relaxed);
        self.disk_us.store(progress.disk_us, Ordering::Relaxed);
    }
}

fn snapshot<T: Transport>(handle: &Handle<T>, shared: &Shared, received: &Received, elapsed: Duration) -> Snapshot {
    let receiver_disk = Duration::from_micros(received.disk_us.load(Ordering::Relaxed));
    Snapshot {
        done_bytes: received.bytes.load(Ordering::Relaxed),
        total_bytes: Some(shared.total_bytes.load(Ordering::Relaxed)),
        total_is_final: shared.total_is_final.load(Ordering::Relaxed),
        elapsed,
        path: handle.path_sample(),
        bottleneck: Some(Bottleneck::of(elapsed, shared.disk_time(), receiver_disk)),
        silence: received.heard.silence(),
        unheard: received.heard.unheard(handle.datagrams_heard()),
    }
}

/// Runs writing, reading and the report timer until the result is known. Returns the time at which it became known.
async fn drive(
    speak: impl Future<Output = Result<(), TransferError>>,
    listen: impl Future<Output = Result<(), TransferError>>,
    tick: impl Fn(),
) -> Result<Instant, TransferError> {
    tokio::pin!(speak, listen);
    let mut ticks = interval(REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut spoken = false;
    loop {
        tokio::select! {
            result = &mut speak, if !spoken => {
                spoken = true;
                if let Err(error) = result {
                    // The reason given by the receiver is preferred to the error of the connection.
                    return match timeout(CLOSE_WAIT_MAX, &mut listen).await {
                        Ok(Err(TransferError::PeerClosed | TransferError::Connection(_)) | Ok(())) | Err(_) => Err(error),
                        Ok(Err(reason)) => Err(reason),
                    };
                }
            }
            result = &mut listen => {
                result?;
                let confirmed = Instant::now();
                if !spoken {
                    // Everything is confirmed; only closing this direction remains.
                    let _ = timeout(CLOSE_WAIT_MAX, &mut speak).await;
                }
                return Ok(confirmed);
            }
            _ = ticks.tick() => tick(),
        }
    }
}

/// Writes the first stream. Once the receiver is ready, opens and writes the additional streams. Then closes all of
/// them.
async fn speak<W: AsyncWrite + Unpin>(
    mut first: W,
    service: Service,
    feed: Feed,
    beside: Option<Arc<dyn Streams>>,
    opener: Opener,
    ready: oneshot::Receiver<Known>,
) -> Result<(), TransferError> {
    let first = async {
        first.write_all(&service.preamble()).await.map_err(TransferError::Connection)?;
        pump(first, feed).await.map_err(TransferError::Connection)
    };
    let beside = async {
        let (known, mut opened) = match beside {
            Some(beside) => {
                // The receiver refuses additional streams until it has sent its preamble.
                let Ok(known) = ready.await else { return Ok(()) };
                if !opener.is_wanted() {
                    return Ok(());
                }
                (known, open(&*beside).await?)
            }
            // A transport without streams has no keys either. Nothing can be resumed then, so the receiver's greeting
            // is not awaited.
            None => (Known::default(), Vec::new()),
        };
        // If this future is dropped, the set is dropped too, which resets the streams that are still open.
        let mut pumps = JoinSet::new();
        let streams = u32::try_from(opened.len()).unwrap_or(u32::MAX);
        let feeds = opener.open(Known { streams, ..known });
        for (stream, feed) in opened.drain(..).zip(feeds) {
            pumps.spawn(pump(stream, feed));
        }
        while let Some(pumped) = pumps.join_next().await {
            pumped.map_err(|_| TransferError::DiskThread)?.map_err(TransferError::of_stream)?;
        }
        Ok(())
    };
    tokio::try_join!(first, beside).map(|_| ())
}

/// Opens as many streams as the receiver permits, at most [`FILE_STREAMS_MAX`]. None if the receiver permits none at
/// all.
async fn open(beside: &dyn Streams) -> Result<Vec<SendStream>, TransferError> {
    let silent = |_| TransferError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
    let mut opened = Vec::new();
    for _ in 0..FILE_STREAMS_MAX {
        let stream = timeout(RECEIVER_SILENCE_MAX, beside.open()).await.map_err(silent)?;
        match stream.map_err(TransferError::Connection)? {
            Some(stream) => opened.push(stream),
            None => break,
        }
    }
    Ok(opened)
}

/// Writes the chunks of one stream and closes it. While the source is idle within a file, presence frames show that
/// this side is alive.
pub(super) async fn pump<W: AsyncWrite + Unpin>(mut writer: W, feed: Feed) -> std::io::Result<()> {
    let Feed { mut chunks, spare } = feed;
    let mut is_live = false;
    loop {
        let next = if is_live { timeout(QUIET_SOURCE_INTERVAL, chunks.recv()).await } else { Ok(chunks.recv().await) };
        let Ok(next) = next else {
            let mut sign = Vec::new();
            ToReceiver::Data(Vec::new()).encode(&mut sign);
            writer.write_all(&sign).await?;
            writer.flush().await?;
            continue;
        };
        let Some(chunk) = next else { break };
        is_live = chunk.is_live;
        writer.write_all(&chunk.bytes).await?;
        // An error means that the encoder has ended, so the buffer is freed.
        let _ = spare.send(chunk.bytes);
        if chunks.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await?;
    writer.shutdown().await
}

/// Abilities of the receiver and its partial files, collected as they arrive.
struct Greeting {
    ready: Option<oneshot::Sender<Known>>,
    known: Option<Known>,
    /// Number of announced partial files that have not arrived yet.
    partials: u32,
}

impl Greeting {
    fn hello(&mut self, Hello { takes_offers, partials, .. }: Hello) -> Result<(), ProtocolError> {
        if self.ready.is_none() || self.known.is_some() || partials as usize > PARTIALS_PER_SENDER_MAX {
            return Err(ProtocolError::OutOfPlace { frame: "hello" });
        }
        self.partials = partials;
        self.known = Some(Known { takes_offers, ..Known::default() });
        self.tell();
        Ok(())
    }

    fn partial(&mut self, partial: Partial) -> Result<(), ProtocolError> {
        let known = self.known.as_mut().filter(|_| self.ready.is_some());
        let known = known.ok_or(ProtocolError::OutOfPlace { frame: "partial" })?;
        self.partials = self.partials.saturating_sub(1);
        known.partials.insert(partial.name.clone(), partial);
        self.tell();
        Ok(())
    }

    /// Passes the greeting on once it is complete. Files can be sent from then on.
    fn tell(&mut self) {
        if self.partials == 0
            && let Some(ready) = self.ready.take()
            && let Some(known) = self.known.take()
        {
            // The receiving end is gone if no file remains to be sent.
            let _ = ready.send(known);
        }
    }
}

/// Reads answers up to the summary. The first answers state the receiver's abilities; `ready` is then completed, so
/// that streams can be opened.
async fn listen<R: AsyncRead + Unpin>(
    reader: &mut R,
    service: Service,
    ready: oneshot::Sender<Known>,
    answers: &mut Answers<'_>,
    received: &Received,
) -> Result<(), TransferError> {
    let silent = |_| TransferError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
    let greeted = timeout(RECEIVER_SILENCE_MAX, read_preamble(reader, service)).await.map_err(silent)?;
    greeted.map_err(|error| TransferError::from(error).at_sender())?;
    let mut greeting = Greeting { ready: Some(ready), known: None, partials: 0 };
    let (mut stored, mut failed) = (0_u32, 0_u32);
    let mut body = Vec::new();
    loop {
        if !answers.is_recorded() {
            return Err(TransferError::SentNotRecorded);
        }
        let next = timeout(RECEIVER_SILENCE_MAX, read_frame(reader, &mut body)).await.map_err(silent)??;
        let Some(frame_kind) = next else { return Err(TransferError::PeerClosed) };
        received.heard.now();
        match ToSender::decode(frame_kind, &body)? {
            ToSender::Verdict { index, outcome } => {
                *(if outcome.is_ok() { &mut stored } else { &mut failed }) += 1;
                answers.verdict(index, outcome)?;
            }
            ToSender::Hello(hello) if answers.wants_deletion() && !hello.deletes => {
                return Err(TransferError::NoDeletion);
            }
            ToSender::Hello(hello) if answers.wants_links() && !hello.keeps_links => {
                return Err(TransferError::NoLinks);
            }
            ToSender::Hello(hello) => greeting.hello(hello)?,
            ToSender::Partial(partial) => greeting.partial(partial)?,
            ToSender::Want { index } => answers.want(index)?,
            ToSender::Basis(basis) => answers.basis(basis)?,
            ToSender::Deleted { .. } => return Err(ProtocolError::OutOfPlace { frame: "deleted" }.into()),
            ToSender::Swept { .. } => return Err(ProtocolError::OutOfPlace { frame: "swept" }.into()),
            ToSender::Checked { index, end, differ } => answers.checked(index, end, &differ)?,
            ToSender::Progress(progress) => received.update(progress),
            ToSender::Summary { stored: theirs, failed: their_failed, progress } => {
                let complete = timeout(RECEIVER_SILENCE_MAX, answers.is_complete()).await.map_err(silent)?;
                if (theirs, their_failed) != (stored, failed) || !complete {
                    return Err(ProtocolError::Summary.into());
                }
                received.update(progress);
                return Ok(());
            }
            ToSender::Refused(failure) => return Err(TransferError::Refused(failure)),
        }
    }
}

/// Called after the summary. Permits listings unless an entry failed, and reads the results of the deletion.
async fn sweep<R: AsyncRead + Unpin>(
    mut reader: R,
    allowed: oneshot::Sender<bool>,
    answers: &mut Answers<'_>,
    received: &Received,
) -> Result<(), TransferError> {
    // An error means that the producer has ended; it has reported its reason.
    let _ = allowed.send(answers.allows_deletion());
    let silent = |_| TransferError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
    let mut body = Vec::new();
    loop {
        if !answers.is_recorded() {
            return Err(TransferError::SentNotRecorded);
        }
        let next = timeout(RECEIVER_SILENCE_MAX, read_frame(&mut reader, &mut body)).await.map_err(silent)??;
        let Some(frame_kind) = next else { return Err(TransferError::PeerClosed) };
        received.heard.now();
        match ToSender::decode(frame_kind, &body)? {
            ToSender::Deleted { failure, name } => answers.deleted(failure, &name),
            ToSender::Progress(progress) => received.update(progress),
            ToSender::Swept { told, unnamed } => return Ok(answers.swept(told, unnamed)?),
            ToSender::Refused(failure) => return Err(TransferError::Refused(failure)),
            _ => return Err(ProtocolError::OutOfPlace { frame: "late" }.into()),
        }
    }
}
