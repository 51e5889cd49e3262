//! Decoders of `dfcp-wire`. Their bodies are in `crates/wire/tests/fuzz_bodies`, where the property tests of
//! `dfcp-wire` use them as well.

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod bodies;

/// Decodes a datagram, unchanged and with its integrity corrected.
pub fn segment(data: &[u8]) {
    bodies::segment::run(data);
}

/// Decodes the options of a segment; the first byte chooses the profile.
pub fn options(data: &[u8]) {
    bodies::options::run(data);
}

/// Decodes the payload of a modern SYN or SYNACK.
pub fn handshake(data: &[u8]) {
    bodies::handshake::run(data);
}

/// Decodes the payload of a feedback segment.
pub fn feedback(data: &[u8]) {
    bodies::feedback::run(data);
}
