//! sfq: stochastic fair queueing.

use dfcp_netem::Sfq;

use super::structure;

/// Most packets of one flow in the kernel's SFQ, for any limit (`SFQ_MAX_DEPTH` in `sch_sfq.c`).
const DEPTH_PACKETS_MAX: u32 = 127;
/// Least limit of the kernel's SFQ: with one packet its longest queue would be empty.
const LIMIT_PACKETS_MIN: u32 = 2;

/// Encodes `struct tc_sfq_qopt_v1`. The kernel's SFQ, unlike the simulator's, holds at most 127 packets of a flow. The perturbation
/// interval is in whole seconds.
pub(in super::super) fn options(sfq: &Sfq, limit_packets: u32) -> Vec<u8> {
    let perturb_s = sfq.perturbation.map_or(0, |interval| interval.as_secs().max(1) as u32);
    // The number of buckets is a power of two, and also limits the number of concurrent flows.
    let buckets = sfq.buckets.checked_next_power_of_two().unwrap_or(1 << 16);
    let limit = limit_packets.max(LIMIT_PACKETS_MIN);
    let fair = [sfq.quantum_bytes, perturb_s, limit, buckets, buckets, DEPTH_PACKETS_MAX];
    // Drops at the tail of a flow; no inner RED, so its parameters and statistics are zero.
    let (head_drop, red, statistics) = (0, [0; 5], [0; 6]);
    let numbers: Vec<u32> = fair.into_iter().chain([head_drop]).chain(red).chain(statistics).collect();
    structure(&numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_tc() {
        // sfq quantum 1514 limit 100 divisor 1024 depth 127 flows 1024
        let mut golden = vec![0xea, 5, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 127, 0, 0, 0];
        golden.resize(72, 0);
        assert_eq!(options(&Sfq::default(), 100), golden);
        let odd = options(&Sfq { buckets: 1000, ..Sfq::default() }, 1);
        assert_eq!(odd[8..12], [2, 0, 0, 0]);
        assert_eq!(odd[12..20], golden[12..20]);
    }
}
