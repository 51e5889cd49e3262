//! Honest transfers: each sends its bytes, receives them back and compares the hashes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp::{Endpoint, Listener, Stream};
use dfcp_testkit::Pattern;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::relay::Relay;
use super::{Size, config, local};

/// Time limit of a transfer, only against hanging.
const TRANSFER_MAX: Duration = Duration::from_secs(120);

/// Results of the honest transfers.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections that opened.
    pub started: u64,
    /// Transfers whose bytes all returned unchanged.
    pub finished: u64,
    /// Attempts that failed to connect.
    pub connects_failed: u64,
    /// Errors of unfinished transfers; only the first few.
    pub errors: Vec<String>,
}

/// Successive transfers, several at a time, until stopped.
#[derive(Debug)]
pub struct Honest {
    tally: Arc<Mutex<Tally>>,
    stop: Arc<AtomicBool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Echoes all data on every connection.
pub async fn echo_server(listener: Listener) {
    while let Ok(stream) = listener.accept().await {
        tokio::spawn(async move {
            let (mut reader, mut writer) = stream.into_split();
            // A client that ends during the transfer reports it itself.
            if tokio::io::copy(&mut reader, &mut writer).await.is_ok() {
                let _gone = writer.shutdown().await;
            }
        });
    }
}

/// Sends `bytes` of a seed's pattern to an echo server and compares the returned bytes.
///
/// # Errors
/// Fails if the connection fails, or a byte differs.
pub async fn echo_through(stream: Stream, seed: u64, bytes: u64) -> Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let writing = tokio::spawn(async move {
        let (mut hasher, mut at, mut chunk) = (blake3::Hasher::new(), 0, vec![0; 32 << 10]);
        while at < bytes {
            let length = (bytes - at).min(chunk.len() as u64) as usize;
            Pattern(seed).fill(at, &mut chunk[..length]);
            hasher.update(&chunk[..length]);
            writer.write_all(&chunk[..length]).await?;
            at += length as u64;
        }
        writer.shutdown().await?;
        Ok::<_, std::io::Error>(hasher.finalize())
    });
    let (mut hasher, mut total, mut buffer) = (blake3::Hasher::new(), 0, vec![0; 32 << 10]);
    loop {
        let count = reader.read(&mut buffer).await.with_context(|| format!("after {total} bytes"))?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        total += count as u64;
    }
    let sent = writing.await??;
    ensure!(total == bytes, "{total} of {bytes} bytes came back");
    ensure!(hasher.finalize() == sent, "the hashes differ");
    Ok(())
}

impl Honest {
    /// Starts the transfers, through `relay`.
    pub(super) fn start(relay: &Relay, size: Size) -> Result<Self> {
        let (tally, stop) = (Arc::new(Mutex::new(Tally::default())), Arc::new(AtomicBool::new(false)));
        let tasks = (0..size.transfers)
            .map(|worker| {
                // One socket for all connections of a worker: connections in TIME_WAIT would otherwise keep theirs.
                let endpoint = Endpoint::bind(local(), None).context("a client's socket")?;
                let (tally, stop, address) = (Arc::clone(&tally), Arc::clone(&stop), relay.address());
                Ok(tokio::spawn(work(tally, stop, endpoint, address, worker, size)))
            })
            .collect::<Result<_>>()?;
        Ok(Self { tally, stop, tasks: Mutex::new(tasks) })
    }

    /// Results so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        lock(&self.tally).clone()
    }

    /// Waits until this number of transfers have finished.
    pub(super) async fn wait_for(&self, finished: u64) -> Result<()> {
        while self.tally().finished < finished {
            let errors = self.tally().errors;
            ensure!(errors.is_empty(), "an honest transfer failed without any attack: {errors:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Waits for the end of running transfers.
    pub(super) async fn stop(&self) -> Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            task.await?;
        }
        Ok(self.tally())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work(
    tally: Arc<Mutex<Tally>>,
    stop: Arc<AtomicBool>,
    endpoint: Endpoint,
    address: SocketAddr,
    worker: u64,
    size: Size,
) {
    let mut seed = size.seed.wrapping_mul(1_000).wrapping_add(worker << 32);
    while !stop.load(Ordering::Relaxed) {
        seed += 1;
        let stream = match endpoint.connect(address, config()).await {
            Ok(stream) => stream,
            Err(error) => {
                let mut tally = lock(&tally);
                tally.connects_failed += 1;
                drop(tally);
                tracing::debug!(%error, "an honest connection was not opened");
                continue;
            }
        };
        lock(&tally).started += 1;
        let done = tokio::time::timeout(TRANSFER_MAX, echo_through(stream, seed, size.transfer_bytes)).await;
        let mut tally = lock(&tally);
        match done {
            Ok(Ok(())) => tally.finished += 1,
            Ok(Err(error)) if tally.errors.len() < 5 => tally.errors.push(format!("seed {seed}: {error:#}")),
            Err(_) if tally.errors.len() < 5 => tally.errors.push(format!("seed {seed}: not done in time")),
            _ => {}
        }
    }
}
