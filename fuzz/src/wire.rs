//! The decoders of `dfcp-wire`. Their bodies are in `crates/wire/tests/fuzz_bodies`, where that crate's own property
//! tests use them.

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod bodies;

/// A datagram, as it is and with its integrity repaired.
pub fn segment(data: &[u8]) {
    bodies::segment::run(data);
}

/// The options of a segment; the first byte chooses the profile.
pub fn options(data: &[u8]) {
    bodies::options::run(data);
}

/// The payload of a modern SYN or SYNACK.
pub fn handshake(data: &[u8]) {
    bodies::handshake::run(data);
}

/// The payload of a feedback segment.
pub fn feedback(data: &[u8]) {
    bodies::feedback::run(data);
}
