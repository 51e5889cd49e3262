//! The sending side of a session.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::error::{Failure, FailureCode, ProtocolError, TransferError};
use super::frame::{Confirmed, Progress, Service, ToReceiver, ToSender, read_frame, read_preamble};
use super::source::{Chunk, Event, Root, Shared, produce};
use super::{Bottleneck, EntryOutcome, LastHeard, Observer, Report, Snapshot};
use crate::limits::{
    CHUNKS_WAITING_MAX, CLOSE_WAIT_MAX, QUIET_SOURCE_INTERVAL, RECEIVER_SILENCE_MAX, REPORT_INTERVAL, UNANSWERED_MAX,
};
use crate::output::printable;
use crate::transport::{Handle, Transport};

/// Sends everything below `roots` and waits until the receiver has confirmed each hash, or said why not.
///
/// # Errors
/// The session broke; nothing is known then about files without an observed outcome. Files which failed on their own
/// are in the report instead.
pub async fn send<T: Transport>(
    transport: T,
    roots: Vec<Root>,
    observer: Arc<dyn Observer>,
) -> Result<Report, TransferError> {
    let started = Instant::now();
    let handle = Handle::new(transport);
    let shared = Arc::new(Shared::new());
    let (chunks_in, chunks_out) = mpsc::channel(CHUNKS_WAITING_MAX);
    let (spare_in, spare_out) = std::sync::mpsc::channel();
    let (events_in, events_out) = mpsc::channel(UNANSWERED_MAX);
    let producer = tokio::task::spawn_blocking({
        let (shared, observer) = (Arc::clone(&shared), Arc::clone(&observer));
        move || produce(roots, chunks_in, spare_out, events_in, shared, observer)
    });
    let received = Received::new(started);
    let mut answers = Answers { events: events_out, pending: BTreeMap::new(), shared: &shared, observer: &*observer };
    let snapshot = || snapshot(&handle, &shared, &received, started.elapsed());

    let outcome = {
        let pump = pump(handle.clone(), chunks_out, spare_in);
        let listen = listen(BufReader::new(handle.clone()), &mut answers, &received);
        drive(pump, listen, || observer.progress(&snapshot())).await
    };
    // Nobody listens to the producer any more, so it ends at its next chunk, if it has not yet.
    drop(answers);
    outcome?;
    producer.await.map_err(|_| TransferError::DiskThread)?;
    // The other half of an orderly close; all is confirmed whether or not it comes.
    let mut reader = handle.clone();
    let _ = timeout(CLOSE_WAIT_MAX, tokio::io::copy(&mut reader, &mut tokio::io::sink())).await;

    let mut report = std::mem::take(&mut *shared.report.lock().unwrap_or_else(PoisonError::into_inner));
    report.last = snapshot();
    Ok(report)
}

/// Figures reported by the receiver, and when it last said anything.
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
    let sender_disk = Duration::from_micros(shared.disk_us.load(Ordering::Relaxed));
    let receiver_disk = Duration::from_micros(received.disk_us.load(Ordering::Relaxed));
    Snapshot {
        done_bytes: received.bytes.load(Ordering::Relaxed),
        total_bytes: Some(shared.total_bytes.load(Ordering::Relaxed)),
        total_is_final: shared.total_is_final.load(Ordering::Relaxed),
        elapsed,
        path: handle.path_sample(),
        bottleneck: Some(Bottleneck::of(elapsed, sender_disk, receiver_disk)),
        silence: received.heard.silence(),
    }
}

/// Runs both directions and the ticks until the answer is known.
async fn drive(
    pump: impl Future<Output = std::io::Result<()>>,
    listen: impl Future<Output = Result<(), TransferError>>,
    tick: impl Fn(),
) -> Result<(), TransferError> {
    tokio::pin!(pump, listen);
    let mut ticks = interval(REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut pumped = false;
    loop {
        tokio::select! {
            result = &mut pump, if !pumped => {
                pumped = true;
                if let Err(error) = result {
                    // The receiver may have said why it closed; otherwise the error of the connection stands.
                    return match timeout(CLOSE_WAIT_MAX, &mut listen).await {
                        Ok(Err(TransferError::PeerClosed) | Ok(())) | Err(_) => Err(TransferError::Connection(error)),
                        Ok(Err(reason)) => Err(reason),
                    };
                }
            }
            result = &mut listen => {
                result?;
                if !pumped {
                    // Everything is confirmed; only the close of our own direction is still under way.
                    let _ = timeout(CLOSE_WAIT_MAX, &mut pump).await;
                }
                return Ok(());
            }
            _ = ticks.tick() => tick(),
        }
    }
}

/// Writes the chunks and closes our direction. While a source has nothing, the receiver is told that we are there.
pub(super) async fn pump<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut chunks: mpsc::Receiver<Chunk>,
    spare: std::sync::mpsc::Sender<Vec<u8>>,
) -> std::io::Result<()> {
    writer.write_all(&Service::Files.preamble()).await?;
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
        // Without a taker the chunk's memory is simply freed.
        let _ = spare.send(chunk.bytes);
        if chunks.is_empty() {
            writer.flush().await?;
        }
    }
    writer.flush().await?;
    writer.shutdown().await
}

/// Reads answers until the summary.
async fn listen<R: AsyncRead + Unpin>(
    mut reader: R,
    answers: &mut Answers<'_>,
    received: &Received,
) -> Result<(), TransferError> {
    let silent = |_| TransferError::Silent { seconds: RECEIVER_SILENCE_MAX.as_secs() };
    timeout(RECEIVER_SILENCE_MAX, read_preamble(&mut reader, Service::Files)).await.map_err(silent)??;
    let (mut stored, mut failed) = (0_u32, 0_u32);
    let mut body = Vec::new();
    loop {
        let next = timeout(RECEIVER_SILENCE_MAX, read_frame(&mut reader, &mut body)).await.map_err(silent)??;
        let Some(frame_kind) = next else { return Err(TransferError::PeerClosed) };
        received.heard.now();
        match ToSender::decode(frame_kind, &body)? {
            ToSender::Verdict { index, outcome } => {
                *(if outcome.is_ok() { &mut stored } else { &mut failed }) += 1;
                answers.verdict(index, outcome)?;
            }
            ToSender::Progress(progress) => received.update(progress),
            ToSender::Summary { stored: theirs, failed: their_failed, progress } => {
                let complete = timeout(RECEIVER_SILENCE_MAX, answers.is_complete()).await.map_err(silent)?;
                if (theirs, their_failed) != (stored, failed) || !complete {
                    return Err(ProtocolError::Summary.into());
                }
                received.update(progress);
                return Ok(());
            }
            ToSender::Refused(failure) => return Err(TransferError::Refused(failure.sentence)),
        }
    }
}

/// Brings verdicts and entries together.
struct Answers<'a> {
    events: mpsc::Receiver<Event>,
    pending: BTreeMap<u32, Pending>,
    shared: &'a Shared,
    observer: &'a dyn Observer,
}

struct Pending {
    name: String,
    is_directory: bool,
    sent: Option<(u64, blake3::Hash)>,
    gave_up: Option<String>,
}

impl Answers<'_> {
    fn verdict(&mut self, index: u32, verdict: Result<Confirmed, Failure>) -> Result<(), TransferError> {
        let stray = ProtocolError::StrayVerdict { index };
        let is_answerable = |pending: &Pending| match &verdict {
            Ok(Confirmed::Stored) => pending.is_directory || pending.sent.is_some(),
            Ok(Confirmed::Unchanged) => pending.sent.is_some(),
            // Given up by us, which we noted before; the rest may come at any time.
            Err(failure) if failure.code == FailureCode::GivenUp => pending.gave_up.is_some(),
            Err(_) => true,
        };
        while !self.pending.get(&index).is_some_and(is_answerable) {
            let event = self.events.try_recv().map_err(|_| stray)?;
            self.note(event)?;
        }
        let pending = self.pending.remove(&index).ok_or(stray)?;
        let Pending { name, is_directory, sent, gave_up } = pending;
        let outcome = match verdict {
            Ok(confirmed) => {
                let (bytes, hash) = sent.map_or((0, None), |(bytes, hash)| (bytes, Some(hash)));
                let is_unchanged = confirmed == Confirmed::Unchanged;
                EntryOutcome { name, is_directory, is_unchanged, bytes, hash, failure: None }
            }
            Err(failure) => {
                self.shared.refuse(index);
                let sentence = gave_up.unwrap_or_else(|| printable(&failure.sentence));
                EntryOutcome { name, is_directory, failure: Some(sentence), ..EntryOutcome::default() }
            }
        };
        self.shared.count(&outcome);
        self.observer.entry(&outcome);
        Ok(())
    }

    fn note(&mut self, event: Event) -> Result<(), ProtocolError> {
        match event {
            Event::Entry { index, name, is_directory } => {
                if self.pending.len() >= UNANSWERED_MAX {
                    return Err(ProtocolError::Unanswered);
                }
                self.pending.insert(index, Pending { name, is_directory, sent: None, gave_up: None });
            }
            // An entry that is no longer there was refused before its end.
            Event::Sent { index, bytes, hash } => {
                if let Some(pending) = self.pending.get_mut(&index) {
                    pending.sent = Some((bytes, hash));
                }
            }
            Event::GaveUp { index, sentence } => {
                if let Some(pending) = self.pending.get_mut(&index) {
                    pending.gave_up = Some(sentence);
                }
            }
        }
        Ok(())
    }

    /// Whether everything that was sent has its verdict, and nothing more will be sent.
    async fn is_complete(&mut self) -> bool {
        // The producer may still be on its way out after its last frame; its leaving closes the channel.
        while let Some(event) = self.events.recv().await {
            if matches!(event, Event::Entry { .. }) {
                return false;
            }
        }
        self.pending.is_empty()
    }
}
