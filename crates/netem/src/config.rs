//! Configuration of a link (rate, delay, queue, impairments), and its changes while packets are in flight.

use std::time::Duration;

use dfcp_time::Time;

use crate::error::{ConfigError, checked_probability, checked_rate};
use crate::loss::Loss;
use crate::policer::Policer;
use crate::queue::{Discipline, QueueLimit};

/// Default limit of everything that a link holds, bytes: 1 GiB, 8 s at 1 Gbit/s.
pub const HELD_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// Full packet size, the unit of a policer's bucket, bytes.
pub const FULL_PACKET_BYTES: u32 = 1_500;

/// Default extra delay of a reordered packet: 17 full-sized packets at 100 Mbit/s.
pub const REORDER_DELAY_DEFAULT: Duration = Duration::from_millis(2);

/// One direction of one hop. The default is a perfect link: infinitely fast, no delay, nothing lost.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Rate of the bottleneck in bits per second of [`Packet::size_bytes`](crate::Packet::size_bytes); `None` for
    /// infinite.
    pub rate_bps: Option<u64>,
    /// Time from the last bit sent to the packet's arrival.
    pub delay: Duration,
    /// Upper bound of a uniformly distributed extra delay. Order is kept: a packet that would overtake another arrives with it. If packets
    /// are spaced much closer than the jitter, most wait for the slowest, and delays gather near `delay + jitter`, as behind a bursty
    /// scheduler.
    pub jitter: Duration,
    /// Batching interval: packets arrive at multiples of it, as over a radio that aggregates frames or a coalescing interface. Zero for
    /// none.
    pub batch: Duration,
    /// Policer in front of the queue, whose drops count as the queue's; `None` for none.
    pub policer: Option<Policer>,
    /// Losses of packets after they have used the bottleneck.
    pub loss: Loss,
    /// Limit of packets waiting for the bottleneck; beyond it packets are dropped.
    pub queue: QueueLimit,
    /// Queue discipline: the order of waiting packets, and the choice of those to drop.
    pub discipline: Discipline,
    /// Probability that a packet is delayed by `reorder_delay`, so that later ones overtake it. (At 1 all are delayed alike, and the order
    /// stays.)
    pub reorder: f64,
    /// Extra delay of a reordered packet.
    pub reorder_delay: Duration,
    /// Probability of duplication. The copy follows its original behind the bottleneck, and so costs no rate.
    pub duplicate: f64,
    /// Probability of one flipped bit, drawn for each copy.
    pub corrupt: f64,
    /// Outages as `(start, end)`, `end` excluded, ascending and disjoint: a packet whose last bit leaves the transmitter within one is
    /// lost. Packets in flight still arrive.
    pub blackouts: Vec<(Time, Time)>,
    /// Limit on all bytes in the link, queued and in flight; beyond it packets are dropped as by a full queue. Bounds memory on links
    /// without a rate.
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
    /// Sets the bottleneck's rate in bit/s.
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

    /// Sets the upper bound of the jitter.
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

    /// Adds a policer with a bucket of this many full packets. With `policer_bps` it polices to that rate, in front of
    /// the queue. Without, it polices to the link's own rate and replaces transmitter and queue: a policer delays
    /// nothing, so the link then has no rate.
    ///
    /// # Errors
    /// Fails if there is no rate to police to, or the bucket is empty.
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

    /// Lets a share `probability` of the packets arrive later by `delay`.
    #[must_use]
    pub fn with_reorder(mut self, probability: f64, delay: Duration) -> Self {
        self.reorder = probability;
        self.reorder_delay = delay;
        self
    }

    /// Sets the probability of a second copy.
    #[must_use]
    pub fn with_duplicate(mut self, probability: f64) -> Self {
        self.duplicate = probability;
        self
    }

    /// Sets the probability of a flipped bit.
    #[must_use]
    pub fn with_corrupt(mut self, probability: f64) -> Self {
        self.corrupt = probability;
        self
    }

    /// Appends an outage after the existing ones.
    #[must_use]
    pub fn with_blackout(mut self, start: Time, end: Time) -> Self {
        self.blackouts.push((start, end));
        self
    }

    /// Sets the bound on all bytes in the link.
    #[must_use]
    pub fn with_held_bytes_max(mut self, bytes: u64) -> Self {
        self.held_bytes_max = bytes;
        self
    }

    /// True if every packet behind the transmitter arrives unchanged after the delay.
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

/// Change of a link. Fields that are `None` stay unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// Rate in bit/s.
    pub rate_bps: Option<u64>,
    /// One-way delay of packets that leave the transmitter from now on. They do not overtake packets in flight.
    pub delay: Option<Duration>,
    /// Loss model of packets that leave the transmitter from now on.
    pub loss: Option<Loss>,
    /// Start (`true`) or end of an outage: packets that leave the transmitter meanwhile are lost.
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
