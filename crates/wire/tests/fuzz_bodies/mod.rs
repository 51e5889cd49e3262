//! Bodies of the fuzz targets in `fuzz/fuzz_targets/wire_*.rs`, one file each. `properties.rs` also runs them, over
//! arbitrary bytes and over mutations of valid bytes, so that they are exercised without libFuzzer.

pub(crate) mod feedback;
pub(crate) mod handshake;
pub(crate) mod options;
pub(crate) mod segment;
pub(crate) mod typed;
