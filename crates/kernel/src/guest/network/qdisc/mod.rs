//! Options of the kernel's queue disciplines as bytes, in the layout of `include/uapi/linux/pkt_sched.h`.

pub(super) mod fq_codel;
pub(super) mod netem;
pub(super) mod police;
pub(super) mod red;
pub(super) mod sfq;
pub(super) mod tbf;

use super::attributes::Attributes;

const TCA_DRR_QUANTUM: u16 = 1;

/// Bytes of the Ethernet header, which the kernel counts as part of every packet.
pub(super) const ETHERNET_BYTES: u32 = 14;

/// Options of pfifo (drop-tail), `struct tc_fifo_qopt`. The limit is in packets.
pub(super) fn fifo_options(limit_packets: u32) -> Vec<u8> {
    structure(&[limit_packets])
}

/// Options of a class of DRR; the discipline itself has none.
pub(super) fn drr_class_options(quantum_bytes: u32) -> Vec<u8> {
    Attributes::new().u32(TCA_DRR_QUANTUM, quantum_bytes).into_bytes()
}

/// Converts a probability to the kernel's form, a share of 2³² − 1.
fn probability(p: f64) -> u32 {
    (p * f64::from(u32::MAX)).round() as u32 // saturates
}

/// Encodes the numbers of a C structure.
fn structure(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_span_the_whole_range() {
        assert_eq!([0.0, 0.5, 1.0, 2.0].map(probability), [0, 0x8000_0000, u32::MAX, u32::MAX]);
    }
}
