//! libFuzzer entry point of `dfcp_fuzz::wire::feedback`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::wire::feedback(data));
