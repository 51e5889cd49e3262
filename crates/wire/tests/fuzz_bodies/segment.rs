//! Fuzz body: arbitrary bytes as a datagram, unchanged and with repaired integrity.

use super::typed;
use dfcp_testkit::raw;
use dfcp_wire::CRC_BYTES;

/// Decodes `data`, and checks that the values survive a round trip. Panics if a decoder does.
pub(crate) fn run(data: &[u8]) {
    typed::run(data);
    // Also repair the checksum and the CRC. Otherwise nearly all inputs would fail there, before their options are
    // decoded.
    for room in [0, CRC_BYTES] {
        let mut repaired = [data, &[0; CRC_BYTES][..room]].concat();
        raw::renew(&mut repaired);
        typed::run(&repaired);
    }
}
