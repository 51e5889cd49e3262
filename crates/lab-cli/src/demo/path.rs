//! Emulated path of the demonstration.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use dfcp_netem::{LinkConfig, Loss, QueueLimit};
use dfcp_relay::{DirectionStats, Relay, RelayConfig};
use serde::Serialize;

/// Seed of the relay's losses, the same for every run.
const SEED: u64 = 2026;

/// Size of a full DFCP datagram as an IPv4 packet, bytes: symbol 1420, segment header and checksum 28, UDP and IP
/// headers 28.
const PACKET_BYTES: u64 = 1476;

/// Payload of a full packet, bytes.
const PAYLOAD_BYTES: u64 = 1420;

/// Minimum queue limit, packets, for paths with a small bandwidth-delay product.
const QUEUE_PACKETS_MIN: u64 = 100;

/// Bottleneck with delay and loss, equal in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Path {
    /// Rate in each direction, bit/s of IP packets.
    pub(super) rate_bps: u64,
    /// Round-trip time without queueing; each direction has half of it.
    #[serde(rename = "rtt_ms", serialize_with = "as_ms")]
    pub(super) rtt: Duration,
    /// Independent loss probability of each packet, in each direction.
    pub(super) loss: f64,
}

impl Path {
    /// Returns the bandwidth-delay product, bytes.
    pub(super) fn bdp_bytes(&self) -> u64 {
        (self.rate_bps as f64 * self.rtt.as_secs_f64() / 8.0) as u64
    }

    /// Returns the queue limit of the bottleneck: one bandwidth-delay product in full packets.
    pub(super) fn queue_packets(&self) -> u64 {
        self.bdp_bytes().div_ceil(PACKET_BYTES).max(QUEUE_PACKETS_MIN)
    }

    /// Returns the goodput, bit/s, of a transport without waste at this loss rate, headers deducted. All transports are
    /// compared with DFCP's header share: 1420 of 1476 bytes are payload.
    pub(super) fn ceiling_bps(&self, loss: f64) -> f64 {
        self.rate_bps as f64 * (1.0 - loss) * (PAYLOAD_BYTES as f64 / PACKET_BYTES as f64)
    }

    /// Starts a relay that emulates this path towards `to`.
    pub(super) async fn relay(&self, to: SocketAddr) -> anyhow::Result<Relay> {
        let queue_packets = usize::try_from(self.queue_packets()).unwrap_or(usize::MAX);
        let link = LinkConfig::default()
            .with_rate_bps(self.rate_bps)
            .with_delay(self.rtt / 2)
            .with_loss(if self.loss > 0.0 { Loss::bernoulli(self.loss) } else { Loss::None })
            .with_queue(QueueLimit::packets(queue_packets));
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        Relay::start(RelayConfig::symmetric(listen, to, link, SEED))
            .await
            .context("cannot start a relay on 127.0.0.1, check that UDP is allowed there")
    }
}

/// Statistics of the forward direction during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Wire {
    /// IP bytes that the sender sent: data, repair, retransmissions and control.
    pub(super) sent_bytes: u64,
    /// Share of packets lost at random after the bottleneck.
    pub(super) loss: f64,
    /// Share of sent packets dropped by the bottleneck's full queue: loss that the sender caused.
    pub(super) queue_drops: f64,
}

impl Wire {
    pub(super) fn new(forward: &DirectionStats) -> Self {
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let through = forward.lost.packets + forward.forwarded.packets + forward.not_sent.packets;
        Self {
            sent_bytes: forward.received.bytes,
            loss: share(forward.lost.packets, through),
            queue_drops: share(forward.queue_drops.packets, forward.received.packets),
        }
    }
}

fn as_ms<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfcp_relay::Datagrams;

    #[test]
    fn the_documented_path() {
        let path = Path { rate_bps: 100_000_000, rtt: Duration::from_millis(50), loss: 0.1 };
        assert_eq!((path.bdp_bytes(), path.queue_packets()), (625_000, 424));
        assert_eq!(path.ceiling_bps(0.1).round(), 86_585_366.0);
        let short = Path { rtt: Duration::ZERO, ..path };
        assert_eq!((short.bdp_bytes(), short.queue_packets()), (0, QUEUE_PACKETS_MIN));
    }

    #[test]
    fn random_losses_and_queue_drops_are_told_apart() {
        let packets = |packets| Datagrams { packets, bytes: packets * 1000 };
        let forward = DirectionStats {
            received: packets(120),
            forwarded: packets(80),
            lost: packets(20),
            queue_drops: packets(12),
            on_the_way: packets(8),
            ..DirectionStats::default()
        };
        assert_eq!(Wire::new(&forward), Wire { sent_bytes: 120_000, loss: 0.2, queue_drops: 0.1 });
        assert_eq!(Wire::new(&DirectionStats::default()), Wire::default());
    }
}
