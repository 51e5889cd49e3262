//! The IPv4 header before the payload of a raw socket (RFC 791 §3.1).

use std::net::Ipv4Addr;
use std::ops::Range;

/// Length of a header without options.
pub(super) const HEADER_BYTES_MIN: usize = 20;

/// Flag "do not fragment".
const FLAG_DF: u8 = 0x40;

/// Returns the range of the payload in an IPv4 packet of `protocol`. `None` if the packet has another protocol or
/// inconsistent lengths, for example because the buffer was too short.
pub(super) fn payload(packet: &[u8], protocol: u8) -> Option<Range<usize>> {
    let header = packet.first_chunk::<HEADER_BYTES_MIN>()?;
    let header_bytes = usize::from(header[0] & 0x0F) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_sound = header[0] >> 4 == 4 && header[9] == protocol && header_bytes >= HEADER_BYTES_MIN;
    let is_whole = header_bytes <= total_bytes && total_bytes <= packet.len();
    (is_sound && is_whole).then_some(header_bytes..total_bytes)
}

/// Returns the header of a packet that must not be fragmented. The system fills in the zero fields: lengths,
/// identification, checksum, and an unspecified source.
pub(super) fn header(
    protocol: u8,
    (ttl, tos): (u8, u8),
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> [u8; HEADER_BYTES_MIN] {
    let mut header = [0; HEADER_BYTES_MIN];
    header[0] = 0x45;
    header[1] = tos;
    header[6] = FLAG_DF;
    header[8] = ttl;
    header[9] = protocol;
    header[12..16].copy_from_slice(&source.octets());
    header[16..20].copy_from_slice(&destination.octets());
    header
}
