//! The loss × RTT table: goodput of the modern profile as a share of the path's ceiling, in steady bulk state.

use std::time::Duration;

use anyhow::{Context, Result};
use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_proto::{Config, Rate, limits};
use dfcp_testkit::{Job, LinksConfig, sealed};
use dfcp_time::Time;
use serde::Serialize;

use crate::Pair;

/// Application bytes in a full IP packet (IPv4), and bytes of the packet, for the design's ceiling. An encrypted packet has 4 bytes more,
/// the proof of decoding, which count as a loss of 0.27 %.
const SYMBOL_BYTES: f64 = 1420.0;
const SEALED_PACKET_BYTES: f64 = 1488.0;
const UNSEALED_PACKET_BYTES: f64 = 1476.0;

/// Round trips for averaging. In-order delivery occurs in bursts over several round trips when blocks need several rounds, so each end of
/// the measurement is the mean of [`SAMPLES`] readings over this time.
const BURST_RTTS: u64 = 8;
const SAMPLES: u64 = 64;

/// Reading at an end of the measurement: bytes read, useful and distinct symbols, lost and delivered datagrams.
struct Counters {
    at: Time,
    means: [f64; 5],
}

/// One cell of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Loss probability in each direction.
    pub loss: f64,
    /// Round-trip time without queues, milliseconds.
    pub rtt_ms: u64,
    /// Rate of the bottleneck and of the sender, bits of IP packets per second.
    pub rate_bps: u64,
    /// Seed of losses and contents.
    pub seed: u64,
    /// Shortens warm-up and measurement, for the snapshot in CI.
    pub quick: bool,
    /// True for an unencrypted connection.
    pub unsealed: bool,
}

/// Result of a cell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Configured loss, per cent.
    pub loss_percent: f64,
    /// Round-trip time, milliseconds.
    pub rtt_ms: u64,
    /// Bottleneck, Mbit/s.
    pub rate_mbit: u64,
    /// Real loss in the direction of data during the measurement, per cent.
    pub loss_real_percent: f64,
    /// Goodput: application bytes decoded (source bytes, each counted once), Mbit/s. They are read in order a little later; counting
    /// decoded bytes avoids effects of bursts at the ends of the measurement.
    pub goodput_mbit: f64,
    /// Goodput as a share of the path's ceiling C·(1−p)·1420/1488, or C·(1−p)·1420/1476 unencrypted, per cent; p is
    /// [`loss_real_percent`](Self::loss_real_percent).
    pub ceiling_percent: f64,
    /// Bytes read in order by the application during the measurement, as a share of the same ceiling. In a long run it equals the goodput;
    /// in a short one the ends of the measurement are visible.
    pub read_percent: f64,
    /// Symbols useful to the decoder as a share of the distinct data datagrams that arrived, per cent.
    pub useful_percent: f64,
    /// Seconds measured.
    pub measured_s: f64,
}

impl Cell {
    /// Time until the steady state: the circuit breaker has tested a lossy path, and the window is full.
    fn warm_up(self) -> Duration {
        let rtt = Duration::from_millis(self.rtt_ms);
        if self.loss > 0.15 {
            Duration::from_millis(7_000) + rtt * 12
        } else {
            Duration::from_millis(if self.quick { 300 } else { 1_000 }) + rtt * 8 + self.growth()
        }
    }

    /// Time of a window's growth from its start to a raised limit: it doubles after half of it has been read.
    fn growth(self) -> Duration {
        let doublings = self.cap_bytes().div_ceil(limits::MEMORY_BYTES_DEFAULT).ilog2();
        Duration::from_millis(self.rtt_ms) * 4 * doublings
    }

    /// Limit of the window: 8 C·RTT covers the rounds of the slowest of many blocks. Up to 100 Mbit/s the default suffices.
    fn cap_bytes(self) -> u64 {
        (8 * (self.rate_bps / 8 * self.rtt_ms / 1_000)).max(limits::MEMORY_BYTES_DEFAULT)
    }

    /// Time from the middle of the first averaging interval to the middle of the second.
    fn measured(self) -> Duration {
        let rtt = Duration::from_millis(self.rtt_ms);
        if self.quick { Duration::from_millis(1_000) + rtt * 10 } else { Duration::from_millis(10_000) + rtt * 40 }
    }

    /// Runs the cell.
    ///
    /// # Errors
    /// Fails if the configuration is invalid or the connection ends.
    pub fn run(self) -> Result<Row> {
        let one_way = Duration::from_micros(self.rtt_ms * 500);
        let link = LinkConfig::default()
            .with_rate_bps(self.rate_bps)
            .with_delay(one_way)
            .with_loss(Loss::bernoulli(self.loss))
            .with_held_bytes_max(2 << 30)
            .with_queue(QueueLimit::packets(1_000));
        let path = LinksConfig { forward: link.clone(), backward: link, interface_bps: 10_000_000_000 };
        let cap_bytes = self.cap_bytes();
        let config = if self.unsealed { Config::danger_unsealed() } else { sealed() };
        let config = config
            .with_rate(Rate::Fixed { rate_bps: self.rate_bps })
            .with_send_buffer_bytes(cap_bytes)
            .with_receive_memory_bytes(cap_bytes);
        let mut pair = Pair::over(self.seed, path, (config.clone(), Job::send(u64::MAX)), (config, Job::send(0)))?;
        pair.run_until(Time::from_s(1) + self.warm_up());
        let before = self.mean_counters(&mut pair);
        pair.run_until(before.at + self.measured());
        let after = self.mean_counters(&mut pair);
        pair.client.connection().context("the client's connection is gone")?;
        let seconds = (after.at - before.at).as_secs_f64();
        let [read, useful, distinct, lost, delivered] = std::array::from_fn(|i| after.means[i] - before.means[i]);
        let goodput_bps = useful * SYMBOL_BYTES * 8.0 / seconds;
        let loss_real = lost / (lost + delivered);
        let packet_bytes = if self.unsealed { UNSEALED_PACKET_BYTES } else { SEALED_PACKET_BYTES };
        let ceiling_bps = self.rate_bps as f64 * (1.0 - loss_real) * SYMBOL_BYTES / packet_bytes;
        Ok(Row {
            loss_percent: self.loss * 100.0,
            rtt_ms: self.rtt_ms,
            rate_mbit: self.rate_bps / 1_000_000,
            loss_real_percent: loss_real * 100.0,
            goodput_mbit: goodput_bps / 1e6,
            ceiling_percent: goodput_bps / ceiling_bps * 100.0,
            read_percent: read * 8.0 / seconds / ceiling_bps * 100.0,
            useful_percent: useful / distinct * 100.0,
            measured_s: seconds,
        })
    }

    /// Means of the counters over the next few round trips.
    fn mean_counters(self, pair: &mut Pair) -> Counters {
        let every = Duration::from_micros(self.rtt_ms * 1_000 * BURST_RTTS / SAMPLES);
        let begin = pair.now;
        let mut means = [0.0; 5];
        for _ in 0..SAMPLES {
            pair.run_until(pair.now + every);
            let (stats, link) = (pair.server.stats(), pair.path.stats().0);
            let counters = [
                stats.stream_bytes_read,
                stats.received.useful,
                stats.received.distinct(),
                link.lost.packets,
                link.delivered.packets,
            ];
            means.iter_mut().zip(counters).for_each(|(mean, counter)| *mean += counter as f64 / SAMPLES as f64);
        }
        Counters { at: begin + (pair.now - begin) / 2, means }
    }
}
