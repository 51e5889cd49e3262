//! Decoders of `dfcp-wire`. The bodies are in `crates/wire/tests/fuzz_bodies`, where that crate's own property tests
//! use them.

#[path = "../../crates/wire/tests/fuzz_bodies/mod.rs"]
mod bodies;

/// Decodes the input as a datagram, unchanged and with repaired integrity.
pub fn segment(data: &[u8]) {
    bodies::segment::run(data);
}

/// Decodes the input as the options of a segment; the first byte selects the profile.
pub fn options(data: &[u8]) {
    bodies::options::run(data);
}

/// Decodes the input as the payload of a modern SYN or SYNACK.
pub fn handshake(data: &[u8]) {
    bodies::handshake::run(data);
}

/// Decodes the input as the payload of a feedback segment.
pub fn feedback(data: &[u8]) {
    bodies::feedback::run(data);
}
