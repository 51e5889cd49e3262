//! tbf: the transmitter of a link.

use super::super::attributes::Attributes;

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;

/// Burst of one full packet, so that packets are sent one by one, plus 9 %: the kernel's timers are some hundred nanoseconds late, which
/// would cost a link of 2 Gbit/s a twentieth of its rate.
const BURST_BYTES: u32 = 1650;
/// `TC_LINKLAYER_ETHERNET`: sizes are used unchanged, and no rate table is needed.
const LINKLAYER_ETHERNET: u32 = 1;

/// Options of tbf. `limit_packets` is 0 for a new tbf, which then creates no child of its own. A change of tbf overwrites the limit of a
/// fifo child with this value, in the child's unit.
pub(in super::super) fn options(rate_bps: u64, limit_packets: u32) -> Vec<u8> {
    let rate_byteps = (rate_bps / 8).max(1);
    let rate = u32::try_from(rate_byteps).unwrap_or(u32::MAX);
    // `struct tc_ratespec` is cell_log (u8), linklayer (u8), overhead (u16), cell_align (u16), mpu (u16), rate (u32).
    let linklayer = u32::from_ne_bytes([0, LINKLAYER_ETHERNET as u8, 0, 0]);
    let peak = [0; 3];
    let (buffer, mtu) = (0, 0); // in time units; TCA_TBF_BURST overrides both
    let parms = [linklayer, 0, rate, peak[0], peak[1], peak[2], limit_packets, buffer, mtu];
    Attributes::new()
        .bytes(TCA_TBF_PARMS, &super::structure(&parms))
        .u64(TCA_TBF_RATE64, rate_byteps)
        .u32(TCA_TBF_BURST, BURST_BYTES)
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_beyond_32_bits_are_whole_in_the_second_attribute() {
        let bytes = options(80_000_000_000, 7);
        assert_eq!(bytes[..4], [40, 0, 1, 0]);
        assert_eq!(bytes[4..8], [0, 1, 0, 0]);
        assert_eq!(bytes[12..16], u32::MAX.to_ne_bytes());
        assert_eq!(bytes[28..32], 7_u32.to_ne_bytes());
        assert_eq!(bytes[40..44], [12, 0, 4, 0]);
        assert_eq!(bytes[44..52], 10_000_000_000_u64.to_ne_bytes());
        assert_eq!(bytes[52..], [8, 0, 6, 0, 0x72, 6, 0, 0]);
    }
}
