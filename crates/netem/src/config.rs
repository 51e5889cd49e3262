//! Configuration of a link: its rate, delay, queue and impairments; and a change of it while packets cross.

use std::time::Duration;

use dfcp_time::Time;

use crate::error::{ConfigError, checked_probability, checked_rate};
use crate::loss::Loss;
use crate::policer::Policer;
use crate::queue::{Discipline, QueueLimit};

/// Default limit of everything that a link holds, bytes: 1 GiB, 8 s at 1 Gbit/s.
pub const HELD_BYTES_MAX_DEFAULT: u64 = 1 << 30;

/// A full packet, by which a policer's bucket is counted, bytes.
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
    /// Up to this much is added to the delay, uniformly distributed. Order is kept: a packet which would overtake
    /// another arrives with it. So where packets follow each other at much less than the jitter, most of them wait for
    /// the slowest, and delays gather near `delay + jitter`, as behind a scheduler that serves in bursts.
    pub jitter: Duration,
    /// Packets arrive in batches: each at the next multiple of this time. Zero for none. A radio which aggregates frames and
    /// an interface which joins what it receives look like that.
    pub batch: Duration,
    /// Drops what exceeds a rate before it can wait; `None` for nothing. Its drops count as the queue's.
    pub policer: Option<Policer>,
    /// Losses of packets after they have used the bottleneck.
    pub loss: Loss,
    /// Limit of packets waiting for the bottleneck; beyond it packets are dropped.
    pub queue: QueueLimit,
    /// Queue discipline: the order of waiting packets, and the choice of those to drop.
    pub discipline: Discipline,
    /// Probability that a packet arrives later by `reorder_delay`, so that those behind it overtake it. (At 1 all are
    /// late alike and the order stays.)
    pub reorder: f64,
    /// See `reorder`.
    pub reorder_delay: Duration,
    /// Probability that a packet arrives twice, its copy right behind it (behind the bottleneck: a copy costs no rate).
    pub duplicate: f64,
    /// Probability that a packet arrives with one bit flipped, drawn for each copy.
    pub corrupt: f64,
    /// Times `(start, end)`, `end` excluded, in ascending order and apart: a packet whose last bit leaves the
    /// transmitter within one is gone. Packets travelling already arrive.
    pub blackouts: Vec<(Time, Time)>,
    /// Bound on all bytes in the link, waiting and travelling; what comes beyond it is dropped as if the queue were
    /// full. Only to keep memory finite on links without a rate.
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

    /// Sets the most that is added to the delay.
    #[must_use]
    pub fn with_jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Lets packets arrive in batches.
    #[must_use]
    pub fn with_batch(mut self, batch: Duration) -> Self {
        self.batch = batch;
        self
    }

    /// Polices what comes in.
    #[must_use]
    pub fn with_policer(mut self, policer: Policer) -> Self {
        self.policer = Some(policer);
        self
    }

    /// Polices what comes in by a bucket of this many full packets: to `policer_bps` in front of the queue, or without that to the
    /// link's own rate instead of transmitter and queue. A policer holds nothing up, so such a link has no rate of its own.
    ///
    /// # Errors
    /// There is no rate to police to, or the bucket is empty.
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

    /// Adds a time in which nothing gets through, after those already there.
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

    /// True if every packet behind the transmitter arrives after the delay, and nothing else can happen to it.
    pub(crate) fn is_clean(&self) -> bool {
        let never = self.reorder == 0.0 && self.duplicate == 0.0 && self.corrupt == 0.0 && self.jitter.is_zero();
        never && self.batch.is_zero() && self.loss == Loss::None && self.blackouts.is_empty()
    }

    /// Checks every field, as [`Link::new`](crate::Link::new) does.
    ///
    /// # Errors
    /// The first field that makes no sense.
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

/// A change of a link; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkChange {
    /// bit/s.
    pub rate_bps: Option<u64>,
    /// One way, for packets which leave the transmitter from now on. They do not overtake those already travelling.
    pub delay: Option<Duration>,
    /// Loss model of packets that leave the transmitter from now on.
    pub loss: Option<Loss>,
    /// An outage begins (`true`) or ends: what leaves the transmitter meanwhile is gone.
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
