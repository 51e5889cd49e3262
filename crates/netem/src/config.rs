//! Configuration of a link (rate, delay, queue, impairments), and changes of it during operation.

use std::time::Duration;

use dfcp_time::Time;

use crate::error::{ConfigError, checked_probability, checked_rate};
use crate::loss::Loss;
use crate::policer::Policer;
use crate::queue::{Discipline, QueueLimit};

/// Default limit of all bytes in a link, queued and in flight: 1 GiB, or 8 s at 1 Gbit/s.
pub const HELD_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// Size of a full packet, bytes: the unit of a policer's bucket.
pub const FULL_PACKET_BYTES: u32 = 1_500;

/// Default extra delay of a reordered packet, in which 17 full-sized packets pass at 100 Mbit/s.
pub const REORDER_DELAY_DEFAULT: Duration = Duration::from_millis(2);

/// One direction of one hop. By default a perfect link: infinite rate, no delay, no loss.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate of the bottleneck, bits of [`Packet::size_bytes`](crate::Packet::size_bytes) per second; `None` for
    /// infinite.
    pub rate_bps: Option<u64>,
    /// One-way delay, from the last bit sent to the packet's arrival.
    pub delay: Duration,
    /// Greatest random extra delay, uniformly distributed. Order is kept: a packet that would overtake another arrives
    /// together with it. If packets are spaced much closer than the jitter, most wait for the slowest, and delays
    /// gather near `delay + jitter`, as behind a bursty scheduler.
    pub jitter: Duration,
    /// Batching interval: packets arrive at its multiples only, as over a radio that aggregates frames, or an interface
    /// that coalesces interrupts. Zero for no batches.
    pub batch: Duration,
    /// Policer in front of the queue; its drops count as drops of the queue.
    pub policer: Option<Policer>,
    /// Loss model of packets after they have used the bottleneck.
    pub loss: Loss,
    /// Limit of packets that wait for the bottleneck; packets above it are dropped.
    pub queue: QueueLimit,
    /// Queue discipline: selects the packet to send next, and the packet to drop.
    pub discipline: Discipline,
    /// Probability that a packet is delayed by `reorder_delay`, so that later packets overtake it. (At 1 all packets
    /// are delayed equally, and keep their order.)
    pub reorder: f64,
    /// Extra delay of a reordered packet.
    pub reorder_delay: Duration,
    /// Probability of duplication. The copy follows its original after the bottleneck, and so uses no rate.
    pub duplicate: f64,
    /// Probability that one bit is flipped, drawn separately for each copy.
    pub corrupt: f64,
    /// Outages as `(start, end)`, `end` excluded, ascending and disjoint. A packet whose last bit leaves the
    /// transmitter during an outage is lost; packets in flight still arrive.
    pub blackouts: Vec<(Time, Time)>,
    /// Greatest number of bytes in the link, queued and in flight. Packets above it are dropped, as by a full queue. It
    /// bounds memory even on links without a rate.
    pub held_bytes_max: u64,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate_bps: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            batch: Duration::ZERO,
            policer: None,
            loss: Loss::None,
            queue: QueueLimit::default(),
            discipline: Discipline::default(),
            reorder: 0.0,
            reorder_delay: REORDER_DELAY_DEFAULT,
            duplicate: 0.0,
            corrupt: 0.0,
            blackouts: Vec::new(),
            held_bytes_max: HELD_BYTES_MAX_DEFAULT,
        }
    }
}

impl LinkConfig {
    /// Sets the bottleneck's rate, bit/s.
    #[must_use]
    pub fn with_rate_bps(mut self, rate_bps: u64) -> Self {
        self.rate_bps = Some(rate_bps);
        self
    }

    /// Sets the one-way delay.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the greatest jitter.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the batching interval.
    #[must_use]
    pub fn with_batch(mut self, batch: Duration) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the policer.
    #[must_use]
    pub fn with_policer(mut self, policer: Policer) -> Self {
        self.policer = Some(policer);
        self
    }

    /// Adds a policer whose bucket holds `bucket_packets` full packets. With `policer_bps`, it precedes the queue.
    /// Otherwise it has the link's rate and replaces transmitter and queue: a policer delays no packets, so this link
    /// then has no rate of its own.
    ///
    /// # Errors
    /// Fails if neither the policer nor the link has a rate, or the bucket is empty.
    pub fn policed(self, policer_bps: Option<u64>, bucket_packets: u32) -> Result<Self, ConfigError> {
        let rate_bps = policer_bps.or(self.rate_bps).ok_or(ConfigError::NoPolicerRate)?;
        let policer = Policer { rate_bps, bucket_bytes: bucket_packets.saturating_mul(FULL_PACKET_BYTES) };
        policer.validate()?;
        let rate_bps = policer_bps.and(self.rate_bps);
        Ok(Self { rate_bps, ..self.with_policer(policer) })
    }

    /// Sets the loss model.
    #[must_use]
    pub fn with_loss(mut self, loss: Loss) -> Self {
        self.loss = loss;
        self
    }

    /// Sets the limit of the queue.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueLimit) -> Self {
        self.queue = queue;
        self
    }

    /// Sets the discipline of the queue.
    #[must_use]
    pub fn with_discipline(mut self, discipline: Discipline) -> Self {
        self.discipline = discipline;
        self
    }

    /// Sets the share `probability` of packets that arrive later by `delay`.
    #[must_use]
    pub fn with_reorder(mut self, probability: f64, delay: Duration) -> Self {
        self.reorder = probability;
        self.reorder_delay = delay;
        self
    }

    /// Sets the probability that a packet is duplicated.
    #[must_use]
    pub fn with_duplicate(mut self, probability: f64) -> Self {
        self.duplicate = probability;
        self
    }

    /// Sets the probability that a bit is flipped.
    #[must_use]
    pub fn with_corrupt(mut self, probability: f64) -> Self {
        self.corrupt = probability;
        self
    }

    /// Appends an outage, which must begin after the existing ones.
    #[must_use]
    pub fn with_blackout(mut self, start: Time, end: Time) -> Self {
        self.blackouts.push((start, end));
        self
    }

    /// Sets the limit of all bytes in the link.
    #[must_use]
    pub fn with_held_bytes_max(mut self, bytes: u64) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// Returns true if every packet that leaves the transmitter arrives once, unchanged, exactly after the delay.
    pub(crate) fn is_clean(&self) -> bool {
        let never = self.reorder == 0.0 && self.duplicate == 0.0 && self.corrupt == 0.0 && self.jitter.is_zero();
        never && self.batch.is_zero() && self.loss == Loss::None && self.blackouts.is_empty()
    }

    /// Checks every field, as [`Link::new`](crate::Link::new) does.
    ///
    /// # Errors
    /// Returns the first invalid field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        checked_rate(self.rate_bps)?;
        self.loss.validate()?;
        self.policer.map_or(Ok(()), Policer::validate)?;
        self.discipline.validate()?;
        checked_probability("reorder", self.reorder)?;
        checked_probability("duplicate", self.duplicate)?;
        checked_probability("corrupt", self.corrupt)?;
        let mut last_end = Time::ZERO;
        for &(start, end) in &self.blackouts {
            if end <= start || start < last_end {
                return Err(ConfigError::Blackouts { start, end });
            }
            last_end = end;
        }
        Ok(())
    }
}

/// Change of a link; fields that are `None` leave their value unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// New rate, bit/s.
    pub rate_bps: Option<u64>,
    /// New one-way delay, of packets that leave the transmitter from now on. They do not overtake packets in flight.
    pub delay: Option<Duration>,
    /// New loss model, of packets that leave the transmitter from now on.
    pub loss: Option<Loss>,
    /// Start (true) or end (false) of an outage. Packets that leave the transmitter during it are lost.
    pub outage: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid() {
        assert_eq!(LinkConfig::default().validate(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused() {
        let perfect = LinkConfig::default;
        assert_eq!(perfect().with_rate_bps(0).validate(), Err(ConfigError::ZeroRate));
        let policer = |rate_bps, bucket_bytes| perfect().with_policer(Policer { rate_bps, bucket_bytes }).validate();
        assert_eq!(policer(0, 1), Err(ConfigError::ZeroRate));
        assert!(matches!(policer(1, 0), Err(ConfigError::OutOfRange { .. })));
        assert_eq!(perfect().with_loss(Loss::Trace([].into())).validate(), Err(ConfigError::EmptyTrace));
        for bad in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            let chain = Loss::GilbertElliott { p_good_to_bad: 0.1, p_bad_to_good: bad, loss_good: 0.0, loss_bad: 1.0 };
            for config in [
                perfect().with_loss(Loss::bernoulli(bad)),
                perfect().with_loss(chain),
                perfect().with_reorder(bad, REORDER_DELAY_DEFAULT),
                perfect().with_duplicate(bad),
                perfect().with_corrupt(bad),
            ] {
                assert!(matches!(config.validate(), Err(ConfigError::Probability { .. })), "{config:?}");
            }
        }
    }

    #[test]
    fn blackouts_must_be_in_order_and_apart() {
        let ms = Time::from_ms;
        let perfect = LinkConfig::default;
        assert!(perfect().with_blackout(ms(1), ms(2)).with_blackout(ms(2), ms(3)).validate().is_ok());
        for (first, second) in [((1, 3), (2, 4)), ((5, 6), (1, 2)), ((1, 2), (3, 3)), ((2, 1), (5, 6))] {
            let config = perfect().with_blackout(ms(first.0), ms(first.1)).with_blackout(ms(second.0), ms(second.1));
            assert!(matches!(config.validate(), Err(ConfigError::Blackouts { .. })), "{config:?}");
        }
    }
}
