//! libFuzzer's door to `crates/wire/tests/fuzz_bodies/options.rs`.

#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/options.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
