//! Receiving side of a session: the network tasks and the disk thread.

pub(super) mod streams;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dfcp_framing::error::{Failure, FailureCode};
use dfcp_framing::files::{Progress, ToSender};
use dfcp_framing::frame::Service;
use dfcp_framing::limits::DATA_BYTES_MAX;
use tokio::io::{AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::streams::{Heard, Inlet, Spares};
use super::assembler::{Assembler, Poke};
use super::basis::Alive;
use super::error::TransferError;
use super::last_heard::LastHeard;
use super::owner::Owner;
use super::scope::Scope;
use super::skipped::SKIPPED_AFTER_FAILURE;
use super::target::Target;
use super::{Bottleneck, Observer, Report, Snapshot};
use crate::limits::{
    BATCH_AGE_MAX, BATCH_WAIT, CHUNKS_WAITING_MAX, CLOSE_WAIT_MAX, OPEN_DIRECTORIES_MAX, REPORT_INTERVAL,
    SENDER_SILENCE_MAX, VERDICTS_WAITING_MAX,
};
use crate::transport::{Handle, Transport};

/// Receives one sender's files into a target, within a scope, answers each of them, and closes the connection.
/// `service` states which side has called. If `stop` completes first, the receiver stops and notifies the sender.
///
/// # Errors
/// Fails if the session breaks. Files with an observed outcome stay stored; the file in progress is removed, or kept
/// for resumption by its sender. Fails with [`TransferError::Refused`] if a listening sender does not serve this side.
pub(crate) async fn receive_within<T: Transport>(
    transport: T,
    service: Service,
    (target, scope): (impl Into<Target>, Arc<Scope>),
    observer: Arc<dyn Observer>,
    stop: impl Future<Output = ()> + Send,
) -> Result<Report, TransferError> {
    let started = Instant::now();
    let handle = Handle::new(transport);
    let owner = Owner::of(handle.seal().as_ref());
    let target = target.into();
    let counters = Arc::new(Counters::new(started));
    // The sender may open streams as soon as it has this side's preamble, so accept them before the preamble is sent.
    let beside = handle.streams();
    let (frames_in, frames_out) = mpsc::channel(CHUNKS_WAITING_MAX);
    let (answers_in, answers_out) = mpsc::channel(VERDICTS_WAITING_MAX);
    let inlet = Inlet {
        frames: frames_in,
        spares: Arc::new(Spares::default()),
        open_directories: Arc::new(Semaphore::new(OPEN_DIRECTORIES_MAX)),
        counters: Arc::clone(&counters),
    };
    let over;
    let disk = tokio::task::spawn_blocking({
        let worker = DiskWorker {
            counters: Arc::clone(&counters),
            observer: Arc::clone(&observer),
            spares: Arc::clone(&inlet.spares),
            open_directories: Arc::clone(&inlet.open_directories),
        };
        let pokes = inlet.frames.downgrade();
        let poke: Poke = Arc::new(move |ready| {
            // After the end of the session, results are dropped.
            if let Some(frames) = pokes.upgrade() {
                let _ = frames.blocking_send(Heard::Ready(ready));
            }
        });
        let assembler = Assembler::new(target, owner, poke).within(scope);
        counters.waits_for(assembler.cutting());
        over = assembler.over();
        move || worker.run(assembler, frames_out, &answers_in)
    });
    // Stops the worker threads even if the session's task is dropped.
    let _over = over.on_drop();
    let snapshot = || snapshot(&handle, &counters, started.elapsed());
    let (heard, said) = {
        let reader = BufReader::with_capacity(DATA_BYTES_MAX, handle.clone());
        let hear = async {
            let heard = tokio::select! {
                heard = streams::hear(reader, service, beside, inlet) => heard,
                silent = streams::watch_silence(&counters) => Err(silent),
                () = stop => Err(TransferError::Stopped),
            };
            heard.inspect_err(|_| over.set())
        };
        let say = async {
            let said = say(handle.clone(), service, answers_out, &counters, || observer.progress(&snapshot())).await;
            // The loss of a sender may be noticed here while its earlier frames are still being processed.
            said.inspect_err(|_| over.set())
        };
        converse(hear, say).await
    };
    let outcome = disk.await.map_err(|_| TransferError::DiskThread)?;
    // Possible causes of the end: the assembler refused a frame, or the reading or writing half of the connection
    // failed.
    let refusal = match (outcome, heard) {
        (Ok(report), Ok(())) => {
            // Take the final statistics here, so that they do not include the time for closing.
            let last = snapshot();
            close(handle.clone(), None).await;
            return Ok(Report { last, ..report });
        }
        (Err(refused @ (TransferError::Protocol(_) | TransferError::Flush(_) | TransferError::NotRecorded)), _) => {
            refused
        }
        (_, Err(broken)) => broken,
        (Err(incomplete), Ok(())) => said.err().map_or(incomplete, TransferError::Connection),
    };
    if !matches!(refusal, TransferError::Connection(_)) {
        // A sender that has itself refused the session needs no reason.
        close(handle.clone(), Some(&refusal).filter(|it| !matches!(it, TransferError::Refused(_)))).await;
    }
    Err(refusal)
}

/// Tells a peer why the session cannot be served, then closes the connection.
pub async fn refuse<T: Transport>(mut transport: T, service: Service, failure: Failure) {
    let mut bytes = service.preamble().to_vec();
    ToSender::Refused(failure).encode(&mut bytes);
    let farewell = async {
        transport.write_all(&bytes).await?;
        transport.shutdown().await
    };
    // An error means that the peer is gone, so it is ignored.
    let _ = timeout(CLOSE_WAIT_MAX, farewell).await;
}

#[derive(Debug)]
pub(super) struct Counters {
    received_bytes: AtomicU64,
    disk_us: AtomicU64,
    heard: LastHeard,
    /// Frames read but not processed yet. While there are any, silence is not the sender's fault.
    in_hand: AtomicUsize,
    /// Counter of threads that read older versions. The sender waits for them, so silence is not its fault meanwhile.
    cutting: OnceLock<Alive>,
}

impl Counters {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            received_bytes: AtomicU64::new(0),
            disk_us: AtomicU64::new(0),
            heard: LastHeard::new(now),
            in_hand: AtomicUsize::new(0),
            cutting: OnceLock::new(),
        }
    }

    /// Sets the counter of threads for which the sender waits.
    pub(super) fn waits_for(&self, cutting: Alive) {
        self.cutting.get_or_init(|| cutting);
    }

    /// Returns true if the sender may be waiting for this side.
    pub(super) fn has_work(&self) -> bool {
        self.in_hand.load(Ordering::Relaxed) > 0 || self.cutting.get().is_some_and(|cutting| cutting.count() > 0)
    }

    /// Counts a frame as processed.
    pub(super) fn handled(&self) {
        self.in_hand.fetch_sub(1, Ordering::Relaxed);
    }

    fn progress(&self) -> Progress {
        Progress {
            received_bytes: self.received_bytes.load(Ordering::Relaxed),
            disk_us: self.disk_us.load(Ordering::Relaxed),
        }
    }
}

fn snapshot<T: Transport>(handle: &Handle<T>, counters: &Counters, elapsed: Duration) -> Snapshot {
    let Progress { received_bytes, disk_us } = counters.progress();
    Snapshot {
        done_bytes: received_bytes,
        total_bytes: None,
        total_is_final: false,
        elapsed,
        path: handle.path_sample(),
        bottleneck: Some(Bottleneck::of(elapsed, Duration::ZERO, Duration::from_micros(disk_us))),
        silence: counters.heard.silence(),
        unheard: counters.heard.unheard(handle.datagrams_heard()),
    }
}

/// Blocking half of a receiver, which does all disk access.
struct DiskWorker {
    counters: Arc<Counters>,
    observer: Arc<dyn Observer>,
    spares: Arc<Spares>,
    open_directories: Arc<Semaphore>,
}

impl DiskWorker {
    /// Processes frames until all streams have ended, an error occurs, or the channel closes. Dropping the assembler
    /// then leaves partial files for the sender's next session, or removes them.
    fn run(
        self,
        mut assembler: Assembler,
        mut frames: mpsc::Receiver<Heard>,
        answers: &mpsc::Sender<ToSender>,
    ) -> Result<Report, TransferError> {
        let mut report = Report::default();
        let served = self.serve(&mut assembler, &mut report, &mut frames, answers);
        if served.is_err() {
            // Store the complete files even if the session has failed.
            assembler.publish()?;
            // The original error is returned, even if these answers no longer reach the sender.
            let _ = self.tell(&mut assembler, &mut report, answers);
        }
        served.map(|()| report)
    }

    fn serve(
        &self,
        assembler: &mut Assembler,
        report: &mut Report,
        frames: &mut mpsc::Receiver<Heard>,
        answers: &mpsc::Sender<ToSender>,
    ) -> Result<(), TransferError> {
        let mut waits_since = None;
        assembler.greet();
        // A failure to send is ignored: a sender that has stopped reading may have sent complete files, which are to be
        // stored.
        let _ = self.tell(assembler, report, answers);
        loop {
            let next = Self::next(frames, waits_since)?;
            let started = std::time::Instant::now();
            let handled = match &next {
                Some(Heard::Frame(stream, frame)) => assembler.handle(*stream, frame),
                Some(Heard::Ready(ready)) => assembler.ready(*ready),
                Some(Heard::AllEnded) => assembler.finish(),
                Some(Heard::FirstEnded) => assembler.finish_first_stream(),
                None => assembler.publish(),
            };
            let spent_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.counters.disk_us.fetch_add(spent_us, Ordering::Relaxed);
            self.open_directories.add_permits(assembler.take_closed_directories());
            self.tell(assembler, report, answers)?;
            handled?;
            while self.sweep(assembler)? {
                self.tell(assembler, report, answers)?;
            }
            assembler.checkpoint(std::time::Instant::now());
            waits_since = assembler.is_waiting().then(|| waits_since.unwrap_or(started));
            match next {
                Some(Heard::AllEnded) if !assembler.awaits_more() => return Ok(()),
                Some(Heard::FirstEnded) => {
                    report.deletion_skipped = assembler.skips_deletion().then_some(SKIPPED_AFTER_FAILURE);
                    return Ok(());
                }
                Some(Heard::Frame(_, frame)) => {
                    self.counters.handled();
                    self.spares.give(frame);
                }
                Some(Heard::AllEnded | Heard::Ready(_)) | None => {}
            }
        }
    }

    /// Deletes a limited number of entries that the sender does not have. Returns true if more must be deleted.
    fn sweep(&self, assembler: &mut Assembler) -> Result<bool, TransferError> {
        let started = std::time::Instant::now();
        let has_more = assembler.sweep_some();
        let spent_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.disk_us.fetch_add(spent_us, Ordering::Relaxed);
        has_more
    }

    /// Returns the next event. `None` if complete files have waited long enough for their flush.
    fn next(
        frames: &mut mpsc::Receiver<Heard>,
        waits_since: Option<std::time::Instant>,
    ) -> Result<Option<Heard>, TransferError> {
        let Some(since) = waits_since else {
            return frames.blocking_recv().map(Some).ok_or(TransferError::PeerClosed);
        };
        if since.elapsed() >= BATCH_AGE_MAX {
            return Ok(None);
        }
        // Try without waiting first: a wait with timeout needs the runtime, which costs more than storing a small file.
        if let Ok(heard) = frames.try_recv() {
            return Ok(Some(heard));
        }
        match tokio::runtime::Handle::current().block_on(async { timeout(BATCH_WAIT, frames.recv()).await }) {
            Ok(heard) => heard.map(Some).ok_or(TransferError::PeerClosed),
            Err(_) => Ok(None),
        }
    }

    /// Reports outcomes to the observer, then sends the answers to the sender.
    fn tell(
        &self,
        assembler: &mut Assembler,
        report: &mut Report,
        answers: &mpsc::Sender<ToSender>,
    ) -> Result<(), TransferError> {
        for outcome in assembler.take_outcomes() {
            report.add(&outcome);
            self.observer.entry(&outcome);
        }
        for (name, what) in assembler.take_skips() {
            report.skip(what);
            self.observer.skipped(&name, what);
        }
        if !self.observer.is_recorded() {
            return Err(TransferError::NotRecorded);
        }
        for mut answer in assembler.take_answers() {
            if let ToSender::Summary { progress, .. } = &mut answer {
                *progress = self.counters.progress();
            }
            answers.blocking_send(answer).map_err(|_| TransferError::PeerClosed)?;
        }
        Ok(())
    }
}

/// Runs reading and writing at the same time. The writing half ends with the disk thread. If the reading half fails, it
/// drops its channel to the disk thread, which ends then. If the writing half fails, the reading half ends likewise.
async fn converse(
    hear: impl Future<Output = Result<(), TransferError>>,
    say: impl Future<Output = std::io::Result<()>>,
) -> (Result<(), TransferError>, std::io::Result<()>) {
    tokio::pin!(hear, say);
    tokio::select! {
        heard = &mut hear => {
            let said = match heard {
                Ok(()) => say.await,
                // Answers given so far may still reach the sender, even if it has violated the protocol.
                Err(_) => timeout(CLOSE_WAIT_MAX, say).await.unwrap_or_else(|late| Err(late.into())),
            };
            (heard, said)
        }
        // Once the last answer is written, no further frames are read.
        said = &mut say => match said {
            Ok(()) => (Ok(()), Ok(())),
            Err(error) => match timeout(CLOSE_WAIT_MAX, hear).await {
                // The reason given by the sender is preferred to the error of the connection.
                Ok(Err(reason)) if !matches!(reason, TransferError::PeerClosed | TransferError::Connection(_)) => {
                    (Err(reason), Ok(()))
                }
                _ => (Err(TransferError::Connection(error)), Ok(())),
            },
        },
    }
}

/// Writes answers as they arrive, and periodic progress reports, until the disk thread ends.
async fn say<W: AsyncWrite + Unpin>(
    mut writer: W,
    service: Service,
    mut answers: mpsc::Receiver<ToSender>,
    counters: &Counters,
    tick: impl Fn(),
) -> std::io::Result<()> {
    let mut bytes = service.preamble().to_vec();
    let mut ticks = interval(REPORT_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        // The timeout keeps a sender that never reads its answers from holding the session for ever.
        timeout(SENDER_SILENCE_MAX, writer.write_all(&bytes)).await??;
        timeout(SENDER_SILENCE_MAX, writer.flush()).await??;
        bytes.clear();
        tokio::select! {
            answer = answers.recv() => {
                let Some(answer) = answer else { return Ok(()) };
                answer.encode(&mut bytes);
                // Combine all waiting answers into one write, which saves calls with many small files.
                while bytes.len() < DATA_BYTES_MAX && let Ok(more) = answers.try_recv() {
                    more.encode(&mut bytes);
                }
            }
            _ = ticks.tick() => {
                tick();
                ToSender::Progress(counters.progress()).encode(&mut bytes);
            }
        }
    }
}

/// Sends the reason of an early end, if any, and closes this direction. Errors are ignored: the sender has either
/// received its answers or is gone.
async fn close<W: AsyncWrite + Unpin>(mut writer: W, refusal: Option<&TransferError>) {
    let farewell = async {
        if let Some(refusal) = refusal {
            let mut bytes = Vec::new();
            let code = match refusal {
                TransferError::Stopped | TransferError::NotRecorded => FailureCode::Stopped,
                _ => FailureCode::Protocol,
            };
            ToSender::Refused(Failure::new(code, refusal.to_string())).encode(&mut bytes);
            writer.write_all(&bytes).await?;
        }
        writer.shutdown().await
    };
    if !matches!(timeout(CLOSE_WAIT_MAX, farewell).await, Ok(Ok(()))) {
        tracing::debug!("the connection was not closed in order");
    }
}
