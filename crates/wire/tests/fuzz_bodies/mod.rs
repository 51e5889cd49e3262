//! Bodies of the fuzz targets in `fuzz/fuzz_targets/wire_*.rs`, one file each. `properties.rs` runs them over arbitrary and mutated valid
//! bytes, so that they are exercised without libFuzzer.

pub(crate) mod feedback;
pub(crate) mod handshake;
pub(crate) mod options;
pub(crate) mod segment;
pub(crate) mod typed;
