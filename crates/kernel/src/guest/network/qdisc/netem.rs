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
const NETEM_LOSS_GE: u16 = 2;

/// Packets on the way: more than any link of a plan holds, as tbf in front of netem sets the pace.
const LIMIT_PACKETS: u32 = 1_000_000;
/// Beyond every rate of a plan; packets of a link without a rate take no time.
const RATE_UNLIMITED_BYTEPS: u64 = 1 << 40;

/// What happens to packets which the transmitter has sent.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Netem {
    /// `None` for infinite.
    pub(in super::super) rate_bps: Option<u64>,
    pub(in super::super) delay: Duration,
    pub(in super::super) jitter: Duration,
    pub(in super::super) loss: Loss,
}

impl Netem {
    /// Whether packets pass as they are.
    pub(in super::super) fn is_nothing(&self) -> bool {
        self.rate_bps.is_none() && self.delay.is_zero() && self.jitter.is_zero() && self.loss == Loss::None
    }

    /// The packet's transmission time is netem's, so that the last bit leaves when the simulator's does, and order is kept:
    /// with a rate netem never lets a packet overtake another. A change replaces delay, jitter, loss and the generator's
    /// state, so each of them needs its own seed.
    ///
    /// # Errors
    /// A loss which netem cannot do.
    pub(in super::super) fn options(&self, seed: u64) -> Result<Vec<u8>, NetworkError> {
        // Evenly from mean − deviation to mean + deviation: netem without a table.
        let deviation_ns = ns(self.jitter) / 2;
        let mean_ns = ns(self.delay) + deviation_ns;
        let rate_byteps = self.rate_bps.map_or(RATE_UNLIMITED_BYTEPS, |rate| (rate / 8).max(1));
        let rate = u32::try_from(rate_byteps).unwrap_or(u32::MAX);
        let overhead = ETHERNET_BYTES.wrapping_neg(); // signed: IP bytes count
        let (loss, chain) = self.loss()?;
        // `struct tc_netem_qopt`: latency and jitter here are coarser than those of the attributes and give way to them.
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
        Ok(attributes.u64(TCA_NETEM_PRNG_SEED, seed).into_bytes())
    }

    /// Independent loss, and the four numbers of Gilbert and Elliott.
    fn loss(&self) -> Result<(u32, Option<[u32; 4]>), NetworkError> {
        match self.loss {
            Loss::None => Ok((0, None)),
            Loss::Bernoulli { p } => Ok((probability(p), None)),
            Loss::GilbertElliott { p_good_to_bad, p_bad_to_good, loss_good, loss_bad } => {
                // The third is the share which the bad state lets through.
                let chain = [p_good_to_bad, p_bad_to_good, 1.0 - loss_bad, loss_good];
                Ok((0, Some(chain.map(probability))))
            }
            Loss::Trace(_) => Err(NetworkError::layout("the kernel has no loss by trace")),
        }
    }
}

fn ns(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX / 2)
}
