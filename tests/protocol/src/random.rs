//! Random paths and jobs: all effects of a network on a connection, drawn from one seed.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{Config, ConnectionError, Profile, Rate, Schedule, Traffic};
use dfcp_testkit::raw::{self, Header};
use dfcp_testkit::{Job, LinksConfig, Outcome, Packet, Trust, client_address};
use dfcp_time::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::Pair;

/// A run drawn from a seed.
#[derive(Debug)]
pub struct Scenario {
    /// The seed.
    pub seed: u64,
    /// Maximum length of a stream, bytes.
    bytes_max: u64,
    /// The profile of both ends.
    pub profile: Profile,
    path: LinksConfig,
    client: (Config, Job),
    server: (Config, Job),
    simultaneous: bool,
}

/// Time limit of a transfer. The worst case has blackouts, slow readers, and senders at `Line` whose bursts exceed a
/// queue of five packets at 60 % loss: in the end each block gets one symbol per round trip ([plan-5]).
const LIMIT: Duration = Duration::from_secs(4 * 3_600);

fn pick<T: Copy>(random: &mut Pcg64Mcg, choices: &[T]) -> T {
    choices[random.random_range(0..choices.len())]
}

fn link(random: &mut Pcg64Mcg, loss_max: f64) -> LinkConfig {
    let rate_bps = pick(random, &[1_000_000, 10_000_000, 100_000_000, 1_000_000_000]);
    let loss = match random.random_range(0..4) {
        0 => Loss::None,
        // The chain advances per packet, not per time: long bursts would swallow a minute of keep-alives.
        1 => Loss::bursts(random.random_range(0.01..0.3), random.random_range(1.5..4.0)).unwrap_or_default(),
        _ => Loss::bernoulli(random.random_range(0.0..loss_max)),
    };
    let mut link = LinkConfig::default()
        .with_rate_bps(rate_bps)
        .with_delay(Duration::from_micros(pick(random, &[0, 500, 5_000, 50_000, 250_000, 500_000])))
        .with_loss(loss)
        .with_queue(QueueLimit::packets(pick(random, &[5, 50, 500, 5_000])));
    if random.random_bool(0.3) {
        link = link.with_jitter(Duration::from_micros(random.random_range(0..30_000)));
    }
    if random.random_bool(0.3) {
        let delay = Duration::from_micros(random.random_range(10..40_000));
        link = link.with_reorder(random.random_range(0.0..0.3), delay);
    }
    if random.random_bool(0.3) {
        link = link.with_duplicate(random.random_range(0.0..0.3));
    }
    if random.random_bool(0.3) {
        link = link.with_corrupt(random.random_range(0.0..0.2));
    }
    if random.random_bool(0.2) {
        let start = Time::from_s(1) + Duration::from_millis(random.random_range(0..3_000));
        link = link.with_blackout(start, start + Duration::from_millis(random.random_range(1..10_000)));
    }
    link
}

fn job(random: &mut Pcg64Mcg, bytes_max: u64) -> Job {
    let send_bytes = match random.random_range(0..6) {
        0 => 0,
        1 => 1,
        2 => random.random_range(2..2_000),
        _ => random.random_range(2_000..bytes_max),
    };
    let slow_reader = random.random_bool(0.15);
    Job {
        write_bytes: pick(random, &[100, 1_420, 65_536, 262_144]).max(send_bytes as usize / 500),
        read_bytes: if slow_reader { (bytes_max / 100) as usize + 1 } else { usize::MAX },
        read_every: if slow_reader { Duration::from_millis(20) } else { Duration::ZERO },
        ..Job::send(send_bytes)
    }
}

fn config(random: &mut Pcg64Mcg, profile: Profile, rate_bps: u64) -> Config {
    let rate = Rate::Fixed { rate_bps: rate_bps / pick(random, &[1, 1, 2, 10]) };
    match profile {
        Profile::Modern => Config::danger_unsealed()
            .with_rate(if random.random_bool(0.1) { Rate::Line } else { rate })
            .with_traffic(pick(random, &[Traffic::Bulk, Traffic::Bulk, Traffic::LowLatency]))
            .with_window_blocks(pick(random, &[1, 2, 10, 4096]))
            .with_receive_memory_bytes(pick(random, &[dfcp_proto::limits::RECEIVE_MEMORY_BYTES_MIN, 4 << 20, 32 << 20]))
            .with_send_buffer_bytes(pick(random, &[20_000, 1 << 20, 32 << 20]))
            .with_symbol_size(pick(random, &[64, 500, 1412, 1420])),
        Profile::Classic => Config::danger_classic()
            .with_rate(rate)
            .with_schedule(pick(random, &[Schedule::Flood, Schedule::Flood, Schedule::OpenLoop { redundancy: 0.3 }]))
            .with_window_blocks(pick(random, &[1, 4, 128])),
    }
}

/// Longest stream, in windows: with some configurations each window takes several round trips of a second.
const WINDOWS_MAX: u64 = 2_000;

/// Lower bound of the bytes in flight that these configurations permit a sender.
fn window_bytes(sender: &Config, receiver: &Config) -> u64 {
    let buffers = sender.send_buffer_bytes.min(receiver.receive_memory_bytes);
    let symbols = u64::from(sender.symbol_size.min(receiver.symbol_size)) * 45;
    let blocks = u64::from(sender.blocks_in_window().min(receiver.blocks_in_window()));
    buffers.min(blocks * symbols.min(buffers / 4))
}

impl Scenario {
    /// Draws a scenario; streams have at most `bytes_max` bytes.
    #[must_use]
    pub fn draw(seed: u64, bytes_max: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let profile = if random.random_bool(0.75) { Profile::Modern } else { Profile::Classic };
        let loss_max = if random.random_bool(0.2) { 0.6 } else { 0.25 };
        let (forward, backward) = (link(&mut random, loss_max), link(&mut random, loss_max));
        let slowest = forward.rate_bps.unwrap_or(u64::MAX).min(backward.rate_bps.unwrap_or(u64::MAX));
        // A stream should take no more than some minutes of simulated time.
        let stream_bytes_max = bytes_max.min(slowest / 8 * 10).max(4_000);
        let mut client = (config(&mut random, profile, slowest), job(&mut random, stream_bytes_max));
        let mut server = (config(&mut random, profile, slowest), job(&mut random, stream_bytes_max));
        client.1.send_bytes = client.1.send_bytes.min(window_bytes(&client.0, &server.0) * WINDOWS_MAX);
        server.1.send_bytes = server.1.send_bytes.min(window_bytes(&server.0, &client.0) * WINDOWS_MAX);
        let interface_bps = pick(&mut random, &[slowest, 10_000_000_000]);
        let trust = pick(&mut random, &Trust::ALL);
        if profile == Profile::Modern {
            (client.0.security, server.0.security) = trust.security();
        }
        // An encrypted handshake needs a responder, and in a simultaneous opening both ends are initiators.
        let open = profile == Profile::Classic || trust == Trust::Unsealed;
        let simultaneous = random.random_bool(0.05) && open;
        Self {
            seed,
            bytes_max,
            profile,
            path: LinksConfig { forward, backward, interface_bps },
            client,
            server,
            simultaneous,
        }
    }

    /// True for the classic profile.
    #[must_use]
    pub fn is_classic(&self) -> bool {
        self.profile == Profile::Classic
    }

    /// Runs the scenario; with `log`, every datagram is printed.
    ///
    /// # Errors
    /// Fails if a byte is wrong, the run does not end, or a connection fails in an undocumented way. The error contains instructions for a
    /// replay.
    pub fn run(self, log: bool) -> Result<Option<Outcome>> {
        let replay = format!(
            "replay with: cargo run --release -p dfcp-protocol-tests --bin seeds -- --first {} --count 1 --bytes-max {} --verbose",
            self.seed, self.bytes_max
        );
        self.run_inner(log).with_context(|| replay)
    }

    fn run_inner(self, log: bool) -> Result<Option<Outcome>> {
        let config = self.server.0.clone();
        let mut pair = Pair::over(self.seed, self.path, self.client, self.server)?;
        if log {
            pair.tap = Box::new(|now, packet| {
                print(now, &packet);
                vec![packet]
            });
        }
        if self.simultaneous {
            pair.open_simultaneously(self.seed, config)?;
        }
        match pair.run(Time::from_s(1) + LIMIT) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error) => {
                ensure!(self.profile == Profile::Classic && documented(&error), error);
                Ok(None)
            }
        }
    }
}

/// Prints a line for a datagram sent by an end.
fn print(now: Time, packet: &Packet) {
    let Some(segment) = raw::read(&packet.bytes) else { return };
    let arrow = if packet.from == client_address() { "->" } else { "<-" };
    let Header { flags, block_id, s1, s2, s3, .. } = segment.header;
    let payload = segment.payload.len();
    let _closed_pipe_is_fine = writeln!(
        std::io::stdout(),
        "{now} {arrow} {flags:?} block {block_id} s1 {s1} s2 {s2} s3 {s3} payload {payload}"
    );
}

/// True for the documented timeout of classic, which gives up after five repeats of SYN, SYNACK or FIN (thesis §3.6, §3.11). The other end
/// then receives an RST, or nothing for the idle timeout.
fn documented(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<ConnectionError>()).any(|error| {
        matches!(
            error,
            ConnectionError::HandshakeTimeout { .. }
                | ConnectionError::CloseTimeout
                | ConnectionError::TimedOut
                | ConnectionError::Refused
                | ConnectionError::Reset
        )
    })
}
