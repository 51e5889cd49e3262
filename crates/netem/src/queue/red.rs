//! Random early detection.
//!
//! S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM Transactions on
//! Networking 1(4), 1993: a FIFO queue that drops arriving packets with a probability that grows with the moving
//! average of its length. The code follows the paper's figure 2. The number of packets from one drop to the next is
//! uniform over 1 to 1/p − 1; the figure counts the arriving packet before the division, so 1/p itself is not reached.
//! If enabled, ECN-capable packets are marked instead of dropped, with the options of Linux (`red_enqueue`).

use std::num::NonZeroU64;

use dfcp_time::{Time, duration_ns};

use super::DropCause;
use super::discipline::{Red, RedUnit};
use super::drop_tail::DropTailQueue;
use super::limit::QueueLimit;
use super::marker::Marker;
use crate::packet::Packet;
use crate::random::{Random, Stream};
use crate::stats::Count;

#[derive(Clone, Debug)]
pub(super) struct RedQueue<P> {
    config: Red,
    rate_bps: Option<NonZeroU64>,
    random: Random,
    queue: DropTailQueue<P>,
    /// Moving average of the queue length, in the unit of the thresholds.
    average: f64,
    /// Packets since the last drop, or since the average exceeded the lower threshold, in which case the first packet
    /// counts as 0.
    count: i64,
    /// Start of the present idle time, or the time up to which the average has decayed. `None` while the link is busy.
    idle_since: Option<Time>,
    marker: Marker,
}

/// Decision about an arriving packet, from the average alone.
enum Verdict {
    Keep,
    Drop,
    /// Drop with this probability, with drops spread evenly.
    Spread(f64),
}

impl<P: Packet> RedQueue<P> {
    pub(super) fn new(config: Red, rate_bps: Option<NonZeroU64>, seed: u64) -> Self {
        Self {
            config,
            rate_bps,
            random: Random::new(seed, Stream::Queue),
            queue: DropTailQueue::new(),
            average: 0.0,
            count: -1,
            idle_since: Some(Time::ZERO),
            marker: Marker::default(),
        }
    }

    pub(super) fn set_rate(&mut self, now: Time, rate_bps: Option<NonZeroU64>) {
        self.decay(now);
        self.rate_bps = rate_bps;
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    pub(super) fn ce_marked(&self) -> Count {
        self.marker.marked()
    }

    pub(super) fn push(&mut self, now: Time, mut packet: P, limit: QueueLimit, on_drop: &mut impl FnMut(P, DropCause)) {
        if self.idle_since.is_some() {
            self.decay(now);
        } else {
            let length = match self.config.unit {
                RedUnit::Packets => self.queue.len() as f64,
                RedUnit::Bytes => self.queue.bytes() as f64,
            };
            self.average += self.config.weight * (length - self.average);
        }
        let has_room = limit.admits(self.queue.len(), self.queue.bytes(), packet.size_bytes());
        if self.signals_congestion(packet.size_bytes()) && !self.spares(&mut packet, has_room) {
            on_drop(packet, DropCause::Early);
            return;
        }
        let before = self.queue.len();
        self.queue.push(packet, limit, on_drop);
        if self.queue.len() == before {
            self.count = 0;
        } else {
            self.idle_since = None;
        }
    }

    /// Removes and returns the next packet. If the queue is empty, the link becomes idle.
    pub(super) fn pop(&mut self, now: Time) -> Option<P> {
        let packet = self.queue.pop();
        if packet.is_none() && self.idle_since.is_none() {
            self.idle_since = Some(now);
        }
        packet
    }

    /// Decays the average as if it had seen an empty queue once for each packet that could have been sent in the idle
    /// time up to `now`.
    fn decay(&mut self, now: Time) {
        let Some(since) = self.idle_since else { return };
        self.idle_since = Some(since.max(now));
        self.average *= match self.rate_bps {
            None => 0.0,
            Some(rate) => {
                let sent = u128::from(duration_ns(now - since)) * u128::from(rate.get()) / 8 / 1_000_000_000;
                let packets = sent / u128::from(self.config.mean_packet_bytes);
                power(1.0 - self.config.weight, u64::try_from(packets).unwrap_or(u64::MAX))
            }
        };
    }

    /// Returns true if a packet that should signal congestion is spared an early drop: it is marked, exempt, or about
    /// to be dropped because the queue is full. A packet without room is not marked.
    fn spares(&mut self, packet: &mut P, has_room: bool) -> bool {
        let Red { ecn, hard_drop, no_drop, max_threshold, .. } = self.config;
        if !ecn || hard_drop && self.average >= max_threshold as f64 {
            return false;
        }
        if packet.ecn().is_capable() { !has_room || self.marker.mark(packet) } else { no_drop }
    }

    /// Returns true if the packet must signal congestion, by a drop or a mark.
    fn signals_congestion(&mut self, size_bytes: u32) -> bool {
        let signals = match self.verdict() {
            Verdict::Keep => {
                self.count = -1;
                return false;
            }
            Verdict::Drop => true,
            Verdict::Spread(probability) => {
                self.count += 1;
                let scaled = match self.config.unit {
                    RedUnit::Packets => probability,
                    RedUnit::Bytes => probability * f64::from(size_bytes) / f64::from(self.config.mean_packet_bytes),
                };
                let left = 1.0 - self.count as f64 * scaled;
                let spread = if left > 0.0 { (scaled / left).min(1.0) } else { 1.0 };
                self.random.chance(spread)
            }
        };
        if signals {
            self.count = 0;
        }
        signals
    }

    /// Computes the paper's probability p_b, with Floyd's extension ("gentle", 2000) above the upper threshold.
    fn verdict(&self) -> Verdict {
        let (min, max) = (self.config.min_threshold as f64, self.config.max_threshold as f64);
        let p_max = self.config.max_probability;
        if self.average < min {
            Verdict::Keep
        } else if self.average < max {
            Verdict::Spread(p_max * (self.average - min) / (max - min))
        } else if self.config.gentle && self.average < 2.0 * max {
            Verdict::Spread(p_max + (1.0 - p_max) * (self.average - max) / max)
        } else {
            Verdict::Drop
        }
    }
}

/// Raises `base` to the power of `exponent` by multiplications. Unlike `powf`, the result is the same on every
/// platform.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests;
