//! `fq_codel`: flow queues with CoDel (RFC 8290).

use std::time::Duration;

use dfcp_netem::FqCodel;

use super::super::attributes::{Attributes, u32_at};

const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_LIMIT: u16 = 2;
const TCA_FQ_CODEL_INTERVAL: u16 = 3;
const TCA_FQ_CODEL_ECN: u16 = 4;
const TCA_FQ_CODEL_FLOWS: u16 = 5;
const TCA_FQ_CODEL_QUANTUM: u16 = 6;
const TCA_FQ_CODEL_CE_THRESHOLD: u16 = 7;
const TCA_FQ_CODEL_DROP_BATCH_SIZE: u16 = 8;
const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;

/// Memory limit, as unlimited as the kernel permits: the limit in packets is the only one.
const MEMORY_BYTES_MAX: u32 = 1 << 31;

/// Options of `fq_codel`; with one queue it is plain CoDel.
pub(in super::super) fn options(fq_codel: &FqCodel, limit_packets: u32) -> Vec<u8> {
    let options = Attributes::new()
        .u32(TCA_FQ_CODEL_TARGET, us(fq_codel.target))
        .u32(TCA_FQ_CODEL_LIMIT, limit_packets)
        .u32(TCA_FQ_CODEL_INTERVAL, us(fq_codel.interval))
        .u32(TCA_FQ_CODEL_ECN, fq_codel.ecn.into())
        .u32(TCA_FQ_CODEL_FLOWS, fq_codel.queues)
        .u32(TCA_FQ_CODEL_QUANTUM, fq_codel.quantum_bytes)
        .u32(TCA_FQ_CODEL_DROP_BATCH_SIZE, fq_codel.drop_batch_packets)
        .u32(TCA_FQ_CODEL_MEMORY_LIMIT, MEMORY_BYTES_MAX);
    let options = match fq_codel.ce_threshold {
        Some(threshold) => options.u32(TCA_FQ_CODEL_CE_THRESHOLD, us(threshold)),
        None => options, // the kernel's default: no marks by threshold
    };
    options.into_bytes()
}

/// Number of packets marked instead of dropped plus those marked by the threshold, from `struct tc_fq_codel_xstats`. A packet marked by
/// both counts twice.
pub(in super::super) fn marked_packets(statistics: &[u8]) -> Option<u64> {
    let [told, by_threshold] = [3, 7].map(|at| u32_at(statistics, at));
    Some(u64::from(told?) + u64::from(by_threshold?))
}

fn us(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::super::attributes::{find, parse};
    use super::*;

    #[test]
    fn options_are_those_of_tc() {
        // fq_codel limit 100 target 5ms interval 100ms noecn flows 1024 quantum 1514 drop_batch 64 memory_limit 2147483648
        let golden = [
            8, 0, 2, 0, 100, 0, 0, 0, 8, 0, 5, 0, 0, 4, 0, 0, 8, 0, 6, 0, 0xea, 5, 0, 0, 8, 0, 3, 0, 0xa0, 0x86, 1, 0,
            8, 0, 1, 0, 0x88, 0x13, 0, 0, 8, 0, 4, 0, 0, 0, 0, 0, 8, 0, 9, 0, 0, 0, 0, 0x80, 8, 0, 8, 0, 64, 0, 0, 0,
        ];
        let bytes = options(&FqCodel::default(), 100);
        let sorted = |bytes| {
            let mut all: Vec<_> = parse(bytes).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(sorted(&bytes), sorted(&golden));
    }

    #[test]
    fn codel_marks_where_it_is_told_to() {
        let threshold = Duration::from_millis(1);
        let bytes = options(&FqCodel { ecn: true, ce_threshold: Some(threshold), ..FqCodel::single_queue() }, 100);
        let number = |kind| find(&bytes, kind).and_then(|value| u32_at(value, 0));
        let told = [TCA_FQ_CODEL_FLOWS, TCA_FQ_CODEL_ECN, TCA_FQ_CODEL_CE_THRESHOLD].map(number);
        assert_eq!(told, [Some(1), Some(1), Some(1_000)]);
        assert_eq!(find(&options(&FqCodel::default(), 100), TCA_FQ_CODEL_CE_THRESHOLD), None);
    }

    #[test]
    fn marks_are_where_the_kernel_has_them() {
        // Type, largest packet, drops over the limit, marks, new flows, lengths of both lists, marks by threshold, memory, drops.
        let statistics: Vec<u8> = (0..10_u32).map(|at| at * at).flat_map(u32::to_ne_bytes).collect();
        assert_eq!(marked_packets(&statistics), Some(9 + 49));
        assert_eq!(marked_packets(&statistics[..28]), None);
    }
}
