//! Queue disciplines and their parameters.

use std::time::Duration;

use crate::error::{ConfigError, checked_probability};
use crate::random::mix;

/// Number of flows that [`Discipline::Drr`] and [`Discipline::Wfq`] distinguish. A flow n at or above this limit shares
/// queue and weight with flow n mod `FLOWS_MAX`. Number flows from 0, because tables grow to the highest number used.
pub const FLOWS_MAX: usize = 65_536;

/// Smallest quantum, bytes. The papers advise a quantum of at least the largest packet, for which every packet costs
/// O(1). With a smaller quantum, several rounds over all flows may be needed to send a packet.
pub const QUANTUM_BYTES_MIN: u32 = 64;

/// Default quantum, bytes: a full Ethernet frame without checksum, as in Linux.
pub const QUANTUM_BYTES_DEFAULT: u32 = 1514;

/// Rule that selects the packet to send next, and the packet to drop. The limit of the queue,
/// [`QueueLimit`](crate::QueueLimit), is set separately.
///
/// If the queue is full, DropTail and RED drop the arriving packet. DRR, SFQ and WFQ drop the newest packet of the flow
/// with the most bytes, which may be the arriving packet. FQ-CoDel drops the oldest packets of this flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Discipline {
    /// First in, first out.
    #[default]
    DropTail,
    /// Deficit round robin (Shreedhar and Varghese 1996).
    Drr(Drr),
    /// Stochastic fair queueing (McKenney 1990).
    Sfq(Sfq),
    /// Weighted fair queueing (Demers, Keshav and Shenker 1989) with exact virtual time.
    Wfq(Wfq),
    /// Flow queues with CoDel (RFC 8290). With a [single queue](FqCodel::single_queue), plain CoDel (RFC 8289).
    FqCodel(FqCodel),
    /// Random early detection (Floyd and Jacobson 1993).
    Red(Red),
}

/// Parameters of deficit round robin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drr {
    /// Bytes that a flow of weight 1 may send per round; at least [`QUANTUM_BYTES_MIN`].
    pub quantum_bytes: u32,
    /// Weight of flow n at index n, 1 to 65 535; flows beyond the end have weight 1. At most [`FLOWS_MAX`] entries.
    pub weights: Vec<u16>,
}

impl Default for Drr {
    /// Default: equal weights, quantum [`QUANTUM_BYTES_DEFAULT`].
    fn default() -> Self {
        Self { quantum_bytes: QUANTUM_BYTES_DEFAULT, weights: Vec::new() }
    }
}

/// Parameters of stochastic fair queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sfq {
    /// Number of hash buckets, 1 to 65 536. Flows in the same bucket share its turns.
    pub buckets: u32,
    /// Bytes that a bucket may send per turn; at least [`QUANTUM_BYTES_MIN`].
    pub quantum_bytes: u32,
    /// Interval between changes of the hash function, so that collisions do not persist. Above zero; `None` for no
    /// changes.
    pub perturbation: Option<Duration>,
}

impl Default for Sfq {
    /// Default: 1024 buckets, quantum [`QUANTUM_BYTES_DEFAULT`], no perturbation, as in Linux.
    fn default() -> Self {
        Self { buckets: 1024, quantum_bytes: QUANTUM_BYTES_DEFAULT, perturbation: None }
    }
}

/// Parameters of weighted fair queueing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wfq {
    /// Weight of flow n at index n, 1 to 65 535; flows beyond the end have weight 1. At most [`FLOWS_MAX`] entries.
    pub weights: Vec<u16>,
}

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodel {
    /// Number of queues to which flows are hashed, 1 to 65 536.
    pub queues: u32,
    /// Bytes that a queue may send per round; at least [`QUANTUM_BYTES_MIN`].
    pub quantum_bytes: u32,
    /// Acceptable sojourn time of a standing queue. Above zero.
    pub target: Duration,
    /// Time for which the sojourn time must exceed `target` before the first drop. Above zero.
    pub interval: Duration,
    /// Maximum number of packets dropped together from the longest queue when the limit is exceeded; at least 1.
    pub drop_batch_packets: u32,
    /// True to mark ECN-capable packets instead of dropping them early. A full queue still drops them.
    pub ecn: bool,
    /// Sojourn time above which every ECN-capable packet is marked, even without `ecn`: the step marking of DCTCP.
    /// `None` for no such threshold.
    pub ce_threshold: Option<Duration>,
}

impl Default for FqCodel {
    /// Default: the values of RFC 8290, §5.2 (1024 queues, quantum 1514 bytes, target 5 ms, interval 100 ms, batch of
    /// 64 packets).
    fn default() -> Self {
        Self {
            queues: 1024,
            quantum_bytes: QUANTUM_BYTES_DEFAULT,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            drop_batch_packets: 64,
            ecn: false,
            ce_threshold: None,
        }
    }
}

impl FqCodel {
    /// Returns plain CoDel: the default parameters with one queue for all flows.
    #[must_use]
    pub fn single_queue() -> Self {
        Self { queues: 1, ..Self::default() }
    }
}

/// Unit of RED's thresholds and average queue length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedUnit {
    /// Packets. The drop probability does not depend on the packet's size.
    #[default]
    Packets,
    /// Bytes. The drop probability is proportional to the packet's size, and has its nominal value at
    /// `mean_packet_bytes`.
    Bytes,
}

/// Parameters of random early detection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Unit of both thresholds.
    pub unit: RedUnit,
    /// Average queue length below which no packet is dropped early.
    pub min_threshold: u64,
    /// Average queue length at which the drop probability reaches `max_probability`. Above `min_threshold`.
    pub max_threshold: u64,
    /// Probability of an early drop at `max_threshold`, 0 to 1.
    pub max_probability: f64,
    /// Weight of the newest queue length in the moving average, above 0 and at most 1.
    pub weight: f64,
    /// True to raise the probability linearly to 1 between `max_threshold` and twice that; false for 1 from
    /// `max_threshold` on.
    pub gentle: bool,
    /// Typical packet size, bytes, at least 1. It scales the decay of the average while the link is idle, and the
    /// probability with [`RedUnit::Bytes`].
    pub mean_packet_bytes: u32,
    /// True to mark ECN-capable packets instead of dropping them early. A full queue still drops them.
    pub ecn: bool,
    /// With `ecn`: true to drop packets from `max_threshold` on (RFC 3168, §7); false to mark them, as in Linux.
    pub hard_drop: bool,
    /// With `ecn`: true to never drop packets early that are not ECN-capable (`nodrop` in Linux).
    pub no_drop: bool,
}

impl Default for Red {
    /// Default: thresholds of 5 and 15 packets, weight 0.002 (as in the paper), maximum probability 0.1, gentle (later
    /// advice of Floyd), packets of 1000 bytes.
    fn default() -> Self {
        Self {
            unit: RedUnit::Packets,
            min_threshold: 5,
            max_threshold: 15,
            max_probability: 0.1,
            weight: 0.002,
            gentle: true,
            mean_packet_bytes: 1000,
            ecn: false,
            hard_drop: false,
            no_drop: false,
        }
    }
}

impl Discipline {
    /// Checks every parameter, as [`Queue::new`](crate::Queue::new) does.
    ///
    /// # Errors
    /// Returns the first invalid parameter.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::DropTail => Ok(()),
            Self::Drr(drr) => {
                checked_quantum(drr.quantum_bytes)?;
                checked_weights(&drr.weights)
            }
            Self::Wfq(wfq) => checked_weights(&wfq.weights),
            Self::Sfq(sfq) => {
                checked_range("SFQ's number of buckets", sfq.buckets.into(), 1, FLOWS_MAX as u64)?;
                checked_quantum(sfq.quantum_bytes)?;
                sfq.perturbation.map_or(Ok(()), |interval| checked_duration("SFQ's perturbation interval", interval))
            }
            Self::FqCodel(fq_codel) => {
                checked_range("FQ-CoDel's number of queues", fq_codel.queues.into(), 1, FLOWS_MAX as u64)?;
                checked_quantum(fq_codel.quantum_bytes)?;
                checked_duration("CoDel's target", fq_codel.target)?;
                checked_duration("CoDel's interval", fq_codel.interval)?;
                if let Some(threshold) = fq_codel.ce_threshold {
                    checked_duration("CoDel's CE threshold", threshold)?;
                }
                checked_range("FQ-CoDel's drop batch", fq_codel.drop_batch_packets.into(), 1, u32::MAX.into())
            }
            Self::Red(red) => red.validate(),
        }
    }
}

impl Red {
    fn validate(&self) -> Result<(), ConfigError> {
        if self.min_threshold >= self.max_threshold {
            return Err(ConfigError::RedThresholds { min: self.min_threshold, max: self.max_threshold });
        }
        checked_probability("RED's maximum probability", self.max_probability)?;
        checked_probability("RED's weight", self.weight)?;
        if self.weight == 0.0 {
            return Err(ConfigError::ZeroRedWeight);
        }
        if (self.hard_drop || self.no_drop) && !self.ecn {
            return Err(ConfigError::RedWithoutEcn);
        }
        checked_range("RED's mean packet size", self.mean_packet_bytes.into(), 1, u32::MAX.into())
    }
}

fn checked_range(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(ConfigError::OutOfRange { name, value, min, max }) }
}

fn checked_quantum(quantum_bytes: u32) -> Result<(), ConfigError> {
    checked_range("the quantum in bytes", quantum_bytes.into(), QUANTUM_BYTES_MIN.into(), u32::MAX.into())
}

fn checked_duration(name: &'static str, duration: Duration) -> Result<(), ConfigError> {
    if duration.is_zero() { Err(ConfigError::ZeroDuration { name }) } else { Ok(()) }
}

fn checked_weights(weights: &[u16]) -> Result<(), ConfigError> {
    checked_range("the number of weights", weights.len() as u64, 0, FLOWS_MAX as u64)?;
    weights.iter().try_for_each(|&weight| checked_range("a flow's weight", weight.into(), 1, u16::MAX.into()))
}

/// Returns the slot of a flow in per-flow disciplines.
pub(super) fn flow_slot(flow: u64) -> usize {
    (flow % FLOWS_MAX as u64) as usize
}

/// Returns the slot of a flow by hash. `slots` must be above zero.
pub(super) fn hash_slot(flow: u64, key: u64, slots: u32) -> usize {
    ((u128::from(mix(flow ^ key)) * u128::from(slots)) >> 64) as usize
}

pub(super) fn weight_of(weights: &[u16], slot: usize) -> u16 {
    weights.get(slot).copied().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        for discipline in [
            Discipline::DropTail,
            Discipline::Drr(Drr::default()),
            Discipline::Sfq(Sfq::default()),
            Discipline::Wfq(Wfq::default()),
            Discipline::FqCodel(FqCodel::default()),
            Discipline::FqCodel(FqCodel::single_queue()),
            Discipline::Red(Red::default()),
        ] {
            assert_eq!(discipline.validate(), Ok(()), "{discipline:?}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let (sfq, fq_codel, red) = (Sfq::default(), FqCodel::default(), Red::default());
        for discipline in [
            Discipline::Drr(Drr { quantum_bytes: 63, weights: vec![] }),
            Discipline::Drr(Drr { quantum_bytes: 64, weights: vec![3, 0] }),
            Discipline::Wfq(Wfq { weights: vec![0] }),
            Discipline::Wfq(Wfq { weights: vec![1; FLOWS_MAX + 1] }),
            Discipline::Sfq(Sfq { buckets: 0, ..sfq }),
            Discipline::Sfq(Sfq { buckets: 65_537, ..sfq }),
            Discipline::Sfq(Sfq { quantum_bytes: 0, ..sfq }),
            Discipline::Sfq(Sfq { perturbation: Some(Duration::ZERO), ..sfq }),
            Discipline::FqCodel(FqCodel { queues: 0, ..fq_codel }),
            Discipline::FqCodel(FqCodel { quantum_bytes: 1, ..fq_codel }),
            Discipline::FqCodel(FqCodel { target: Duration::ZERO, ..fq_codel }),
            Discipline::FqCodel(FqCodel { interval: Duration::ZERO, ..fq_codel }),
            Discipline::FqCodel(FqCodel { drop_batch_packets: 0, ..fq_codel }),
            Discipline::Red(Red { max_threshold: 5, ..red }),
            Discipline::Red(Red { max_probability: 1.5, ..red }),
            Discipline::Red(Red { weight: 0.0, ..red }),
            Discipline::Red(Red { weight: f64::NAN, ..red }),
            Discipline::Red(Red { mean_packet_bytes: 0, ..red }),
            Discipline::FqCodel(FqCodel { ce_threshold: Some(Duration::ZERO), ..fq_codel }),
            Discipline::Red(Red { no_drop: true, ..red }),
            Discipline::Red(Red { hard_drop: true, ..red }),
        ] {
            assert!(discipline.validate().is_err(), "{discipline:?}");
        }
    }

    #[test]
    fn hashed_slots_are_in_range_and_even() {
        let mut counts = [0u32; 7];
        for flow in 0..70_000 {
            counts[hash_slot(flow, 99, 7)] += 1;
        }
        // Five standard deviations of a binomial count (n = 70 000, p = 1/7) are 463.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 463), "{counts:?}");
    }
}
