//! The IPv4 header which a raw socket delivers before the payload (RFC 791 §3.1).

use std::ops::Range;

/// The shortest header.
const HEADER_BYTES_MIN: usize = 20;

/// Where the payload of an IPv4 packet of `protocol` is; `None` if the packet is of another one or its lengths do not fit
/// together, as when the buffer was too short for it.
pub(super) fn payload(packet: &[u8], protocol: u8) -> Option<Range<usize>> {
    let header = packet.first_chunk::<HEADER_BYTES_MIN>()?;
    let header_bytes = usize::from(header[0] & 0x0F) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_sound = header[0] >> 4 == 4 && header[9] == protocol && header_bytes >= HEADER_BYTES_MIN;
    let is_whole = header_bytes <= total_bytes && total_bytes <= packet.len();
    (is_sound && is_whole).then_some(header_bytes..total_bytes)
}
