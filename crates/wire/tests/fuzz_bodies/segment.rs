//! Fuzz body: arbitrary bytes as a datagram, unchanged and with repaired integrity.

use super::typed;
use dfcp_testkit::raw;
use dfcp_wire::CRC_BYTES;

/// Panics if a decoder does, or if the decoded values change in a round trip.
pub(crate) fn run(data: &[u8]) {
    typed::run(data);
    // Checksum and CRC would otherwise shield the options from nearly all inputs.
    for room in [0, CRC_BYTES] {
        let mut repaired = [data, &[0; CRC_BYTES][..room]].concat();
        raw::renew(&mut repaired);
        typed::run(&repaired);
    }
}
