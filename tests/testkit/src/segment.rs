//! Modification of unencrypted segments in transit.

use dfcp_wire::Flags;

use crate::host::Packet;
use crate::raw::{self, Header};
use crate::testbed::Tap;

/// Copy of `datagram` with changed header or payload, and a correct CRC. Panics if it is not a segment.
#[must_use]
pub fn rewritten(datagram: &[u8], change: impl FnOnce(&mut Header, &mut Vec<u8>)) -> Vec<u8> {
    let segment = raw::read(datagram).expect("a datagram of the code under test");
    let (mut header, mut payload) = (segment.header, segment.payload.to_vec());
    change(&mut header, &mut payload);
    raw::write(&header, segment.options, &payload)
}

/// Tap that changes every segment with exactly these flags. [`Flags::SEC`] is one of them, so encrypted segments pass unchanged.
#[must_use]
pub fn rewrites(flags: Flags, mut change: impl FnMut(&mut Header, &mut Vec<u8>) + 'static) -> Tap {
    Box::new(move |_, packet| {
        let is_meant = raw::read(&packet.bytes).is_some_and(|it| it.header.flags == flags);
        let bytes = if is_meant { rewritten(&packet.bytes, &mut change) } else { packet.bytes };
        vec![Packet { bytes, ..packet }]
    })
}
