//! Bodies of the fuzz targets: plain functions over bytes, driven by libFuzzer (`fuzz_targets/`) and by ordinary tests
//! (`tests/targets.rs`).
//!
//! A body panics when the code under test does, or breaks the promise stated at the top of the body's file. Structured
//! bodies read their bytes as choices ([`input`]): every byte string is a scenario, and a longer one continues a
//! shorter one.

#![forbid(unsafe_code)]

pub mod connection;
pub mod emission;
pub mod feedback_session;
pub mod file_framing;
pub mod fountain_decoder;
pub mod input;
pub mod messages;
pub mod network;
pub mod raptor_decoder;
pub mod secure_files;
pub mod secure_handshake;
pub mod secure_packets;
pub mod seeds;
pub mod side;
pub mod streams;
pub mod wire;

/// A target: name and body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 15] = [
    ("wire_segment", wire::segment),
    ("wire_options", wire::options),
    ("wire_handshake", wire::handshake),
    ("wire_feedback", wire::feedback),
    ("secure_handshake", secure_handshake::run),
    ("secure_packets", secure_packets::run),
    ("secure_files", secure_files::run),
    ("fountain_decoder", fountain_decoder::run),
    ("raptor_decoder", raptor_decoder::run),
    ("file_framing", file_framing::run),
    ("connection", connection::sealed),
    ("connection_messages", connection::messages),
    ("connection_unsealed", connection::unsealed),
    ("connection_classic", connection::classic),
    ("feedback_session", feedback_session::run),
];
