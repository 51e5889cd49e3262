//! Fuzz body: arbitrary bytes as the options of a segment. The first byte chooses the profile and the kind.

use super::typed;
use dfcp_testkit::raw::{self, Header};
use dfcp_wire::{Flags, OPTIONS_BYTES_MAX, Profile};

/// Decodes a segment with these options, and checks that it survives a round trip. Panics if a decoder does.
pub(crate) fn run(data: &[u8]) {
    let Some((choice, area)) = data.split_first() else {
        return;
    };
    let profile = if choice & 1 == 0 { Profile::Classic } else { Profile::Modern };
    let flags = if choice & 2 == 0 { Flags::SYN } else { Flags::NONE };
    let mut area = area[..area.len().min(OPTIONS_BYTES_MAX)].to_vec();
    area.resize(area.len().next_multiple_of(4), 0);
    let header = Header { profile, s2: 0x20, ..Header::modern(flags, 0x0001_0002) };
    typed::run(&raw::write(&header, &area, &[]));
}
