//! red: random early detection.

use dfcp_netem::{Red, RedUnit};

use super::super::attributes::{Attributes, u32_at};
use super::super::error::NetworkError;
use super::{probability, structure};

const TCA_RED_PARMS: u16 = 1;
const TCA_RED_STAB: u16 = 2;
const TCA_RED_MAX_P: u16 = 3;
const TCA_RED_FLAGS: u16 = 4;
/// Bit in `TCA_RED_FLAGS`.
const ECN: u32 = 1;
const HARD_DROP: u32 = 2;
const NO_DROP: u32 = 8;

/// Bytes per packet in the kernel's RED.
const PACKET_BYTES: u64 = 1500;
/// Entries in the table of idle times.
const TABLE_ENTRIES: u32 = 256;

/// Options of RED. Thresholds are in bytes, including IP headers. The kernel's RED, unlike the simulator's, is not gentle: above the upper
/// threshold it drops every packet. `rate_bps` is the initial rate of the link, which sets the decay of the average while the link is idle.
///
/// # Errors
/// Fails for thresholds that exceed the kernel's 32-bit arithmetic.
pub(in super::super) fn options(red: &Red, rate_bps: u64) -> Result<Vec<u8>, NetworkError> {
    let unit = if red.unit == RedUnit::Packets { PACKET_BYTES } else { 1 };
    let bytes = |threshold: u64| u32::try_from(threshold.saturating_mul(unit)).unwrap_or(u32::MAX);
    let (min, max) = (bytes(red.min_threshold), bytes(red.max_threshold));
    // The weight is 2^-Wlog.
    let weight_log = (-red.weight.log2()).round().clamp(0.0, 31.0) as u32;
    if max.leading_zeros() <= weight_log {
        return Err(NetworkError::layout("RED's upper threshold is beyond what the kernel can average"));
    }
    // The probability rises by 2^-Plog per byte; the exact one is in a separate attribute.
    let slope = f64::from(max.saturating_sub(min).max(1)) / red.max_probability.max(f64::MIN_POSITIVE);
    let slope_log = slope.log2().ceil().clamp(0.0, 31.0) as u32;
    let (cell_log, table) = idle_table(red, rate_bps);
    let logs = u32::from_ne_bytes([weight_log as u8, slope_log as u8, cell_log, 0]);
    let no_queue_of_its_own = 0; // the child discipline is created separately, and limits packets
    let options = Attributes::new()
        .bytes(TCA_RED_PARMS, &structure(&[no_queue_of_its_own, min, max, logs]))
        .bytes(TCA_RED_STAB, &table)
        .u32(TCA_RED_MAX_P, probability(red.max_probability));
    let options = if red.ecn { options.bytes(TCA_RED_FLAGS, &structure(&flags(red))) } else { options };
    Ok(options.into_bytes())
}

/// Encodes `struct nla_bitfield32`: values, and the mask of those set here.
fn flags(red: &Red) -> [u32; 2] {
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    [flag(red.ecn, ECN) | flag(red.hard_drop, HARD_DROP) | flag(red.no_drop, NO_DROP), ECN | HARD_DROP | NO_DROP]
}

/// Number of marked packets, from `struct tc_red_xstats`.
pub(in super::super) fn marked_packets(statistics: &[u8]) -> Option<u64> {
    u32_at(statistics, 3).map(u64::from)
}

/// Table for the decay of the average in an idle time: entry i, for i·2^`cell_log` µs, is the binary logarithm of 1 / (1 − weight)^m, where
/// m is the number of packets that could have been sent in that time. Cells are long enough for the table to cover the decay of a 32-bit
/// average to zero. (The table computed by `tc` is in ticks of 64 ns and natural logarithms, but the kernel reads it in microseconds and
/// binary ones: with it averages fall slower than the authors of RED intended.)
fn idle_table(red: &Red, rate_bps: u64) -> (u8, Vec<u8>) {
    let packet_us = f64::from(red.mean_packet_bytes) * 8e6 / rate_bps.max(1) as f64;
    let halvings_per_packet = -(1.0 - red.weight).log2();
    let halvings_per_us = (halvings_per_packet / packet_us).max(f64::MIN_POSITIVE);
    let gone_us = f64::from(u32::BITS - 1) / halvings_per_us;
    let cell_log = (gone_us / f64::from(TABLE_ENTRIES - 1)).log2().ceil().clamp(0.0, 31.0);
    let cell_us = cell_log.exp2();
    let entry = |at: u32| (f64::from(at) * cell_us * halvings_per_us).round().min(f64::from(u32::BITS - 1)) as u8;
    (cell_log as u8, (0..TABLE_ENTRIES).map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::super::super::attributes::find;
    use super::*;

    #[test]
    fn parameters_are_those_of_tc() {
        // red min 7500 max 22500 probability 0.1, with a weight of 1/8; the limit is that of the queue below.
        let bytes = options(&Red { weight: 0.125, ..Red::default() }, 10_000_000).unwrap();
        let parms = find(&bytes, TCA_RED_PARMS).unwrap();
        assert_eq!(parms[..12], structure(&[0, 7500, 22_500]));
        assert_eq!(parms[12..14], [3, 18]);
        assert_eq!(find(&bytes, TCA_RED_MAX_P).and_then(|value| u32_at(value, 0)), Some(0x1999_999a));
        assert_eq!(find(&bytes, TCA_RED_STAB).unwrap().len(), 256);
    }

    #[test]
    fn an_idle_link_halves_the_average_as_often_as_packets_would() {
        for (weight, rate_bps) in [(0.002, 10_000_000), (0.002, 1_000_000_000), (0.125, 1_000_000)] {
            let red = Red { weight, ..Red::default() };
            let (cell_log, table) = idle_table(&red, rate_bps);
            let cell_us = f64::from(cell_log).exp2();
            for (at, &halvings) in table.iter().enumerate() {
                let packets = at as f64 * cell_us / (8e9 / rate_bps as f64);
                let kept = (1.0 - weight).powf(packets);
                let expected = -kept.log2().max(-31.0);
                assert!((f64::from(halvings) - expected).abs() <= 0.5001, "{weight} {rate_bps} {at}: {halvings}");
            }
            assert!(table[255] == 31 && table[100] < 31, "the table spans what matters");
        }
    }

    #[test]
    fn red_marks_where_it_is_told_to() {
        let of = |red: Red| find(&options(&red, 1).unwrap(), TCA_RED_FLAGS).map(<[u8]>::to_vec);
        let red = Red { ecn: true, ..Red::default() };
        assert_eq!(of(Red::default()), None);
        assert_eq!(of(red), Some(structure(&[1, 11])));
        assert_eq!(of(Red { hard_drop: true, ..red }), Some(structure(&[3, 11])));
        assert_eq!(of(Red { no_drop: true, ..red }), Some(structure(&[9, 11])));
        // Early drops, drops at the limit, other drops, marks.
        assert_eq!(marked_packets(&structure(&[1, 2, 3, 4])), Some(4));
        assert_eq!(marked_packets(&structure(&[1, 2, 3])), None);
    }

    #[test]
    fn thresholds_which_cannot_be_averaged_are_refused() {
        let red = Red { max_threshold: 3000, ..Red::default() };
        assert!(options(&red, 1).is_err());
        assert!(options(&Red { max_threshold: 2700, ..red }, 1).is_ok());
    }
}
