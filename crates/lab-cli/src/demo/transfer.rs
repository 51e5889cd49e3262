//! One transfer of the file over one relay, by any transport.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path as FilePath;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::path::{Path, Wire};
use super::result::{Ending, RunResult, Transport};
use super::source::{CHUNK_BYTES, Source};
use super::waste::Waste;

/// Period at which progress is checked.
const TICK: Duration = Duration::from_millis(50);

/// Time for the receiver's last bytes once the sender has all confirmed.
const LAST_BYTES_MAX: Duration = Duration::from_secs(5);

/// A transport under test. Its ends stay alive until the run is over, whatever closing one early would do.
pub(super) trait Peer: Send + Sync {
    /// The receiving end before anyone connects.
    type Server: Send + 'static;
    /// The receiving end after the last byte.
    type Receiver: Send + 'static;
    /// The sending end after the last confirmation.
    type Sender: Send + 'static;

    /// Transport that this peer tests.
    fn transport(&self) -> Transport;

    /// Binds the receiving end to a free port.
    fn listen(&self, path: &Path) -> anyhow::Result<(SocketAddr, Self::Server)>;

    /// Accepts one connection and takes all that comes.
    fn receive(
        server: Self::Server,
        sink: Sink,
    ) -> impl Future<Output = anyhow::Result<Self::Receiver>> + Send + 'static;

    /// Connects to `to`, sends `file` and returns when the other end has confirmed all of it.
    fn send(
        &self,
        to: SocketAddr,
        path: &Path,
        file: &FilePath,
    ) -> impl Future<Output = anyhow::Result<Self::Sender>> + Send;

    /// Datagrams that a finished run sent in vain, where the transport knows.
    fn waste(_sender: &Self::Sender) -> Option<Waste> {
        None
    }

    /// Remark on a finished run beyond the figures, as a phrase.
    fn remark(_sender: &Self::Sender) -> Option<String> {
        None
    }
}

/// Destination of arriving bytes: a file, counted.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    arrived_bytes: Arc<AtomicU64>,
}

impl Sink {
    /// Writes all that comes from `reader` until its end.
    pub(super) async fn fill(mut self, mut reader: impl AsyncRead + Unpin) -> anyhow::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read_bytes = reader.read(&mut chunk).await.context("cannot receive")?;
            if read_bytes == 0 {
                return Ok(());
            }
            // Into the system's cache, a few kB at a time: shorter than handing it to another thread.
            self.file.write_all(&chunk[..read_bytes]).context("cannot write what arrived")?;
            self.arrived_bytes.fetch_add(read_bytes as u64, Ordering::Relaxed);
        }
    }
}

/// Sends all of the file to `writer`; does not shut it down.
pub(super) async fn feed(file: &FilePath, mut writer: impl AsyncWrite + Unpin) -> anyhow::Result<()> {
    let mut from =
        tokio::fs::File::open(file).await.with_context(|| format!("cannot open {} to send it", file.display()))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read_bytes = from.read(&mut chunk).await.with_context(|| format!("cannot read {}", file.display()))?;
        if read_bytes == 0 {
            return Ok(());
        }
        writer.write_all(&chunk[..read_bytes]).await.context("cannot send")?;
    }
}

/// Sends `source` once by `peer` over `path`, or as much as gets through until `limit`. What goes wrong within the
/// transport is a result; errors are those of this machine. `progress` is told how many bytes have arrived.
pub(super) async fn transfer<P: Peer>(
    peer: &P,
    path: &Path,
    source: &Source,
    limit: Duration,
    mut progress: impl FnMut(u64),
) -> anyhow::Result<RunResult> {
    let dir = source.path.parent().unwrap_or_else(|| FilePath::new("."));
    let mut copy = tempfile::tempfile_in(dir).context("cannot make a file for what arrives")?;
    let arrived_bytes = Arc::new(AtomicU64::new(0));
    let sink = Sink {
        file: copy.try_clone().context("cannot make a file for what arrives")?,
        arrived_bytes: Arc::clone(&arrived_bytes),
    };
    let (server_addr, server) = peer.listen(path)?;
    let relay = path.relay(server_addr).await?;
    let mut receiving = Receiving(tokio::spawn(P::receive(server, sink)));

    let started = Instant::now();
    let mut sending = pin!(peer.send(relay.local_addr(), path, &source.path));
    let mut tick = tokio::time::interval(TICK);
    let mut steady = Steady::new(limit);
    let sent = loop {
        tokio::select! {
            sent = &mut sending => break Some(sent),
            _ = tick.tick() => {}
        }
        let arrived_bytes = arrived_bytes.load(Ordering::Relaxed);
        progress(arrived_bytes);
        steady.look(started.elapsed(), arrived_bytes);
        if started.elapsed() >= limit {
            break None;
        }
    };
    let elapsed = started.elapsed();
    let wire = Wire::new(&relay.stats().forward);
    let at_end_bytes = arrived_bytes.load(Ordering::Relaxed);

    let (ending, waste, remark) = match sent {
        None => (Ending::Cut { steady_bps: steady.rate_bps(elapsed, at_end_bytes) }, None, None),
        Some(Err(error)) => (Ending::Failed { reason: format!("{error:#}") }, None, None),
        Some(Ok(sender)) => match receiving.finish().await {
            Ok(receiver) => {
                drop(receiver);
                (Ending::Complete, P::waste(&sender), P::remark(&sender))
            }
            Err(error) => (Ending::Failed { reason: format!("{error:#}") }, None, None),
        },
    };
    receiving.stop().await;
    let arrived_bytes = arrived_bytes.load(Ordering::Relaxed);
    let source_bytes = source.bytes;
    let source = source.clone();
    let hash_ok = tokio::task::spawn_blocking(move || source.verify(&mut copy, arrived_bytes))
        .await
        .context("the check of what arrived ended early")??;
    Ok(RunResult {
        transport: peer.transport(),
        path: *path,
        wire,
        file_bytes: source_bytes,
        // A cut run's figures are those of the cut; what trickled in while it ended is only checked.
        arrived_bytes: if ending == Ending::Complete { arrived_bytes } else { at_end_bytes },
        elapsed_s: elapsed.as_secs_f64(),
        ending,
        hash_ok,
        waste,
        remark,
    })
}

/// The receiver's task; dropping this ends it.
#[derive(Debug)]
struct Receiving<R>(JoinHandle<anyhow::Result<R>>);

impl<R> Receiving<R> {
    /// Waits for the last byte.
    async fn finish(&mut self) -> anyhow::Result<R> {
        let finished = tokio::time::timeout(LAST_BYTES_MAX, &mut self.0).await;
        finished
            .map_err(|_| anyhow!("all was confirmed, but the receiver did not get it within {LAST_BYTES_MAX:?}"))?
            .context("the receiver ended early")?
    }

    /// Ends the task, so that nothing is written any more.
    async fn stop(&mut self) {
        if !self.0.is_finished() {
            self.0.abort();
            while !self.0.is_finished() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

impl<R> Drop for Receiving<R> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Measures the goodput of the last three quarters of a run, so that starting up does not count.
#[derive(Debug)]
struct Steady {
    from: Duration,
    start: Option<(Duration, u64)>,
}

impl Steady {
    fn new(limit: Duration) -> Self {
        Self { from: limit / 4, start: None }
    }

    fn look(&mut self, elapsed: Duration, arrived_bytes: u64) {
        if self.start.is_none() && elapsed >= self.from {
            self.start = Some((elapsed, arrived_bytes));
        }
    }

    /// Bits per second between a quarter of the limit and now.
    fn rate_bps(&self, elapsed: Duration, arrived_bytes: u64) -> f64 {
        let (start, start_bytes) = self.start.unwrap_or_default();
        let seconds = elapsed.saturating_sub(start).as_secs_f64();
        if seconds > 0.0 { 8.0 * arrived_bytes.saturating_sub(start_bytes) as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starting_up_does_not_count() {
        let s = Duration::from_secs;
        let mut steady = Steady::new(s(8));
        for (at, arrived_bytes) in [(1, 10), (2, 1000), (5, 4000)] {
            steady.look(s(at), arrived_bytes);
        }
        assert_eq!(steady.rate_bps(s(8), 7000), 8000.0);
        assert_eq!(Steady::new(s(8)).rate_bps(s(0), 0), 0.0);
    }
}
