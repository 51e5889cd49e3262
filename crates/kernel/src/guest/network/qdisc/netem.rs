//! netem: delay, jitter and random loss.

use std::time::Duration;

use dfcp_netem::Loss;

use super::super::attributes::Attributes;
use super::super::error::NetworkError;
use super::{ETHERNET_BYTES, probability, structure};

const TCA_NETEM_LOSS: u16 = 5;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
pub(in super::super) const TCA_NETEM_PRNG_SEED: u16 = 14;
const TCA_NETEM_SLOT: u16 = 12;
const NETEM_LOSS_GE: u16 = 2;

/// Limit of packets in flight, above that of any link of a plan: tbf in front of netem sets the rate.
const LIMIT_PACKETS: u32 = 1_000_000;
/// Rate of links without a rate, whose transmission times are 0: above the rate of any plan.
const RATE_UNLIMITED_BYTEPS: u64 = 1 << 40;

/// Netem after a transmitter: delay and loss of sent packets.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Netem {
    /// Rate of the link; `None` for unlimited.
    pub(in super::super) rate_bps: Option<u64>,
    pub(in super::super) delay: Duration,
    pub(in super::super) jitter: Duration,
    /// Interval of batches of consecutive packets; zero for none.
    pub(in super::super) batch: Duration,
    pub(in super::super) loss: Loss,
    /// True in an outage, when every packet is lost regardless of `loss`.
    pub(in super::super) is_out: bool,
}

impl Netem {
    /// True if packets pass unchanged and undelayed.
    pub(in super::super) fn is_nothing(&self) -> bool {
        let is_timely = self.rate_bps.is_none() && self.delay.is_zero() && self.jitter.is_zero();
        is_timely && self.batch.is_zero() && self.loss == Loss::None && !self.is_out
    }

    /// Options of netem. The transmission time is part of netem's delay, so that the last bit is sent at the same time as in the simulator
    /// and order is kept: with a rate, netem lets no packet overtake another. A change replaces delay, jitter, loss and the generator's
    /// state, so each change needs a new seed.
    ///
    /// # Errors
    /// Fails for a loss that netem does not support.
    pub(in super::super) fn options(&self, seed: u64) -> Result<Vec<u8>, NetworkError> {
        // Uniformly from mean − deviation to mean + deviation: netem without a table.
        let deviation_ns = ns(self.jitter) / 2;
        let mean_ns = ns(self.delay) + deviation_ns;
        let rate_byteps = self.rate_bps.map_or(RATE_UNLIMITED_BYTEPS, |rate| (rate / 8).max(1));
        let rate = u32::try_from(rate_byteps).unwrap_or(u32::MAX);
        let overhead = ETHERNET_BYTES.wrapping_neg(); // signed: excludes the Ethernet header
        let (loss, chain) = self.loss()?;
        // `struct tc_netem_qopt`: latency and jitter here are coarse, and overridden by attributes.
        let fixed = [0, LIMIT_PACKETS, loss, 0, 0, 0];
        let attributes = Attributes::after(structure(&fixed))
            .i64(TCA_NETEM_LATENCY64, mean_ns)
            .i64(TCA_NETEM_JITTER64, deviation_ns)
            .bytes(TCA_NETEM_RATE, &structure(&[rate, overhead, 0, 0]))
            .u64(TCA_NETEM_RATE64, rate_byteps);
        let attributes = match chain {
            Some(chain) => {
                attributes.nested(TCA_NETEM_LOSS, Attributes::new().bytes(NETEM_LOSS_GE, &structure(&chain)))
            }
            None => attributes,
        };
        let attributes =
            if self.batch.is_zero() { attributes } else { attributes.bytes(TCA_NETEM_SLOT, &slot(self.batch)) };
        Ok(attributes.u64(TCA_NETEM_PRNG_SEED, seed).into_bytes())
    }

    /// Probability of independent loss, and the four parameters of Gilbert–Elliott.
    fn loss(&self) -> Result<(u32, Option<[u32; 4]>), NetworkError> {
        match self.loss {
            _ if self.is_out => Ok((u32::MAX, None)),
            Loss::None => Ok((0, None)),
            Loss::Bernoulli { p } => Ok((probability(p), None)),
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                // The third parameter is the share that passes in the bad state.
                let chain = [p_good_to_bad, p_bad_to_good, 1.0 - loss_bad, loss_good];
                Ok((0, Some(chain.map(probability))))
            }
            Loss::Trace(_) => Err(NetworkError::layout("the kernel has no loss by trace")),
        }
    }
}

/// Encodes `struct tc_netem_slot`: least and greatest interval, packets and bytes per slot (zero: unlimited), and a distribution.
fn slot(batch: Duration) -> Vec<u8> {
    let distance = ns(batch).to_ne_bytes();
    [&distance[..], &distance, &structure(&[0, 0]), &[0; 16]].concat()
}

fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::super::super::attributes::{find, u64_at};
    use super::*;

    fn netem(loss: Loss) -> Netem {
        let (delay, jitter) = (Duration::from_millis(8), Duration::from_millis(4));
        Netem { rate_bps: Some(10_000_000), delay, jitter, batch: Duration::ZERO, loss, is_out: false }
    }

    #[test]
    fn options_are_those_of_tc() {
        // netem limit 1000000 delay 10ms 2ms loss gemodel 1% 25% 0% 0% rate 10mbit -14
        let loss = Loss::GilbertElliott { p_good_to_bad: 0.01, p_bad_to_good: 0.25, loss_good: 0.0, loss_bad: 0.0 };
        let bytes = netem(loss).options(9).unwrap();
        assert_eq!(bytes[..24], structure(&[0, 1_000_000, 0, 0, 0, 0]));
        let attributes = &bytes[24..];
        let chain = [0x14, 0, 2, 0, 0x29, 0x5c, 0x8f, 2, 0, 0, 0, 0x40, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert_eq!(find(attributes, TCA_NETEM_LOSS), Some(&chain[..]));
        let rate = [0xd0, 0x12, 0x13, 0, 0xf2, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(find(attributes, TCA_NETEM_RATE), Some(&rate[..]));
        let number = |kind| find(attributes, kind).and_then(|value| u64_at(value, 0));
        assert_eq!(number(TCA_NETEM_LATENCY64), Some(10_000_000), "the mean of 8 ms to 12 ms");
        assert_eq!(number(TCA_NETEM_JITTER64), Some(2_000_000));
        assert_eq!(number(TCA_NETEM_RATE64), Some(1_250_000));
        assert_eq!(number(TCA_NETEM_PRNG_SEED), Some(9));
    }

    #[test]
    fn losses_are_shares() {
        let bytes = netem(Loss::bernoulli(0.25)).options(0).unwrap();
        assert_eq!(bytes[8..12], [0, 0, 0, 0x40]);
        assert_eq!(find(&bytes[24..], TCA_NETEM_LOSS), None);
        let bytes = netem(Loss::bursts(0.5, 4.0).unwrap()).options(0).unwrap();
        let chain = find(&bytes[24..], TCA_NETEM_LOSS).and_then(|chain| find(chain, NETEM_LOSS_GE)).unwrap();
        assert_eq!(chain, structure(&[0x4000_0000, 0x4000_0000, 0, 0]));
        assert!(netem(Loss::Trace([true].into())).options(0).is_err());
    }

    #[test]
    fn a_perfect_wire_does_nothing() {
        let zero = Duration::ZERO;
        let perfect = Netem { rate_bps: None, delay: zero, jitter: zero, batch: zero, loss: Loss::None, is_out: false };
        assert!(perfect.is_nothing() && !netem(Loss::None).is_nothing());
        assert!(!Netem { is_out: true, ..perfect.clone() }.is_nothing());
        assert!(!Netem { batch: Duration::from_nanos(1), ..perfect.clone() }.is_nothing());
        assert!(!Netem { delay: Duration::from_nanos(1), ..perfect }.is_nothing());
    }

    #[test]
    fn an_outage_loses_all_and_slots_are_those_of_tc() {
        let out = Netem { is_out: true, ..netem(Loss::bursts(0.5, 4.0).unwrap()) }.options(0).unwrap();
        assert_eq!(out[8..12], [0xff; 4]);
        assert_eq!(find(&out[24..], TCA_NETEM_LOSS), None);
        // slot 4ms
        let bytes = Netem { batch: Duration::from_millis(4), ..netem(Loss::None) }.options(0).unwrap();
        let slot = find(&bytes[24..], TCA_NETEM_SLOT).unwrap();
        assert_eq!((slot.len(), &slot[..8], &slot[8..16]), (40, &4_000_000_i64.to_ne_bytes()[..], &slot[..8]));
        assert!(slot[16..].iter().all(|&byte| byte == 0));
    }
}
