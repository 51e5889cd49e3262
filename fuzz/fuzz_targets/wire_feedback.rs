//! libFuzzer's door to `crates/wire/tests/fuzz_bodies/feedback.rs`.

#![no_main]

#[path = "../../crates/wire/tests/fuzz_bodies/feedback.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
