//! Cleartext datagrams for tests.

use dfcp_wire::segment::{Address, Received, Segment};
use dfcp_wire::{DATAGRAM_BYTES_MAX, Unverified};

/// Writes a datagram with number 0.
pub(super) fn datagram(segment: Segment, address: Address, payload: &[u8]) -> Vec<u8> {
    numbered(segment, address, 0, payload)
}

pub(super) fn numbered(segment: Segment, address: Address, number: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = [0; DATAGRAM_BYTES_MAX];
    let mut draft = segment.begin_clear(address, number, &mut out);
    draft.payload(payload.len()).unwrap().copy_from_slice(payload);
    let length = draft.finish();
    out[..length].to_vec()
}

pub(super) fn received(datagram: &[u8]) -> Received<'_> {
    let Ok(Unverified::Clear(header)) = Unverified::read(datagram) else { panic!("it is not in the clear") };
    header.verify(datagram).unwrap()
}

/// Recomputes the CRC of a datagram that has been changed.
pub(super) fn renew_crc(datagram: &mut [u8]) {
    let (covered, crc) = datagram.split_last_chunk_mut().unwrap();
    *crc = crc_fast::crc32_iscsi(covered).to_be_bytes();
}
