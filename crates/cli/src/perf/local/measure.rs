//! One measurement: a loopback connection at full load.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use dfcp::{Cipher, Ciphers, Config, Credentials, Listener, PeerKey, Rate, Stream};
use dfcp_files::limits::REPORT_INTERVAL;
use dfcp_files::transport::{PathSample, Transport};
use dfcp_framing::limits::DATA_BYTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::limits::PERF_LOCAL_OVERTIME_MAX;
use crate::perf::Measured;
use crate::units::{human_bytes, human_rate};

/// Longest warm-up of a connection: time until both ends have their buffers and the rate is steady. The warm-up of a
/// short measurement is a quarter of its duration.
const LEAD_IN_MAX: Duration = Duration::from_millis(500);

/// Protection of the measured connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    /// An encrypted connection with this cipher.
    Sealed(Cipher),
    /// No encryption and no authentication.
    Plaintext,
}

/// Result of one measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    /// Protection of the connection.
    pub(super) protection: Protection,
    /// Number of the round, from 1.
    pub(super) round: u32,
    /// Bytes read by the receiving end, and the sender's statistics, both without warm-up and close.
    pub(super) measured: Measured,
    /// CPU time of this process without warm-up and close, user and system; `None` if unavailable.
    pub(super) cpu: Option<Duration>,
}

impl Figures {
    /// Returns the number of data datagrams sent.
    pub(super) fn data_datagrams(&self) -> u64 {
        self.measured.path.map_or(0, |path| path.data_datagrams.total())
    }

    /// Returns the number of data datagrams that are not source symbols.
    pub(super) fn repair_datagrams(&self) -> u64 {
        self.measured.path.map_or(0, |path| path.data_datagrams.total().saturating_sub(path.data_datagrams.source))
    }

    /// Returns the CPU time of both ends per data datagram, ns.
    pub(super) fn cpu_ns_per_datagram(&self) -> Option<f64> {
        let datagrams = self.data_datagrams();
        self.cpu.filter(|_| datagrams > 0).map(|cpu| cpu.as_secs_f64() * 1e9 / datagrams as f64)
    }

    /// Formats one text line.
    pub(super) fn describe(&self) -> String {
        let goodput = human_rate(self.measured.goodput_bps());
        let cpu =
            self.cpu_ns_per_datagram().map_or_else(String::new, |cpu_ns| format!("  CPU {cpu_ns:5.0} ns/datagram"));
        let repair = self.repair_datagrams() as f64 / self.data_datagrams().max(1) as f64;
        let bytes = human_bytes(self.measured.bytes);
        format!("{bytes:>7}  {goodput:>11}{cpu}  repair {:.1} %", 100.0 * repair)
    }
}

/// Returns the cipher that two ends with this configuration negotiate.
///
/// # Errors
/// Fails if no connection can be opened.
pub(super) async fn negotiated(ciphers: Ciphers) -> anyhow::Result<Cipher> {
    let (near, far) = timeout(PERF_LOCAL_OVERTIME_MAX, connect(Some(ciphers))).await.context(STALLED)??;
    let identity = near.identity().context("the connection to this machine is not encrypted as asked; report this")?;
    near.abort();
    far.abort();
    Ok(identity.cipher)
}

/// Sends for `duration` after a warm-up. `on_progress` receives the goodput so far, bit/s.
///
/// # Errors
/// Fails if the connection cannot be opened, breaks, stalls, or delivers other bytes than were sent.
pub(super) async fn measure(
    protection: Protection,
    round: u32,
    duration: Duration,
    on_progress: impl FnMut(f64),
) -> anyhow::Result<Figures> {
    let ciphers = match protection {
        Protection::Sealed(cipher) => Some(Ciphers::Only(cipher)),
        Protection::Plaintext => None,
    };
    let session = async {
        let (near, far) = connect(ciphers).await?;
        let cipher = near.identity().map(|identity| identity.cipher);
        let is_as_asked = cipher.map_or(Protection::Plaintext, Protection::Sealed) == protection;
        ensure!(is_as_asked, "the connection to this machine is not protected as asked; report this");
        transfer(near, far, duration, on_progress).await
    };
    let (begin, end) = timeout(duration + PERF_LOCAL_OVERTIME_MAX, session).await.context(STALLED)??;
    Ok(end.since(&begin, protection, round))
}

const STALLED: &str = "a connection of this machine to itself stalled; try again when it is less busy";

/// Connects two ends over loopback that know each other's keys; `None` means plaintext.
async fn connect(ciphers: Option<Ciphers>) -> anyhow::Result<(Stream, Stream)> {
    let (listening, connecting) = configs(ciphers)?;
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), listening)
        .context("cannot listen on 127.0.0.1, see whether this system has a loopback interface")?;
    let address = listener.local_addr()?;
    let connecting = async { Stream::connect(address, connecting).await.map_err(std::io::Error::from) };
    tokio::try_join!(connecting, listener.accept())
        .context("cannot connect to this machine itself, see whether a firewall guards 127.0.0.1")
}

/// Returns the configurations of the accepting and the opening end.
fn configs(ciphers: Option<Ciphers>) -> anyhow::Result<(Config, Config)> {
    let at_line_rate = |config: Config| config.with_rate(Rate::Line);
    let Some(ciphers) = ciphers else {
        return Ok((at_line_rate(Config::danger_unsealed()), at_line_rate(Config::danger_unsealed())));
    };
    let key = || dfcp::generate_key().context("the system gives no random bytes for a key");
    let (accepting, opening) = (key()?, key()?);
    let (far, near) = (accepting.public(), opening.public());
    let sealed = |own, peer| {
        at_line_rate(Config::sealed(Credentials {
            key: Some(own),
            pre_shared: None,
            peer: PeerKey::Known(peer),
            ciphers,
        }))
    };
    Ok((sealed(accepting, near), sealed(opening, far)))
}

/// Sends data from `near` to `far` and closes orderly. Returns the counters at the start and the end of the measured
/// time.
async fn transfer(
    mut near: Stream,
    far: Stream,
    duration: Duration,
    on_progress: impl FnMut(f64),
) -> anyhow::Result<(Moment, Moment)> {
    let arrived_bytes = Arc::new(AtomicU64::new(0));
    // The task ends if this future is dropped.
    let mut receiving = JoinSet::new();
    receiving.spawn(receive(far, Arc::clone(&arrived_bytes)));
    let broken = "the connection of this machine to itself broke, see DFCP_LOG=debug";
    let sent = send(&mut near, &arrived_bytes, duration, on_progress).await.context(broken)?;
    let far = receiving.join_next().await.context("nobody received; report this")?;
    let far = far.context("the receiving end did not finish; report this")?.context(broken)?;
    let arrived_bytes = arrived_bytes.load(Ordering::Relaxed);
    ensure!(
        arrived_bytes == sent.bytes,
        "{} bytes were sent and {arrived_bytes} arrived, which must not be; report this",
        sent.bytes
    );
    // Both ends are done: skip TIME_WAIT, whose sockets and buffers would outlive many measurements.
    near.abort();
    far.abort();
    Ok((sent.begin, sent.end))
}

/// Sender's counters at the start and the end of the measured time, and the number of bytes sent.
struct Sent {
    bytes: u64,
    begin: Moment,
    end: Moment,
}

async fn send(
    stream: &mut Stream,
    arrived_bytes: &AtomicU64,
    duration: Duration,
    mut on_progress: impl FnMut(f64),
) -> std::io::Result<Sent> {
    let chunk = vec![0x5a; DATA_BYTES_MAX];
    let mut bytes = 0;
    let begin = {
        let until = Instant::now() + LEAD_IN_MAX.min(duration / 4);
        loop {
            stream.write_all(&chunk).await?;
            bytes += chunk.len() as u64;
            if Instant::now() >= until {
                break Moment::now(stream, arrived_bytes);
            }
        }
    };
    let mut progress_due = begin.at + REPORT_INTERVAL;
    let end = loop {
        stream.write_all(&chunk).await?;
        bytes += chunk.len() as u64;
        let now = Instant::now();
        // On a slow machine, continue until at least one block has been sent and received.
        if now >= begin.at + duration {
            let end = Moment::now(stream, arrived_bytes);
            if end.arrived_bytes > begin.arrived_bytes
                && end.path.data_datagrams.source > begin.path.data_datagrams.source
            {
                break end;
            }
        }
        if now >= progress_due {
            progress_due = now + REPORT_INTERVAL;
            let came_bytes = arrived_bytes.load(Ordering::Relaxed) - begin.arrived_bytes;
            on_progress(8.0 * came_bytes as f64 / (now - begin.at).as_secs_f64());
        }
    };
    stream.shutdown().await?;
    Ok(Sent { bytes, begin, end })
}

async fn receive(mut stream: Stream, arrived_bytes: Arc<AtomicU64>) -> std::io::Result<Stream> {
    let mut buffer = vec![0; DATA_BYTES_MAX];
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            bytes => arrived_bytes.fetch_add(bytes as u64, Ordering::Relaxed),
        };
    }
    stream.shutdown().await?;
    Ok(stream)
}

/// Snapshot of all counters.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    cpu: Option<Duration>,
    arrived_bytes: u64,
    path: PathSample,
}

impl Moment {
    fn now(stream: &Stream, arrived_bytes: &AtomicU64) -> Self {
        Self {
            at: Instant::now(),
            cpu: process_cpu(),
            arrived_bytes: arrived_bytes.load(Ordering::Relaxed),
            path: stream.path_sample().unwrap_or_default(),
        }
    }

    fn since(&self, earlier: &Self, protection: Protection, round: u32) -> Figures {
        let measured = Measured {
            bytes: self.arrived_bytes - earlier.arrived_bytes,
            seconds: (self.at - earlier.at).as_secs_f64(),
            path: Some(self.path.since(&earlier.path)),
            ..Measured::default()
        };
        let cpu = self.cpu.zip(earlier.cpu).map(|(now, before)| now.saturating_sub(before));
        Figures { protection, round, measured, cpu }
    }
}

/// Returns the CPU time used by all threads of this process, user and system.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd"))]
fn process_cpu() -> Option<Duration> {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime)).ok()
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "freebsd")))]
const fn process_cpu() -> Option<Duration> {
    None
}
