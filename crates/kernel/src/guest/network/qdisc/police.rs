//! police: the policer, an action in front of a queue discipline.

use dfcp_netem::Policer;

use super::super::attributes::Attributes;
use super::structure;

const TCA_POLICE_TBF: u16 = 1;
const TCA_POLICE_RATE: u16 = 2;
const TCA_POLICE_RATE64: u16 = 8;

const TC_ACT_SHOT: u32 = 2;
/// `TC_LINKLAYER_ETHERNET`: sizes are used unchanged.
const LINKLAYER_ETHERNET: u8 = 1;
/// Size of a rate table, which the kernel requires and does not use.
const TABLE_BYTES: usize = 1024;
/// Cell size of the rate table, as a power of two; the kernel refuses zero.
const CELL_LOG: u8 = 3;
/// Greatest packet size.
const MTU_BYTES: u32 = 65_535;
/// Nanoseconds per tick, the unit of a burst (`PSCHED_SHIFT`).
const TICK_NS: u128 = 64;

/// Options that drop packets beyond `policer`. The kernel counts Ethernet headers here without a way to exclude them, so the rate is raised
/// to be exact for packets with `frame.1` bytes without and `frame.0` bytes with the header.
pub(in super::super) fn options(policer: Policer, frame: (u64, u64)) -> Attributes {
    let framed = u128::from(policer.rate_bps) * u128::from(frame.0) / u128::from(frame.1);
    let rate_byteps = u64::try_from(framed / 8).unwrap_or(u64::MAX).max(1);
    let rate = u32::try_from(rate_byteps).unwrap_or(u32::MAX);
    // The fill time of the bucket does not depend on headers.
    let burst_ns = u128::from(policer.bucket_bytes) * 8 * 1_000_000_000 / u128::from(policer.rate_bps.max(1));
    let burst_ticks = u32::try_from(burst_ns.div_ceil(TICK_NS)).unwrap_or(u32::MAX);
    // `struct tc_ratespec` is cell_log (u8), linklayer (u8), overhead (u16), cell_align (u16), mpu (u16), rate (u32).
    let linklayer = u32::from_ne_bytes([CELL_LOG, LINKLAYER_ETHERNET, 0, 0]);
    let (index, limit, peak, counts) = (0, 0, [0; 3], [0; 3]);
    let police = [index, TC_ACT_SHOT, limit, burst_ticks, MTU_BYTES, linklayer, 0, rate];
    let police: Vec<u32> = police.into_iter().chain(peak).chain(counts).collect();
    Attributes::new()
        .bytes(TCA_POLICE_TBF, &structure(&police))
        .bytes(TCA_POLICE_RATE, &[0; TABLE_BYTES])
        .u64(TCA_POLICE_RATE64, rate_byteps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_with_its_header_takes_as_long_as_without() {
        // At 12 Mbit/s each of the four packets in the bucket takes 1 ms.
        let bytes = options(Policer { rate_bps: 12_000_000, bucket_bytes: 6_000 }, (1514, 1500)).into_bytes();
        let number = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        assert_eq!(bytes[..4], [60, 0, 1, 0]);
        assert_eq!((number(8), number(16), number(20)), (TC_ACT_SHOT, 4_000_000 / 64, MTU_BYTES));
        assert_eq!(bytes[24..28], [CELL_LOG, 1, 0, 0]);
        assert_eq!(number(32), 1_514_000);
        assert_eq!(bytes[60..64], [4, 4, 2, 0]);
        assert_eq!(bytes.len(), 60 + 4 + 1024 + 12);
    }
}
