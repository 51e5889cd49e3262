//! Any bytes as the options of a segment. The first byte chooses the profile.

use dfcp_wire::{Flags, HEADER_BYTES, Header, OPTIONS_BYTES_MAX, Options, Profile, Segment};
use dfcp_wire::{encode, finish, write_header};

/// Panics if a decoder does, or if the options do not survive being encoded and decoded again.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, area)) = data.split_first() else {
        return;
    };
    let profile = if choice & 1 == 0 { Profile::Classic } else { Profile::Modern };
    let header = Header {
        source_port: 1,
        destination_port: 2,
        block_id: 3,
        s1: 4,
        flags: Flags::SYN,
        profile,
        epoch: 0,
        s2: 5,
        s3: 6,
    };
    let area = &area[..area.len().min(OPTIONS_BYTES_MAX)];
    let mut datagram = [0; 128];
    write_header(&mut datagram, &header, &Options::default()).expect("128 bytes hold a header");
    let start = HEADER_BYTES + area.len().next_multiple_of(4);
    datagram[HEADER_BYTES..HEADER_BYTES + area.len()].copy_from_slice(area);
    datagram[12] = ((start / 4) << 4) as u8 | datagram[12] & 0x0F; // the data offset
    let length = finish(&mut datagram, start).expect("128 bytes hold any options");

    if let Ok(segment) = Segment::decode(&datagram[..length]) {
        assert_eq!((segment.header, segment.payload.len()), (header, 0));
        let mut out = [0; 128];
        let length = encode(&mut out, &header, &segment.options, &[]).expect("decoded values encode");
        assert_eq!(Segment::decode(&out[..length]), Ok(segment));
    }
}
