//! Any bytes as a datagram, as they are and with their integrity repaired.

use super::typed;
use dfcp_testkit::raw;
use dfcp_wire::CRC_BYTES;

/// Panics if a decoder does, or if what was decoded does not survive being encoded and decoded again.
pub(crate) fn run(data: &[u8]) {
    typed::run(data);
    // Checksum and CRC would keep nearly all inputs from the options behind them.
    for room in [0, CRC_BYTES] {
        let mut repaired = [data, &[0; CRC_BYTES][..room]].concat();
        raw::renew(&mut repaired);
        typed::run(&repaired);
    }
}
