//! libFuzzer entry point of `dfcp_fuzz::file_framing::run`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dfcp_fuzz::file_framing::run(data));
