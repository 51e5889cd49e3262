//! `fq_codel`: flow queues with CoDel (RFC 8290).

use std::time::Duration;

use dfcp_netem::FqCodel;

use super::super::attributes::Attributes;

const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_LIMIT: u16 = 2;
const TCA_FQ_CODEL_INTERVAL: u16 = 3;
const TCA_FQ_CODEL_ECN: u16 = 4;
const TCA_FQ_CODEL_FLOWS: u16 = 5;
const TCA_FQ_CODEL_QUANTUM: u16 = 6;
const TCA_FQ_CODEL_DROP_BATCH_SIZE: u16 = 8;
const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;

/// Beside the limit in packets nothing else limits: what the kernel takes for unlimited.
const MEMORY_BYTES_MAX: u32 = 1 << 31;

pub(in super::super) fn options(fq_codel: &FqCodel, limit_packets: u32) -> Vec<u8> {
    Attributes::new()
        .u32(TCA_FQ_CODEL_TARGET, us(fq_codel.target))
        .u32(TCA_FQ_CODEL_LIMIT, limit_packets)
        .u32(TCA_FQ_CODEL_INTERVAL, us(fq_codel.interval))
        .u32(TCA_FQ_CODEL_ECN, 0) // congestion is told by losses, as in the simulator
        .u32(TCA_FQ_CODEL_FLOWS, fq_codel.queues)
        .u32(TCA_FQ_CODEL_QUANTUM, fq_codel.quantum_bytes)
        .u32(TCA_FQ_CODEL_DROP_BATCH_SIZE, fq_codel.drop_batch_packets)
        .u32(TCA_FQ_CODEL_MEMORY_LIMIT, MEMORY_BYTES_MAX)
        .into_bytes()
}

fn us(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::super::attributes::parse;
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
}
