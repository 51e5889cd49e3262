//! The bodies of the fuzz targets in `fuzz/fuzz_targets/wire_*.rs`, one file each. `properties.rs` runs them over
//! arbitrary and over mutated valid bytes, so that they are exercised where libFuzzer is not at hand.

pub(crate) mod feedback;
pub(crate) mod handshake;
pub(crate) mod options;
pub(crate) mod segment;
pub(crate) mod typed;
