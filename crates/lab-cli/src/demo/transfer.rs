//! Transfer of the file over one relay, generic over the transport.

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

/// Interval between checks of progress.
const TICK: Duration = Duration::from_millis(50);

/// Time limit for the receiver to read its last bytes after the sender's confirmation.
const LAST_BYTES_MAX: Duration = Duration::from_secs(5);

/// A transport of the demonstration. Both endpoints are kept until the end of the run, so that an early close cannot
/// affect it.
pub(super) trait Peer: Send + Sync {
    /// Receiving endpoint before the connection.
    type Server: Send + 'static;
    /// Receiving endpoint after the transfer.
    type Receiver: Send + 'static;
    /// Sending endpoint after the transfer was confirmed.
    type Sender: Send + 'static;

    /// Returns the transport.
    fn transport(&self) -> Transport;

    /// Binds the receiving endpoint to a free port, and returns the address.
    fn listen(&self, path: &Path) -> anyhow::Result<(SocketAddr, Self::Server)>;

    /// Accepts one connection and writes the received bytes to `sink`, up to their end.
    fn receive(
        server: Self::Server,
        sink: Sink,
    ) -> impl Future<Output = anyhow::Result<Self::Receiver>> + Send + 'static;

    /// Connects to `to` and sends `file`. Returns after the peer has confirmed all of it.
    fn send(
        &self,
        to: SocketAddr,
        path: &Path,
        file: &FilePath,
    ) -> impl Future<Output = anyhow::Result<Self::Sender>> + Send;

    /// Returns the wasted datagrams of a finished run; `None` if the transport does not count them.
    fn waste(_sender: &Self::Sender) -> Option<Waste> {
        None
    }

    /// Returns a remark on a finished run: a phrase that follows the transport's name in the notes below the table.
    fn remark(_sender: &Self::Sender) -> Option<String> {
        None
    }
}

/// Destination of received bytes: a file, and a counter of arrived bytes.
#[derive(Debug)]
pub(super) struct Sink {
    file: File,
    arrived_bytes: Arc<AtomicU64>,
}

impl Sink {
    /// Copies `reader` to the file, up to its end.
    pub(super) async fn fill(mut self, mut reader: impl AsyncRead + Unpin) -> anyhow::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read_bytes = reader.read(&mut chunk).await.context("cannot receive")?;
            if read_bytes == 0 {
                return Ok(());
            }
            // A blocking write is used on purpose: writing a few kB into the page cache is faster than handing them to
            // another thread.
            self.file.write_all(&chunk[..read_bytes]).context("cannot write what arrived")?;
            self.arrived_bytes.fetch_add(read_bytes as u64, Ordering::Relaxed);
        }
    }
}

/// Copies the whole file to `writer`, without shutting it down.
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

/// Sends `source` once over `path`, for at most `limit`. Failures of the transport are part of the result; an error
/// means a failure of this machine. `progress` is called with the number of arrived bytes.
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
        // A cut run counts the bytes at the time limit. Bytes that arrived later are verified, but not counted.
        arrived_bytes: if ending == Ending::Complete { arrived_bytes } else { at_end_bytes },
        elapsed_s: elapsed.as_secs_f64(),
        ending,
        hash_ok,
        waste,
        remark,
    })
}

/// Task of the receiver; aborted when dropped.
#[derive(Debug)]
struct Receiving<R>(JoinHandle<anyhow::Result<R>>);

impl<R> Receiving<R> {
    /// Waits until the receiver has read all bytes.
    async fn finish(&mut self) -> anyhow::Result<R> {
        let finished = tokio::time::timeout(LAST_BYTES_MAX, &mut self.0).await;
        finished
            .map_err(|_| anyhow!("all was confirmed, but the receiver did not get it within {LAST_BYTES_MAX:?}"))?
            .context("the receiver ended early")?
    }

    /// Aborts the task and waits for its end, so that it writes no more bytes.
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

/// Meter of the steady goodput: over the last three quarters of the time limit, without the start-up.
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

    /// Returns the goodput from a quarter of the limit until `elapsed`, bit/s.
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
