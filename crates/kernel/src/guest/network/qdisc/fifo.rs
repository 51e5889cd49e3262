//! pfifo: drop-tail.

use super::structure;

/// `struct tc_fifo_qopt`. The limit is in packets.
pub(in super::super) fn options(limit_packets: u32) -> Vec<u8> {
    structure(&[limit_packets])
}
