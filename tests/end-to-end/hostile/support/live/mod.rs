//! A real listener on loopback with honest transfers during an attack, and measurements of the process.

mod attacker;
mod honest;
mod meter;
pub mod relay;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use dfcp::{Accept, Config, EndpointStats, Listener, PeerKey, Rate};
use dfcp_proto::limits;
use serde::Serialize;

pub use attacker::Attack;
pub use honest::{Honest, Tally, echo_server, echo_through};
pub use meter::{Logs, memory_kib, panics};

/// Maximum permitted growth of allocated memory during an attack. A connection may hold 1 MiB to send, three times 1
/// MiB received and 4 MiB of waiting datagrams; with four connections and both ends in this process that is 64 MiB.
/// Half-open connections are negligible in comparison.
pub const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Permitted growth per end of each honest connection, which stays in TIME_WAIT for a while: the library's limit per connection.
pub const GROWTH_KIB_PER_END: u64 = 80;

/// Maximum number of log lines, of levels shown by default, that a whole attack may cause.
pub const LOG_LINES_MAX: u64 = 10;

/// Time limit of a run, only against hanging.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Datagrams of the attack.
    pub datagrams: u64,
    /// Maximum number of datagrams per second.
    pub datagrams_per_s: u64,
    /// Bytes of each honest transfer, each way.
    pub transfer_bytes: u64,
    /// Honest transfers at a time.
    pub transfers: u64,
    /// Seed of the attack.
    pub seed: u64,
}

/// Result of an attack.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The attack's name.
    pub attack: &'static str,
    /// Datagrams sent by the attacker.
    pub datagrams: u64,
    /// Bytes of these datagrams.
    pub attack_bytes: u64,
    /// Source addresses of the datagrams.
    pub addresses: u64,
    /// Datagrams that the attacker received, as far as he read.
    pub answers: u64,
    /// Duration of the attack.
    pub seconds: f64,
    /// Allocated memory before the attack, MiB.
    pub memory_before_mib: f64,
    /// Peak of allocated memory during the attack, MiB.
    pub memory_peak_mib: f64,
    /// Peak number of half-open connections.
    pub half_open_max: usize,
    /// Peak size of a half-open connection, bytes.
    pub half_open_bytes_each_max: usize,
    /// Cookies requested by the server.
    pub cookies_sent: u64,
    /// First messages that the server processed with the curve.
    pub first_messages_computed: u64,
    /// Honest transfers that connected during the attack.
    pub transfers_started: u64,
    /// Transfers among these whose bytes all returned unchanged.
    pub transfers_finished: u64,
    /// Honest connections opened during the attack.
    pub opened_meanwhile: u64,
    /// Failed honest attempts to connect.
    pub connects_failed: u64,
    /// Log lines of level info and above.
    pub log_lines: u64,
    /// Panics anywhere in the process.
    pub panics: u64,
    /// Seed of the attack.
    pub seed: u64,
    /// Failed expectations; empty for a success.
    pub wrong: Vec<String>,
}

/// Peak values during the attack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    memory_kib: u64,
    half_open: usize,
    half_open_bytes_each: usize,
}

impl Peak {
    fn look(&mut self, stats: EndpointStats) {
        self.memory_kib = self.memory_kib.max(memory_kib());
        self.half_open = self.half_open.max(stats.half_open);
        let each = stats.half_open_bytes.checked_div(stats.half_open).unwrap_or_default();
        self.half_open_bytes_each = self.half_open_bytes_each.max(each);
    }
}

/// Configuration of servers and honest clients.
#[must_use]
pub fn config() -> Config {
    Config::sealed(PeerKey::Any)
        .with_rate(Rate::Fixed { rate_bps: 40_000_000 })
        .with_send_buffer_bytes(1 << 20)
        .with_receive_memory_bytes(1 << 20)
        .with_time_wait(Duration::from_secs(1))
}

/// An address of this machine, with a port chosen by the system.
#[must_use]
pub fn local() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Runs one attack against a new server.
///
/// # Errors
/// Fails if the machine lacks sockets or threads. The effect of the attack is in the row.
pub fn run(attack: Attack, size: Size, logs: &'static Logs) -> Result<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let row = runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, attack_one(attack, size, logs)).await.context("the attack did not end in time")?
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    row
}

async fn attack_one(attack: Attack, size: Size, logs: &'static Logs) -> Result<Row> {
    let listener = Listener::bind_with(local(), Accept::from(config()))?;
    let address = listener.local_addr()?;
    let endpoint = listener.endpoint().clone();
    let server = tokio::spawn(echo_server(listener));
    let relay = relay::Relay::start(address).await?;
    let honest = Arc::new(Honest::start(&relay, size)?);
    // Wait until transfers run at full speed and the relay has datagrams to copy.
    honest.wait_for(size.transfers).await?;
    let (log_lines, panics_before) = (logs.shown(), panics());
    let before = honest.tally();
    let mut peak = Peak::default();
    let memory_before_kib = memory_kib();
    let started = Instant::now();
    let computed_before = endpoint.stats().first_messages_computed;
    let captured = relay.captured();
    ensure!(captured.len() > 20, "only {} datagrams were captured", captured.len());
    let attacker = tokio::task::spawn_blocking(move || {
        let result = attacker::attack(attack, size, address, &captured, |_| peak.look(endpoint.stats()));
        (result, peak, endpoint.stats())
    });
    let (result, peak, stats) = attacker.await?;
    let sent = result?;
    let at_end = honest.tally();
    let seconds = started.elapsed().as_secs_f64();
    let tally = honest.stop().await?;
    let mut row = Row {
        attack: attack.name(),
        datagrams: sent.datagrams,
        attack_bytes: sent.bytes,
        addresses: sent.addresses,
        answers: sent.answers,
        seconds,
        memory_before_mib: memory_before_kib as f64 / 1024.0,
        memory_peak_mib: peak.memory_kib as f64 / 1024.0,
        half_open_max: peak.half_open,
        half_open_bytes_each_max: peak.half_open_bytes_each,
        cookies_sent: stats.cookies_sent,
        first_messages_computed: stats.first_messages_computed - computed_before,
        transfers_started: tally.started - before.finished,
        transfers_finished: tally.finished - before.finished,
        opened_meanwhile: at_end.started - before.started,
        connects_failed: tally.connects_failed - before.connects_failed,
        log_lines: logs.shown() - log_lines,
        panics: panics() - panics_before,
        seed: size.seed,
        wrong: tally.errors,
    };
    row.judge(attack, memory_before_kib, peak);
    server.abort();
    Ok(row)
}

impl Row {
    fn judge(&mut self, attack: Attack, memory_before_kib: u64, peak: Peak) {
        let (computed, computed_max) = (self.first_messages_computed, self.computed_max(attack));
        let mut wrong = |is_wrong: bool, sentence: String| {
            if is_wrong {
                self.wrong.push(sentence);
            }
        };
        let (started, finished) = (self.transfers_started, self.transfers_finished);
        wrong(started != finished, format!("{finished} of {started} honest transfers finished"));
        wrong(finished == 0, "no honest transfer finished".into());
        let failed = self.connects_failed;
        wrong(failed > 0 && !attack.may_deny_entry(), format!("{failed} honest connections were not opened"));
        let growth_kib = peak.memory_kib.saturating_sub(memory_before_kib);
        let growth_kib_max = GROWTH_KIB_MAX + 2 * GROWTH_KIB_PER_END * started;
        wrong(growth_kib > growth_kib_max, format!("memory grew by {growth_kib} KiB of {growth_kib_max}"));
        wrong(peak.half_open > 512, format!("{} connections were half open", peak.half_open));
        wrong(self.panics > 0, format!("{} panics", self.panics));
        wrong(computed > computed_max, format!("{computed} first messages of {computed_max} were computed on"));
        let lines = self.log_lines;
        wrong(lines > LOG_LINES_MAX, format!("{lines} log lines"));
    }

    /// Maximum permitted number of processed first messages: two per honest attempt, plus the unreadable ones that the
    /// server's limit permits for the elapsed time, which is no shorter by the server's clock than by ours.
    fn computed_max(&self, attack: Attack) -> u64 {
        if attack != Attack::UnreadableFirst {
            return u64::MAX;
        }
        let seconds = self.seconds.ceil() as u64;
        let without_cookie =
            u64::from(limits::FIRST_MESSAGES_FAILED_MAX) * (2 + seconds / limits::COOKIE_STEP.as_secs());
        let with_cookie =
            u64::from(limits::FIRST_MESSAGES_FAILED_BURST + limits::FIRST_MESSAGES_FAILED_PER_S * seconds as u32);
        // Some honest attempts end after the attack.
        let honest = self.transfers_started + self.connects_failed;
        2 * honest + without_cookie + with_cookie
    }

    /// True if every expectation was met.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.wrong.is_empty()
    }
}
