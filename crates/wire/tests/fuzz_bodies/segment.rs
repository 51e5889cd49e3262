//! Any bytes as a datagram, as they are and with their integrity repaired.

use super::typed;
use dfcp_wire::{DATAGRAM_BYTES_MAX, Segment, encode, finish, peek};

/// Panics if a decoder does, or if what was decoded does not survive being encoded and decoded again.
pub(crate) fn run(data: &[u8]) {
    check(data);
    // Checksum and CRC would keep nearly all inputs from the options behind them.
    let mut repaired = [0; DATAGRAM_BYTES_MAX];
    if let Some(place) = repaired.get_mut(..data.len()) {
        place.copy_from_slice(data);
        if let Ok(length) = finish(&mut repaired, data.len()) {
            check(&repaired[..length]);
        }
    }
}

fn check(datagram: &[u8]) {
    typed::run(datagram);
    let Ok(segment) = Segment::decode(datagram) else {
        return;
    };
    let seen = peek(datagram).expect("what decodes can be routed");
    assert_eq!(seen.connection_id, segment.header.connection_id());
    assert!(segment.payload.len() <= datagram.len());

    let mut out = [0; DATAGRAM_BYTES_MAX];
    let length = encode(&mut out, &segment.header, &segment.options, segment.payload).expect("decoded values encode");
    assert!(length <= datagram.len(), "the canonical form is the shortest");
    assert_eq!(Segment::decode(&out[..length]), Ok(segment));
}
